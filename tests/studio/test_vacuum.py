from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockstitch.state.home import prepare_home
from lockstitch.state.reasons import EXIT_THREAD_BUSY
from lockstitch.state.thread_lock import hold_thread

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]


def test_what_was_freed_is_told(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: Done.")
    lockstitch("run", "go")
    done = lockstitch("vacuum")
    names = [line.split()[0] for line in done.out.splitlines()]
    assert (done.code, names[:-1]) == (0, ["objects", "threads.db", "ledger.db", "events.db"])
    assert done.out.endswith(" freed.\n")


def test_a_thread_that_is_being_written_stands_in_the_way(
    lockstitch: Lockstitch, scenario: Scenario, home: Path
):
    scenario("- say: Done.")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    with hold_thread(prepare_home(home).locks, thread_id, holder="lockstitch chat"):
        done = lockstitch("vacuum")
    assert (done.code, "lockstitch chat" in done.err, done.out) == (EXIT_THREAD_BUSY, True, "")
