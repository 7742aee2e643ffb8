"""The ledger: facts that outlive a run beside its checkpoints, in one SQLite file that survives a power cut.

The hot path is plain sqlite3. sqlite-utils creates the tables and serves queries for people; its import
costs 0.16 s of CPU, so it is loaded only where one of the two happens.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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


def _create_threads(tables: "Database") -> None:
    columns = (
        "thread_id",
        "title",
        "workspace",
        "model",
        "strategy",
        "mode",
        "door",
        "created_at",
        "updated_at",
    )
    kinds: dict[str, type] = dict.fromkeys(columns, str) | {"steps": int, "phase": str, "reason": str}
    threads = tables.create_table(
        "threads", kinds, pk="thread_id", not_null=set(kinds) - {"reason"}, strict=True
    )
    threads.create_index(["workspace", "updated_at"])
    threads.create_index(["updated_at"])


def _create_intents(tables: "Database") -> None:
    columns = ("thread_id", "checkpoint_id", "call_id", "begun_at")
    key = columns[:3]
    tables.create_table("intents", dict.fromkeys(columns, str), pk=key, not_null=set(columns), strict=True)


def _create_audit(tables: "Database") -> None:
    columns = ("timestamp", "thread_id", "run_id", "step", "call_id", "door", "workspace", "tool", "outcome")
    kinds: dict[str, type] = {"id": int} | dict.fromkeys(columns, str) | {"step": int, "time_ms": float}
    may_be_null = dict.fromkeys(("path", "host", "command"), str)
    audit = tables.create_table(
        "audit", kinds | may_be_null, pk="id", not_null=set(kinds) - {"id"}, strict=True
    )
    audit.create_index(["thread_id"])
    for name in AUDIT_TRIGGERS:
        tables.execute(create_trigger(name))


def create_trigger(name: str) -> str:
    """The statement that makes one of the audit's triggers."""
    refuse = "SELECT RAISE(ABORT, 'the audit is append-only')"
    return f"CREATE TRIGGER {name} BEFORE {AUDIT_TRIGGERS[name]} BEGIN {refuse}; END"


def _create_effects(tables: "Database") -> None:
    columns = (
        "id",
        "thread_id",
        "parent",
        "checkpoint_id",
        "call_id",
        "tool",
        "kind",
        "status",
        "at",
        "workspace",
        "result",
    )
    kinds: dict[str, type] = dict.fromkeys(columns, str) | {"changes": bytes}
    effects = tables.create_table("effects", kinds, pk="id", not_null=set(kinds), strict=True)
    effects.create_index(["thread_id", "checkpoint_id", "call_id"])
    head = {"thread_id": str, "head": str}
    tables.create_table("positions", head, pk="thread_id", not_null=set(head), strict=True)


# Step n leads from schema n to n + 1. Ledgers of earlier versions exist: add a step, never change one.
SCHEMA_STEPS: Final[tuple[Callable[["Database"], None], ...]] = (
    _create_threads,
    _create_intents,
    _create_audit,
    _create_effects,
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
        with self._use() as connection:
            yield _tables(connection)


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
        for step in SCHEMA_STEPS[found:]:
            step(_tables(connection))
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _tables(connection: sqlite3.Connection) -> "Database":
    from sqlite_utils import Database

    # execute_plugins: other packages' plugins have no business in this process
    return Database(connection, execute_plugins=False)
