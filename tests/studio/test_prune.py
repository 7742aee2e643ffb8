"""`lockstitch prune` and `lockstitch clear` at the command line: they ask, and do what was said."""

from collections.abc import Callable
from typing import Any

import pytest

Lockstitch = Callable[..., Any]


@pytest.fixture
def thread_id(lockstitch: Lockstitch, scenario: Callable[[str], str]) -> str:
    scenario("- say: Done.\n- say: Again.")
    return str(lockstitch("run", "go \x1b[2J on", "--json").events[0]["thread_id"])


def test_idle_threads_are_listed_and_kept_in_a_dry_run(lockstitch: Lockstitch, thread_id: str) -> None:
    done = lockstitch("prune", "--idle-hours", "0", "--dry-run")
    assert (done.code, thread_id in done.out, "1 thread, " in done.out) == (0, True, True)
    assert r"go \x1b[2J on" in done.out
    assert len(lockstitch("threads", "--json").events) == 1


def test_a_fresh_thread_is_not_idle(lockstitch: Lockstitch, thread_id: str) -> None:
    assert lockstitch("prune", "--yes").out == "No thread rested for 24 hours.\n"
    assert len(lockstitch("threads", "--json").events) == 1


def test_nothing_is_pruned_unasked(lockstitch: Lockstitch, thread_id: str) -> None:
    done = lockstitch("prune", "--idle-hours", "0")
    assert (done.code, thread_id in done.out, "--yes" in done.err) == (2, True, True)
    assert len(lockstitch("threads", "--json").events) == 1


def test_what_was_pruned_is_told(lockstitch: Lockstitch, thread_id: str) -> None:
    done = lockstitch("prune", "--idle-hours", "0", "--yes")
    assert "Deleted 1 thread; " in done.out
    assert lockstitch("threads", "--json").events == []
    assert lockstitch("show", thread_id).code == 2


def test_a_thread_is_cleared_and_stays(lockstitch: Lockstitch, thread_id: str) -> None:
    assert "--yes" in lockstitch("clear", thread_id).err
    assert lockstitch("show", thread_id, "--json").events[0]["final_answer"] == "Done."
    assert lockstitch("clear", thread_id, "--yes").out == "Cleared.\n"
    shown = lockstitch("show", thread_id, "--json").events[0]
    assert (shown["final_answer"], shown["steps"], shown["phase"]) == ("", [], "idle")
    (row,) = lockstitch("threads", "--json").events
    assert (row["thread_id"], row["steps"], row["phase"]) == (thread_id, 0, "idle")
    assert lockstitch("run", "--thread", thread_id, "and on").code == 0


def test_an_unknown_thread_is_told(lockstitch: Lockstitch) -> None:
    done = lockstitch("clear", "11111111-1111-4111-8111-111111111111", "--yes")
    assert (done.code, "there is no thread" in done.err) == (2, True)


@pytest.mark.parametrize(("typed", "left"), [("y", 0), ("n", 1), ("", 1)])
def test_a_person_at_the_terminal_is_asked(
    terminal: Callable[..., Any], lockstitch: Lockstitch, thread_id: str, typed: str, left: int
) -> None:
    person = terminal("prune", "--idle-hours", "0")
    person.expect("[y/N] ")
    person.type(typed)
    assert person.code() == 0
    assert len(lockstitch("threads", "--json").events) == left


@pytest.mark.parametrize("hours", ["nan", "1e12", "inf"])
def test_a_number_of_hours_that_is_none_is_wrong_usage(lockstitch: Lockstitch, hours: str) -> None:
    done = lockstitch("prune", "--idle-hours", hours, "--yes")
    assert (done.code, "bug" in done.err) == (2, False)


def test_an_age_is_given_in_minutes_hours_or_days(lockstitch: Lockstitch, thread_id: str) -> None:
    assert lockstitch("prune", "--older-than", "7d", "--yes").out == "No thread rested for 168 hours.\n"
    assert lockstitch("prune", "--older-than", "30m", "--yes").out == "No thread rested for 0.5 hours.\n"
    assert "Deleted 1 thread; " in lockstitch("prune", "--older-than", "0h", "--yes").out


@pytest.mark.parametrize("age", ["7", "week", "-1d", "9999999d"])
def test_an_age_that_is_none_is_wrong_usage(lockstitch: Lockstitch, age: str) -> None:
    done = lockstitch("prune", "--older-than", age, "--yes")
    assert (done.code, "`7d`" in done.err) == (2, True)


def test_the_newest_threads_can_be_kept(lockstitch: Lockstitch, scenario: Callable[[str], str]) -> None:
    scenario("- say: Done.")
    old, *new = [lockstitch("run", f"{n}", "--json").events[0]["thread_id"] for n in range(3)]
    listed = lockstitch("prune", "--older-than", "0h", "--keep", "2", "--dry-run").out
    assert [thread in listed for thread in (old, *new)] == [True, False, False]
    assert "Deleted 1 thread; " in lockstitch("prune", "--older-than", "0h", "--keep", "2", "--yes").out
    assert {row["thread_id"] for row in lockstitch("threads", "--json").events} == set(new)
    done = lockstitch("prune", "--older-than", "0h", "--keep", "2", "--yes")
    assert done.out == "No thread beyond the last 2 rested for 0 hours.\n"
