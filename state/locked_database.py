"""One SQLite connection for all worker threads: what the files beside the checkpoints have in common."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from lockstitch.state.database_file import database_faults


class LockedDatabase:
    """A connection behind a lock; `name` is its file's, for the words of an error.

    Every method raises HomeUnusableError where the file cannot be written, and SystemFaultError where it is
    damaged or locked, or the disk failed.
    """

    def __init__(self, connection: sqlite3.Connection, *, name: str) -> None:
        self._connection = connection
        self._name = name
        self._lock = threading.RLock()

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Run one statement and return its rows as tuples; committed outside `transaction`."""
        with self._use() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the statements of the block one change: all of them, or none when it raises.

        Other threads of this process wait; nothing slow belongs in the block.
        """
        with self._lock, one_change(self._connection, name=self._name):
            yield

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock, database_faults(self._name):
            yield self._connection

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


@contextmanager
def one_change(connection: sqlite3.Connection, *, name: str) -> Iterator[None]:
    """One transaction; the block's own errors pass through as they are."""
    with database_faults(name):
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        with database_faults(name):
            connection.execute("COMMIT")
    finally:
        connection.rollback()  # after a commit there is nothing to roll back
