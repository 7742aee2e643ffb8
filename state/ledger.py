"""The ledger: facts that outlive a run beside its checkpoints, in one SQLite file that survives a power cut.

sqlite-utils serves queries for people alone: its import costs 0.16 s of CPU, and brings numpy along, whose
threads and 25 MB no run needs.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockstitch.state.database_file import connect_database, database_faults
from lockstitch.state.errors import SystemFaultError, TerminalError
from lockstitch.state.locked_database import LockedDatabase, one_change

if TYPE_CHECKING:
    from sqlite_utils import Database

NAME: Final = "ledger.db"
AUDIT_TRIGGERS: Final = {
    "audit_no_delete": "DELETE ON audit",
    "audit_no_update": "UPDATE ON audit",
    # INSERT OR REPLACE deletes a row without a word to the first one
    "audit_no_replace": "INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)",
}


def create_trigger(name: str) -> str:
    """The statement that makes one of the audit's triggers."""
    refuse = "SELECT RAISE(ABORT, 'the audit is append-only')"
    return f"CREATE TRIGGER {name} BEFORE {AUDIT_TRIGGERS[name]} BEGIN {refuse}; END"


# Step n, one statement or more, leads from schema n to n + 1. Ledgers of earlier versions exist: add a step,
# never change one.
SCHEMA_STEPS: Final[tuple[tuple[str, ...], ...]] = (
    (
        (
            "CREATE TABLE threads (thread_id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL,"
            " workspace TEXT NOT NULL, model TEXT NOT NULL, strategy TEXT NOT NULL, mode TEXT NOT NULL,"
            " door TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, steps INTEGER NOT NULL,"
            " phase TEXT NOT NULL, reason TEXT) STRICT"
        ),
        "CREATE INDEX idx_threads_workspace_updated_at ON threads (workspace, updated_at)",
        "CREATE INDEX idx_threads_updated_at ON threads (updated_at)",
    ),
    (
        (
            "CREATE TABLE intents (thread_id TEXT NOT NULL, checkpoint_id TEXT NOT NULL,"
            " call_id TEXT NOT NULL, begun_at TEXT NOT NULL,"
            " PRIMARY KEY (thread_id, checkpoint_id, call_id)) STRICT"
        ),
    ),
    (
        (
            "CREATE TABLE audit (id INTEGER PRIMARY KEY, timestamp TEXT NOT NULL, thread_id TEXT NOT NULL,"
            " run_id TEXT NOT NULL, step INTEGER NOT NULL, call_id TEXT NOT NULL, door TEXT NOT NULL,"
            " workspace TEXT NOT NULL, tool TEXT NOT NULL, outcome TEXT NOT NULL, time_ms REAL NOT NULL,"
            " path TEXT, host TEXT, command TEXT) STRICT"
        ),
        "CREATE INDEX idx_audit_thread_id ON audit (thread_id)",
        *map(create_trigger, AUDIT_TRIGGERS),
    ),
    (
        (
            "CREATE TABLE effects (id TEXT PRIMARY KEY NOT NULL, thread_id TEXT NOT NULL,"
            " parent TEXT NOT NULL, checkpoint_id TEXT NOT NULL, call_id TEXT NOT NULL,"
            " tool TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,"
            " at TEXT NOT NULL, workspace TEXT NOT NULL, result TEXT NOT NULL,"
            " changes BLOB NOT NULL) STRICT"
        ),
        (
            "CREATE INDEX idx_effects_thread_id_checkpoint_id_call_id"
            " ON effects (thread_id, checkpoint_id, call_id)"
        ),
        "CREATE TABLE positions (thread_id TEXT PRIMARY KEY NOT NULL, head TEXT NOT NULL) STRICT",
    ),
    (
        (
            "CREATE TABLE contents (digest TEXT PRIMARY KEY NOT NULL, needed_at REAL NOT NULL,"
            " encoding INTEGER NOT NULL, size INTEGER NOT NULL, payload BLOB NOT NULL) STRICT"
        ),
    ),
)
SCHEMA_VERSION: Final = len(SCHEMA_STEPS)


class Ledger(LockedDatabase):
    """The ledger's connection; what is executed is on disk on return, also in a power cut."""

    def __init__(self, connection: sqlite3.Connection, *, path: Path) -> None:
        """A ledger on the open file at `path`."""
        super().__init__(connection, name=NAME)
        self._path = path
        self._hasty = threading.Lock()
        self._at_once: sqlite3.Connection | None = None  # a second one, which waits for nothing

    def try_at_once(self, statement: str, values: Sequence[object]) -> bool:
        """Run one statement that waits for no disk, as in `lazy_transaction`, and for no other writer.

        False when it would have to wait, or failed: nothing was changed, and `lazy_transaction` can tell why.
        For the event loop: the way to a worker thread and back costs three times the write.
        """
        if not self._hasty.acquire(blocking=False):
            return False
        try:
            if self._at_once is None:
                self._at_once = _connect_at_once(self._path)
            self._at_once.execute(statement, values)
        except (sqlite3.Error, TerminalError):
            return False
        finally:
            self._hasty.release()
        return True

    def close(self) -> None:
        """See LockedDatabase."""
        with self._hasty:
            if self._at_once is not None:
                self._at_once.close()
        super().close()

    @contextmanager
    def lazy_transaction(self) -> Iterator[None]:
        """As `transaction`, but the disk is not waited for: a power cut may lose it, the process's end not.

        What is executed later is never kept without it.
        """
        with self._use() as connection:
            connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction():
                    yield
            finally:
                connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def tables(self) -> Iterator["Database"]:
        """The ledger as sqlite-utils sees it, for what a person asks. Raises as `execute` does."""
        from sqlite_utils import Database

        with self._use() as connection:
            # execute_plugins: other packages' plugins have no business in this process
            yield Database(connection, execute_plugins=False)


def open_ledger(path: Path) -> Ledger:
    """Open the ledger, create it, or bring it up to this version. Close it, or use it in a `with`.

    Raises:
        HomeUnusableError: the file cannot be opened for writing.
        SystemFaultError: it is damaged or locked, or was written by a newer version of this program.
    """
    with ExitStack() as stack:
        connection = connect_database(path)
        stack.callback(connection.close)
        with database_faults(NAME):
            # FULL: an entry is promised to be on disk before the effect it announces, also in a power cut
            connection.execute("PRAGMA synchronous = FULL")
            _bring_up_to_date(connection)
        stack.pop_all()
        return Ledger(connection, path=path)


def _connect_at_once(path: Path) -> sqlite3.Connection:
    """A connection that never waits: not for another's write, nor for the disk.

    Moving SQLite's log (WAL) into the file is left to the other one, which writes at each end of a run.
    """
    connection = connect_database(path)
    for pragma in ("synchronous = NORMAL", "busy_timeout = 0", "wal_autocheckpoint = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    if _version(connection) == SCHEMA_VERSION:
        return
    with one_change(connection, name=NAME):
        found = _version(connection)  # again: another process may have been here first
        if found > SCHEMA_VERSION:
            raise SystemFaultError(
                f"{NAME} in the home folder was written by a newer Lockstitch (schema {found}, here "
                f"{SCHEMA_VERSION}). Upgrade with `pip install --upgrade lockstitch`."
            )
        for statement in chain.from_iterable(SCHEMA_STEPS[found:]):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
