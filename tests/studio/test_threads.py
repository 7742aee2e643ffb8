from collections.abc import Callable
from pathlib import Path
from typing import Any

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
