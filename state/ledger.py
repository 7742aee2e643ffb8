"""The ledger: facts that outlive a run beside its checkpoints, in one SQLite file that survives a power cut.

The hot path is plain sqlite3. sqlite-utils creates the tables and serves queries for people; its import
costs 0.16 s of CPU, so it is loaded only where one of the two happens.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from lockstitch.state.database_file import connect_database, database_faults
from lockstitch.state.errors import SystemFaultError

if TYPE_CHECKING:
    from sqlite_utils import Database

NAME: Final = "ledger.db"


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


# Step n leads from schema n to n + 1. Ledgers of earlier versions exist: add a step, never change one.
SCHEMA_STEPS: Final[tuple[Callable[["Database"], None], ...]] = (_create_threads, _create_intents)
SCHEMA_VERSION: Final = len(SCHEMA_STEPS)


class Ledger:
    """One connection, guarded by a lock so that any worker thread may use it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Run one statement and return its rows as tuples; outside `transaction` it is on disk on return.

        Raises:
            HomeUnusableError: the file cannot be written.
            SystemFaultError: the file is damaged or locked, or the disk failed.
        """
        with self._lock, database_faults(NAME):
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the statements of the block one change: all of them, or none when it raises.

        Other threads of this process wait; nothing slow belongs in the block. Raises as `execute` does.
        """
        with self._lock, _write(self._connection):
            yield

    @contextmanager
    def tables(self) -> Iterator["Database"]:
        """The ledger as sqlite-utils sees it, for what a person asks. Raises as `execute` does."""
        with self._lock, database_faults(NAME):
            yield _tables(self._connection)

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


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
        return Ledger(connection)


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    if _version(connection) == SCHEMA_VERSION:
        return
    with _write(connection):
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


@contextmanager
def _write(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction; the block's own errors pass through as they are."""
    with database_faults(NAME):
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        with database_faults(NAME):
            connection.execute("COMMIT")
    finally:
        connection.rollback()  # after a commit there is nothing to roll back


def _tables(connection: sqlite3.Connection) -> "Database":
    from sqlite_utils import Database

    # execute_plugins: other packages' plugins have no business in this process
    return Database(connection, execute_plugins=False)
