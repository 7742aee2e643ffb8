"""Homes damaged for real: each fault is told, nothing is changed unasked, and what can be mended is."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kept_files import change_file, damage_content, file_node, open_objects

from lockstitch.state.content_files import FRESH_S
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import ThreadIndex, new_thread_id
from lockstitch.tools.changes.layer_folder import LAYERS, PREFIX

Lockstitch = Callable[..., Any]
PAGE = 4096


@pytest.fixture
def place(home: Path) -> Home:
    return prepare_home(home)


@pytest.fixture
def thread_id(lockstitch: Lockstitch, scenario: Callable[[str], str]) -> str:
    scenario("- calls: [{tool: get_tasks, args: {}}]\n- say: Done.\n- say: More.")
    return str(lockstitch("run", "go", "--json").events[0]["thread_id"])


def check_that_it_mends(lockstitch: Lockstitch, told: str, done: str) -> None:
    """Told by a look, mended only with a yes, and gone afterwards."""
    refused = lockstitch("doctor", "--repair")
    assert (refused.code, told in refused.out, "--yes" in refused.err) == (2, True, True), refused
    again = lockstitch("doctor", "--repair", "--yes")
    assert (again.code, told in again.out, done in again.out) == (0, True, True), again
    assert lockstitch("doctor", "--repair").out == "Nothing is wrong with the home folder.\n"


def test_a_whole_home_has_nothing_to_mend(lockstitch: Lockstitch, thread_id: str) -> None:
    done = lockstitch("doctor", "--repair")
    assert (done.code, done.out) == (0, "Nothing is wrong with the home folder.\n")


def test_an_empty_home_has_nothing_to_mend(lockstitch: Lockstitch) -> None:
    assert lockstitch("doctor", "--repair").out == "Nothing is wrong with the home folder.\n"


def test_modes_that_let_others_look_in_are_closed(
    lockstitch: Lockstitch, thread_id: str, place: Home
) -> None:
    place.threads_db.chmod(0o644)
    place.locks.chmod(0o755)
    assert "others may look into" in lockstitch("doctor").out
    check_that_it_mends(lockstitch, "others may look into", "places closed to others")
    assert (place.threads_db.stat().st_mode & 0o777, place.locks.stat().st_mode & 0o777) == (0o600, 0o700)


def damage(path: Path, page: int) -> None:
    """Overwrite a page, counted from the end where negative, once the log is in the file."""
    with path.open("r+b") as file:
        file.seek(page * PAGE, os.SEEK_END if page < 0 else os.SEEK_SET)
        file.write(b"\xff" * PAGE)


def test_a_corrupt_page_of_checkpoints_costs_no_other_thread(
    lockstitch: Lockstitch, scenario: Callable[[str], str], place: Home
) -> None:
    scenario("- say: Done.")
    ids = [lockstitch("run", f"go {n}", "--json").events[0]["thread_id"] for n in range(6)]
    lockstitch("vacuum")
    leaves = [
        n
        for n in range(1, place.threads_db.stat().st_size // PAGE)
        if place.threads_db.read_bytes()[n * PAGE] == 0x0D
    ]
    damage(place.threads_db, leaves[0])
    assert "threads.db: " in lockstitch("doctor").out
    told = [lockstitch("show", thread_id) for thread_id in ids]
    assert all("bug" not in one.err for one in told)
    assert any("doctor --repair" in one.err for one in told)
    done = lockstitch("doctor", "--repair", "--yes")
    assert "the old file is threads.db.damaged" in done.out
    assert (place.path / "threads.db.damaged").exists()
    whole = [lockstitch("show", thread_id, "--json") for thread_id in ids]
    assert sum(one.code == 0 and one.events[0]["final_answer"] == "Done." for one in whole) >= 3
    assert lockstitch("run", "new").code == 0


def test_a_ledger_that_is_lost_is_listed_anew_from_the_checkpoints(
    lockstitch: Lockstitch, thread_id: str, place: Home
) -> None:
    (before,) = lockstitch("threads", "--json").events
    lockstitch("vacuum")
    damage(place.ledger_db, 0)
    assert "doctor --repair" in lockstitch("threads").err
    done = lockstitch("doctor", "--repair", "--yes")
    assert "the old file is ledger.db.damaged" in done.out
    assert f"thread {thread_id} is listed again" in done.out
    assert done.code == 0, done.out
    (after,) = lockstitch("threads", "--json").events
    same = ("thread_id", "title", "workspace", "steps", "phase", "reason")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert lockstitch("run", "--thread", thread_id, "more").code == 0


def test_a_thread_that_is_in_no_list_is_listed_again(
    lockstitch: Lockstitch, thread_id: str, place: Home
) -> None:
    with open_ledger(place.ledger_db) as ledger:
        ThreadIndex(ledger).forget(thread_id)
    check_that_it_mends(lockstitch, "is in no list", "is listed again")
    assert lockstitch("threads", "--json").events[0]["thread_id"] == thread_id


def test_a_row_without_checkpoints_goes(lockstitch: Lockstitch, thread_id: str, place: Home) -> None:
    from dataclasses import replace

    with open_ledger(place.ledger_db) as ledger:
        row = ThreadIndex(ledger).find(thread_id)
        assert row is not None
        ThreadIndex(ledger).record(replace(row, thread_id=new_thread_id()))
    check_that_it_mends(lockstitch, "is listed and has no checkpoint", "is not listed any more")
    assert [row["thread_id"] for row in lockstitch("threads", "--json").events] == [thread_id]


@pytest.mark.parametrize("content", [b"still there" * 50, b"still there" * 5000], ids=["row", "file"])
def test_a_lost_content_is_kept_again_from_the_file_that_has_it(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path, content: bytes
) -> None:
    change_file(place, thread_id, "a.txt", None, content, workspace=workspace)
    (workspace / "a.txt").write_bytes(content)
    damage_content(place, content)
    assert "a.txt is lost" in lockstitch("doctor").out
    check_that_it_mends(lockstitch, "a.txt still has it", "is kept again, from a.txt")
    with open_objects(place) as objects:
        assert objects.read(file_node(content).digest) == content


@pytest.mark.parametrize("content", [b"tiny", b"large" * 5000], ids=["row", "file"])
def test_a_content_that_was_changed_and_not_cut_is_found_by_reading_it(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path, content: bytes
) -> None:
    change_file(place, thread_id, "a.txt", None, content, workspace=workspace)
    (workspace / "a.txt").write_bytes(content)
    damage_content(place, content, lose=False)
    check_that_it_mends(lockstitch, "a.txt still has it", "is kept again")


def test_of_a_content_that_nobody_has_the_steps_are_told(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path
) -> None:
    change_file(place, thread_id, "a.txt", b"before", b"after", workspace=workspace)
    damage_content(place, b"before")
    done = lockstitch("doctor", "--repair", "--yes")
    assert (done.code, "a.txt is lost: rewind cannot restore it" in done.out) == (1, True)
    assert f"write_file of 2026-05-31T12:00:00 in thread {thread_id}" in done.out


def test_a_change_that_was_cut_off_is_finished(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path
) -> None:
    (workspace / "a.txt").write_bytes(b"before")
    (workspace / "a.txt").chmod(0o644)
    (effect,) = change_file(
        place, thread_id, "a.txt", b"before", b"after", workspace=workspace, status="sealed"
    )
    check_that_it_mends(lockstitch, "write_file on a.txt was cut off", "write_file on a.txt is finished")
    assert (workspace / "a.txt").read_bytes() == b"after"
    with open_ledger(place.ledger_db) as ledger:
        assert Journal(ledger, ObjectStore(place.objects, ledger)).position(thread_id) == effect


def test_a_change_on_a_file_that_somebody_changed_is_left_alone(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path
) -> None:
    (workspace / "a.txt").write_bytes(b"a person's")
    change_file(place, thread_id, "a.txt", b"before", b"after", workspace=workspace, status="sealed")
    done = lockstitch("doctor", "--repair", "--yes")
    assert (done.code, "somebody else has changed a.txt since" in done.out) == (1, True)
    assert (workspace / "a.txt").read_bytes() == b"a person's"


def test_a_change_of_a_thread_that_runs_is_left_to_it(
    lockstitch: Lockstitch, thread_id: str, place: Home, workspace: Path
) -> None:
    (workspace / "a.txt").write_bytes(b"before")
    change_file(place, thread_id, "a.txt", b"before", b"after", workspace=workspace, status="sealed")
    with hold_thread(place.locks, thread_id, holder="lockstitch run"):
        assert lockstitch("doctor", "--repair", "--yes").out == "Nothing is wrong with the home folder.\n"
    assert (workspace / "a.txt").read_bytes() == b"before"


def test_half_written_files_go_once_they_are_old(lockstitch: Lockstitch, thread_id: str, place: Home) -> None:
    change_file(place, thread_id, "a", None, b"content" * 5000)
    spill = place.spill / thread_id
    SpillStore(place.spill, thread_id).keep("long")
    drafts = [place.objects / ".0123456789abcdef.tmp", spill / ".0123456789abcdef.01234567"]
    for draft in drafts:
        draft.write_bytes(b"half")
        draft.chmod(0o600)
    assert lockstitch("doctor", "--repair").out == "Nothing is wrong with the home folder.\n"
    for draft in drafts:
        os.utime(draft, (0, time.time() - 2 * FRESH_S))
    check_that_it_mends(lockstitch, "2 half-written files", "2 files deleted")
    assert not any(draft.exists() for draft in drafts)


def test_locks_of_threads_that_are_gone_are_deleted(
    lockstitch: Lockstitch, thread_id: str, place: Home
) -> None:
    gone, begun = new_thread_id(), new_thread_id()
    for one in (gone, begun):
        with hold_thread(place.locks, one, holder="a run that was killed"):
            pass
    with hold_thread(place.locks, begun, holder="a run that begins"):
        done = lockstitch("doctor", "--repair", "--yes")
    assert "1 lock file of threads that are gone" in done.out
    assert {path.stem for path in place.locks.iterdir()} == {thread_id, begun}


@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="layers are overlays, which only Linux has")
def test_layers_that_killed_commands_left_go_but_not_those_that_wait(
    lockstitch: Lockstitch, scenario: Callable[[str], str], place: Home
) -> None:
    waits = f"{PREFIX}0123456789ab"
    scenario("- say: Nothing waits.")
    lockstitch("run", "go")
    for name in (waits, f"{PREFIX}fedcba987654"):
        (place.path / LAYERS / name / "upper").mkdir(parents=True)
    (place.path / LAYERS / waits / "owner").write_text("a thread")
    for folder in (place.path / LAYERS, *(place.path / LAYERS).iterdir()):
        folder.chmod(0o700)
    check_that_it_mends(lockstitch, "1 layer of commands that were cut off", "1 layer deleted")
    assert [path.name for path in (place.path / LAYERS).iterdir()] == [waits]


def test_a_damaged_database_in_use_is_left(lockstitch: Lockstitch, thread_id: str, place: Home) -> None:
    lockstitch("vacuum")
    damage(place.threads_db, 0)
    with hold_thread(place.locks, thread_id, holder="lockstitch run"):
        done = lockstitch("doctor", "--repair", "--yes")
    assert (done.code, "lockstitch run" in done.out) == (1, True)
    assert not (place.path / "threads.db.damaged").exists()
