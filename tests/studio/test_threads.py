import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kept_files import change_file

from lockstitch.state.home import prepare_home

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]


def test_threads_are_listed_the_latest_first(lockstitch: Lockstitch, scenario: Scenario, workspace: Path):
    scenario("- say: Done.")
    ids = [lockstitch("run", f"thing {n}", "--json").events[0]["thread_id"] for n in range(2)]
    rows = lockstitch("threads", "--json").events
    assert [row["thread_id"] for row in rows] == ids[::-1]
    assert {row["workspace"] for row in rows} == {str(workspace.resolve())}
    assert rows[0]["reason"] == "answered"
    out = lockstitch("threads").out
    assert out.index(ids[1]) < out.index(ids[0])
    assert "answered" in out
    assert "1 step" in out


def test_the_limit_holds(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: Done.")
    for _ in range(3):
        lockstitch("run", "go")
    assert len(lockstitch("threads", "--limit", "2", "--json").events) == 2


def test_a_title_cannot_command_the_terminal(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: Done.")
    lockstitch("run", "clear \x1b[2J it")
    done = lockstitch("threads")
    assert r"clear \x1b[2J it" in done.out
    assert "\x1b" not in done.out


def test_sizes_are_told_when_they_are_asked_for(lockstitch: Lockstitch, scenario: Scenario, home: Path):
    scenario("- say: Done.")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    change_file(prepare_home(home), thread_id, "a", None, os.urandom(100))
    assert "size" not in lockstitch("threads", "--json").events[0]
    size = lockstitch("threads", "--sizes", "--json").events[0]["size"]
    assert size["total"] == size["checkpoints"] + size["texts"] + size["contents"]
    assert size["checkpoints"] > 1_000
    assert size["contents"] > 0
    out = lockstitch("threads", "--sizes").out
    assert "checkpoints " in out
    assert "files 0.1 kB" in out
    assert out.splitlines()[-1].startswith("1 thread, ")
    assert "checkpoints" not in lockstitch("threads").out
