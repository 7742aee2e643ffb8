"""What a thread takes is counted where it lies, and what two threads need is counted for neither."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.kept_files import change_file, damage_content, seal

from lockstitch.state.home import Home, prepare_home
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.object_encoding import HEADER_BYTES
from lockstitch.state.objects import ObjectStore
from lockstitch.state.sizes import ThreadSize, measure_threads
from lockstitch.state.spill import SpillStore

ONE, TWO = "one", "two"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return prepare_home(tmp_path / "home")


def sizes(place: Home) -> dict[str, ThreadSize]:
    with open_ledger(place.ledger_db) as ledger:
        objects = ObjectStore(place.objects, ledger)
        return measure_threads(place, Journal(ledger, objects), objects, [ONE, TWO])


def test_a_home_without_checkpoints_takes_nothing(place: Home) -> None:
    assert sizes(place)[ONE].total == 0


def test_checkpoints_and_kept_texts_are_counted_to_the_byte(place: Home) -> None:
    with closing(sqlite3.connect(place.threads_db)) as database:
        database.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint BLOB, metadata BLOB)")
        database.execute("CREATE TABLE writes (thread_id TEXT, value BLOB)")
        database.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", (ONE, bytes(5_000), bytes(20)))
        database.executemany("INSERT INTO writes VALUES (?, ?)", [(ONE, bytes(300)), (TWO, bytes(7))])
        database.commit()
    SpillStore(place.spill, ONE).keep("x" * 40)
    assert sizes(place) == {
        ONE: ThreadSize(checkpoints=5_320, texts=40, contents=0),
        TWO: ThreadSize(checkpoints=7, texts=0, contents=0),
    }


def test_contents_that_two_threads_need_count_for_neither(place: Home) -> None:
    own, shared = os.urandom(900), os.urandom(1_000)
    change_file(place, ONE, "a", own, shared)
    change_file(place, TWO, "b", None, shared)
    assert sizes(place)[ONE].contents == len(own)
    assert sizes(place)[TWO].contents == 0


def test_a_large_content_counts_with_the_header_of_its_file(place: Home) -> None:
    large = os.urandom(100_000)
    change_file(place, ONE, "a", b"small", large)
    assert sizes(place)[ONE].contents == HEADER_BYTES + len(large) + len(b"small")


def test_a_content_that_is_missing_takes_nothing(place: Home) -> None:
    change_file(place, ONE, "a", None, b"gone")
    damage_content(place, b"gone")
    seal(place, ONE)
    assert sizes(place)[ONE].contents == 0
