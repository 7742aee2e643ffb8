"""What each thread takes on the disk: checkpoints, kept texts, and contents of files that it alone names."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from lockstitch.state.database_file import BUSY_TIMEOUT_S, database_faults
from lockstitch.state.home import Home
from lockstitch.state.journal import Journal
from lockstitch.state.objects import ObjectStore
from lockstitch.state.spill import SpillStore

# Lengths alone: SQLite reads no long value for them, but one page of each row all the same.
_CHECKPOINTS: Final = (
    "SELECT (SELECT COALESCE(SUM(LENGTH(checkpoint) + LENGTH(metadata)), 0) FROM checkpoints"
    " WHERE thread_id = :id) + (SELECT COALESCE(SUM(LENGTH(value)), 0) FROM writes WHERE thread_id = :id)"
)


@dataclass(frozen=True, kw_only=True)
class ThreadSize:
    """Bytes.

    Attributes:
        checkpoints: of its checkpoints and writes in `threads.db`.
        texts: of results that were too long for the conversation.
        contents: of files, in `objects`, that no other thread's effects name.
    """

    checkpoints: int
    texts: int
    contents: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.checkpoints + self.texts + self.contents


def measure_threads(
    home: Home, journal: Journal, objects: ObjectStore, thread_ids: Iterable[str]
) -> dict[str, ThreadSize]:
    """The sizes of the threads. Slow where they are large: 1 s for 20 threads of 6 MB each.

    Raises:
        HomeUnusableError, SystemFaultError: a file of the home cannot be read.
    """
    own: dict[str, list[str]] = {}
    for digest, users in journal.users().items():
        if len(users) == 1:
            own.setdefault(next(iter(users)), []).append(digest)
    checkpoints = _checkpoint_bytes(home, list(thread_ids))
    return {
        thread_id: ThreadSize(
            checkpoints=size,
            texts=SpillStore(home.spill, thread_id).size(),
            contents=objects.stored(own.get(thread_id, [])),
        )
        for thread_id, size in checkpoints.items()
    }


def _checkpoint_bytes(home: Home, thread_ids: list[str]) -> dict[str, int]:
    if not home.threads_db.exists():
        return dict.fromkeys(thread_ids, 0)
    address = f"{home.threads_db.absolute().as_uri()}?mode=ro"
    with (
        database_faults(home.threads_db.name),
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S)) as database,
    ):
        return {
            thread_id: int(database.execute(_CHECKPOINTS, {"id": thread_id}).fetchone()[0])
            for thread_id in thread_ids
        }
