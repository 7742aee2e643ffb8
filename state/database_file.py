"""A SQLite file of the home: private to its owner, patient with others, its faults told in one line."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from lockstitch.state.errors import HomeUnusableError, SystemFaultError, TerminalError

# Seconds to wait for another process's write. 32 processes writing at once waited 1.8 s at worst; with the
# 5 s that Python takes by default 64 of them met `database is locked`.
BUSY_TIMEOUT_S: Final = 30.0
FILE_MODE: Final = 0o600
RETRY_S: Final = 0.01  # between two tries to switch a new file to WAL, which takes about a millisecond
_PRIMARY_CODE: Final = 0xFF  # the low byte of SQLite's extended error codes

_CANNOT_OPEN: Final = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
)
_FAULTS: Final = {
    sqlite3.SQLITE_NOTADB: "is no SQLite database. `lockstitch doctor --repair` saves what can be read",
    sqlite3.SQLITE_CORRUPT: "is damaged. `lockstitch doctor --repair` saves what can be read",
    sqlite3.SQLITE_FULL: "could not be written: the disk is full. Free some space, then go on",
    sqlite3.SQLITE_BUSY: "is kept locked by another process. End that process, then try again",
    sqlite3.SQLITE_LOCKED: "is kept locked by another process. End that process, then try again",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error",
}


def connect_database(path: Path) -> sqlite3.Connection:
    """Open or create the file at `path`: private, in WAL mode, each statement its own transaction.

    Any thread may use the connection; the caller lets one at a time.

    Raises:
        HomeUnusableError: the file cannot be opened for writing.
        SystemFaultError: it is damaged or locked, or the disk failed.
    """
    with ExitStack() as stack, database_faults(path.name):
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        stack.callback(connection.close)
        make_private(path)
        _switch_to_wal(connection)
        stack.pop_all()
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Where two processes switch a new file at once, SQLite refuses one of them without any patience."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
        else:
            return


def make_private(path: Path) -> None:
    """Take the rights of others away from a file of ours.

    By path, and never by opening it: closing any handle of a SQLite file drops all locks that this process
    holds on it. SQLite gives the files beside it (`-wal`, `-shm`) the same mode when it makes them, so this
    comes between connecting and the first statement.

    Raises:
        HomeUnusableError: the mode cannot be changed.
    """
    try:
        found = path.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            path.chmod(FILE_MODE)
    except OSError as error:
        raise HomeUnusableError(
            f"{path.name} in the home folder cannot be made private: {error.strerror}."
        ) from error


@contextmanager
def database_faults(name: str) -> Iterator[None]:
    """Turn SQLite's errors on the file `name` into ours.

    Raises:
        HomeUnusableError: the file cannot be opened for writing.
        SystemFaultError: it is damaged, locked, or the disk failed.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # our own mistake, not the file's
    except sqlite3.Error as error:
        raise explain_fault(name, error) from error


def explain_fault(name: str, error: sqlite3.Error) -> TerminalError:
    """What `error` means for the person who runs this program."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    if code in _CANNOT_OPEN:
        return HomeUnusableError(
            f"{name} in the home folder cannot be opened for writing. "
            "Set LOCKSTITCH_HOME to a folder you can write."
        )
    return SystemFaultError(f"{name} in the home folder {_FAULTS.get(code, f'failed: {error}')}.")
