"""A person's word in a talk on the processes of its thread."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstitch.tools import background

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]
SERVES_AND_ASKS = """
- calls: [{tool: start_process, args: {command: "sleep 60; :"}}]
- calls: [{tool: request_input, args: {question: "Which?"}}]
- say: Done.
"""
SERVES = """
- calls: [{tool: start_process, args: {command: "sleep 60; :"}}]
- say: Done.
"""


@pytest.fixture(autouse=True)
def unattended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_S", 0.02)
    monkeypatch.setenv("LOCKSTITCH_UNSANDBOXED_COMMANDS", "allow")


def test_a_process_is_listed_kept_and_ended(lockstitch: Lockstitch, scenario: Scenario):
    scenario(SERVES_AND_ASKS)
    lines = ("go", "/processes", "/keep p1", "/processes", "/end p1", "/processes", "/keep p1")
    done = lockstitch("chat", "--mode", "auto", stdin="".join(f"{line}\n" for line in lines))
    assert "p1  running  sleep 60; :" in done.out
    assert "p1 goes on after the run, and ends when you leave, or by /end." in done.out
    assert "p1  running, kept  sleep 60; :" in done.out
    assert "p1 has ended." in done.out
    assert "p1  ended  sleep 60; :" in done.out
    assert "there is nothing to keep" in done.err


def test_it_ends_with_its_run_when_nobody_keeps_it(lockstitch: Lockstitch, scenario: Scenario):
    scenario(SERVES)
    done = lockstitch("chat", "--mode", "auto", stdin="go\n/processes\n/end p1\n/keep\n")
    assert "It ends with this run" in done.out
    assert "No process runs." in done.out
    assert "there is no process p1. There are: none." in done.err
    assert "name a process: /processes lists them." in done.err
