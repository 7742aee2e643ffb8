"""Space comes back; what anybody needs stays; a home in use is left alone."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.kept_files import change_file, file_node, open_objects

from lockstitch.state.content_files import FRESH_S
from lockstitch.state.database_file import connect_database
from lockstitch.state.errors import SystemFaultError, ThreadBusyError
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import new_thread_id
from lockstitch.state.vacuum import vacuum_home

LARGE = 200_000  # bytes that are deleted


@pytest.fixture
def place(tmp_path: Path) -> Home:
    home = prepare_home(tmp_path / "home")
    for name in ("threads.db", "events.db"):
        with closing(connect_database(home.path / name)) as database:
            database.execute("CREATE TABLE t (x BLOB)")
            database.execute("INSERT INTO t VALUES (?)", (os.urandom(LARGE),))
            database.execute("DELETE FROM t")
    return home


def age(place: Home) -> None:
    """Let all contents be older than what is kept for others."""
    then = time.time() - 2 * FRESH_S
    for path in place.objects.glob("??/*"):
        os.utime(path, (then, then))
    with open_ledger(place.ledger_db) as ledger:
        ledger.execute("UPDATE contents SET needed_at = ?", (then,))


def test_free_pages_and_unneeded_contents_are_given_back(place: Home) -> None:
    needed = os.urandom(LARGE)
    change_file(place, "t", "a", None, needed, b"needed")
    with open_objects(place) as objects:
        strays = [objects.put(os.urandom(LARGE)), objects.put(b"small")]
    age(place)
    done = {file.name: file for file in vacuum_home(place)}
    assert set(done) == {"objects", "threads.db", "ledger.db", "events.db"}
    assert all(done[name].freed > LARGE * 0.9 for name in ("objects", "threads.db", "events.db"))
    with open_objects(place) as objects:
        assert not any(map(objects.has, strays))
        assert objects.read(file_node(needed).digest) == needed
        assert objects.read(file_node(b"needed").digest) == b"needed"
    assert len(list(place.objects.glob("??/*"))) == 1


def test_a_content_that_was_just_put_stays(place: Home) -> None:
    change_file(place, "t", "a", None, b"needed")
    contents = (b"another process will name it", os.urandom(LARGE))
    with open_objects(place) as objects:
        strays = [objects.put(content) for content in contents]
    vacuum_home(place)
    with open_objects(place) as objects:
        assert all(map(objects.has, strays))


def test_while_a_thread_is_written_nothing_is_touched(place: Home) -> None:
    thread_id, before = new_thread_id(), (place.threads_db).stat().st_size
    with (
        hold_thread(place.locks, thread_id, holder="lockstitch run"),
        pytest.raises(ThreadBusyError, match=f"{thread_id} is being written by lockstitch run"),
    ):
        vacuum_home(place)
    assert place.threads_db.stat().st_size == before


def test_another_programs_write_is_told_and_not_waited_for_long(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstitch.state.vacuum.WRITER_WAIT_MS", 1)
    with closing(sqlite3.connect(place.threads_db, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(SystemFaultError, match="kept locked by another process"):
            vacuum_home(place)


def test_a_home_without_anything_has_nothing_to_give(tmp_path: Path) -> None:
    assert vacuum_home(prepare_home(tmp_path / "new")) == []


def test_a_foreign_file_among_the_locks_does_no_harm(place: Home) -> None:
    place.locks.mkdir()
    (place.locks / "notes.lock").write_text("mine")
    assert vacuum_home(place)
