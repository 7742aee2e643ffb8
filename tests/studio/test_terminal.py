"""A person at a real terminal: approvals, questions, the talk."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]
Scenario = Callable[[str], str]

ASKS = """
- say: I delete it.
  calls: [{tool: delete_file, args: {path: old.txt}}]
- say: All done.
"""
QUESTION = """
- calls: [{tool: request_input, args: {question: "Which title?"}}]
- capture: {title: '\\S.*'}
  say: "Called ${title}."
"""
DECIDE = "[q] leave waiting: "


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    """One that understands no colours, with a file to delete."""
    monkeypatch.setenv("TERM", "dumb")
    (workspace / "old.txt").write_text("x")


def test_an_approved_call_runs_and_the_run_goes_on(terminal: Start, scenario: Scenario, workspace: Path):
    scenario(ASKS)
    person = terminal("run", "go")
    person.expect("delete_file waits for your word")
    person.expect(DECIDE)
    person.type("a")
    person.expect("All done.")
    assert person.code() == 0
    assert not (workspace / "old.txt").exists()


def test_edited_arguments_are_the_ones_that_run(terminal: Start, scenario: Scenario, workspace: Path):
    scenario(ASKS)
    (workspace / "other.txt").write_text("y")
    person = terminal("run", "go")
    person.expect(DECIDE)
    person.type("e")
    person.expect('{"path": "old.txt"}')
    person.type("\x15" + '{"path": "other.txt"}')  # Ctrl-U: away with what stands there
    person.expect("All done.")
    assert person.code() == 0
    assert (workspace / "old.txt").exists()
    assert not (workspace / "other.txt").exists()


def test_a_rejection_tells_the_model_why(terminal: Start, scenario: Scenario, workspace: Path):
    scenario(ASKS)
    person = terminal("run", "go")
    person.expect(DECIDE)
    person.type("r")
    person.expect("why not: ")
    person.type("too early")
    person.expect("said no to this call: too early")
    assert person.code() == 0
    assert (workspace / "old.txt").exists()


def test_what_waits_can_be_left_and_taken_up_again(terminal: Start, scenario: Scenario):
    scenario(QUESTION)
    person = terminal("run", "go")
    person.expect("your answer: ")
    person.type("\x04")
    assert person.code() == 7
    assert "--answer TEXT" in person.shown
    again = terminal("run", "--continue")
    again.expect("Which title?")
    again.expect("your answer: ")
    again.type("The Sea")
    again.expect("Called The Sea.")
    assert again.code() == 0


def test_typing_before_the_question_is_no_answer(terminal: Start, scenario: Scenario, workspace: Path):
    scenario(ASKS)
    person = terminal("run", "go")
    person.type("a")
    person.expect(DECIDE)
    person.type("q")
    assert person.code() == 7
    assert (workspace / "old.txt").exists()


def test_nobody_answering_leaves_the_thread_waiting(
    terminal: Start, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
):
    scenario(QUESTION)
    monkeypatch.setenv("LOCKSTITCH_REQUEST_INPUT_TIMEOUT_S", "1")
    person = terminal("run", "go")
    person.expect("Nobody answered within 1 s; the thread stays waiting.")
    assert person.code() == 7


def test_ctrl_c_at_the_question_leaves_it_waiting(terminal: Start, scenario: Scenario):
    scenario(QUESTION)
    person = terminal("run", "go")
    person.expect("your answer: ")
    person.interrupt("--answer TEXT")
    assert person.code() == 130
    assert "Traceback" not in person.shown


def test_a_hail_of_ctrl_c_at_the_question_cuts_nothing_off(terminal: Start, scenario: Scenario):
    scenario(QUESTION)
    person = terminal("run", "go")
    person.expect("your answer: ")
    person.interrupt_without_end()
    assert person.code() == 130
    assert "--answer TEXT" in person.shown
    assert "Traceback" not in person.shown


def test_a_talk_goes_on_on_one_thread(terminal: Start, scenario: Scenario):
    scenario("- say: One.\n- say: Two.")
    person = terminal("chat")
    person.expect("> ")
    person.type("")
    person.expect("> ")
    person.type("first")
    person.expect("One.")
    person.expect("> ")
    person.type("second")
    person.expect("Two.")
    person.expect("> ")
    person.type("/exit")
    person.expect("Go on: lockstitch run --thread ")
    assert person.code() == 0


def test_ctrl_c_in_a_talk_stops_the_run_and_asks_again(
    terminal: Start, scenario: Scenario, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOCKSTITCH_UNSANDBOXED_COMMANDS", "allow")
    scenario('- calls: [{tool: run_command, args: {command: "exec sleep 30"}}]')
    person = terminal("chat", "--mode", "auto")
    person.expect("> ")
    person.type("go")
    person.expect("run_command command=exec sleep 30")
    os.kill(person.process.pid, signal.SIGINT)
    person.expect("Stopped; the thread is kept.")
    person.expect("> ")
    person.type("and now?")
    person.expect("answered · 1 step")
    person.expect("> ")
    person.type("\x04")
    assert person.code() == 0


def test_colours_are_used_at_a_terminal_unless_the_person_wants_none(
    terminal: Start, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
):
    scenario("- say: Hello.")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = terminal("run", "go")
    assert coloured.code() == 0
    assert "\x1b[" in coloured.shown
    monkeypatch.setenv("NO_COLOR", "1")
    plain = terminal("run", "go")
    assert plain.code() == 0
    assert not [code for code in ("\x1b[3", "\x1b[1;3", "\x1b[38") if code in plain.shown]
