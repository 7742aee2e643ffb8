"""What SQLite's errors mean for the person who runs the program."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest

from lockstitch.state.database_file import connect_database, database_faults, explain_fault, make_private
from lockstitch.state.errors import HomeUnusableError, SystemFaultError, TerminalError


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code  # as SQLite's own errors carry it
    return error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_CANTOPEN, HomeUnusableError, "LOCKSTITCH_HOME"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, HomeUnusableError, "LOCKSTITCH_HOME"),
        (sqlite3.SQLITE_NOTADB, SystemFaultError, "no SQLite database"),
        (sqlite3.SQLITE_CORRUPT, SystemFaultError, "damaged"),
        (sqlite3.SQLITE_FULL, SystemFaultError, "disk is full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, SystemFaultError, "locked by another process"),
        (sqlite3.SQLITE_IOERR_READ, SystemFaultError, "the disk reports an error"),
        (sqlite3.SQLITE_ERROR, SystemFaultError, "disk I/O error"),
    ],
)
def test_fault_is_told_in_one_line(code: int, kind: type[TerminalError], words: str) -> None:
    told = explain_fault("threads.db", sqlite_error(code))
    assert type(told) is kind
    assert words in told.message
    assert told.message.startswith("threads.db in the home folder ")
    assert "\n" not in told.message


def test_error_of_a_block_that_is_not_sqlites_passes_through() -> None:
    with pytest.raises(KeyError), database_faults("threads.db"):
        raise KeyError


def test_misuse_of_a_connection_stays_a_programmers_error() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError), database_faults("threads.db"):
        connection.execute("SELECT 1")


def test_file_that_another_process_is_about_to_switch_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE t (x)")
    release = Timer(0.05, other.close)  # SQLite itself would refuse before that
    release.start()
    with closing(connect_database(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    release.join()


def test_rights_of_others_are_taken_away(tmp_path: Path) -> None:
    file = tmp_path / "threads.db"
    file.touch(mode=0o644)
    make_private(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusableError, match="cannot be made private"):
        make_private(tmp_path / "threads.db")
