"""The index of threads that people list, find and continue them by, and the shape of their ids."""

import uuid
from dataclasses import asdict, dataclass, fields
from typing import Final

from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.events import AgentPhase
from lockstitch.state.ledger import Ledger
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_context import Door
from lockstitch.state.settings import Mode


def new_thread_id() -> str:
    """A fresh id."""
    return str(uuid.uuid4())


def check_thread_id(text: str) -> str:
    """The id in its one spelling, a UUID in lower case with dashes: the server and the disk know no other.

    Raises:
        ThreadUnknownError: `text` is no UUID.
    """
    try:
        found = uuid.UUID(text)
    except ValueError:
        found = None
    if found is None or text.lower() not in (str(found), found.hex):
        raise ThreadUnknownError(
            f"{text[:80]!r} is no thread id: one looks like 3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a, "
            "and `lockstitch threads` lists them."
        )
    return str(found)


@dataclass(frozen=True, kw_only=True)
class ThreadRow:
    """What a list shows of one thread. Times are ISO 8601 in UTC, all in one precision, so that they sort."""

    thread_id: str
    title: str
    workspace: str
    model: str
    strategy: str
    mode: Mode
    door: Door
    created_at: str
    updated_at: str
    steps: int
    phase: AgentPhase
    reason: TerminationReason | None


_NAMES: Final = tuple(field.name for field in fields(ThreadRow))
_COLUMNS: Final = ", ".join(_NAMES)
_KEPT: Final = ("thread_id", "created_at")  # what a later record of the same thread does not change
_UPSERT: Final = (
    f"INSERT INTO threads ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in _NAMES)}) "
    "ON CONFLICT (thread_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _NAMES if name not in _KEPT)
)
_TOUCH: Final = (
    "UPDATE threads SET updated_at = ?, steps = ?, phase = ?, reason = ? WHERE thread_id = ? "
    "RETURNING thread_id"
)
_FIND: Final = f"SELECT {_COLUMNS} FROM threads WHERE thread_id = ?"
_NEWEST_FIRST: Final = "updated_at DESC, rowid DESC"
_LATEST: Final = f"SELECT {_COLUMNS} FROM threads WHERE workspace = ? ORDER BY {_NEWEST_FIRST} LIMIT 1"


class ThreadIndex:
    """The rows of all threads. Synchronous and safe in worker threads; every change is on disk on return."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def record(self, row: ThreadRow) -> None:
        """Insert the thread, or write all of its row but `created_at` anew."""
        self._ledger.execute(_UPSERT, asdict(row))

    def touch(
        self, thread_id: str, *, now: str, steps: int, phase: AgentPhase, reason: TerminationReason | None
    ) -> None:
        """Note how far the thread has come.

        Raises:
            ThreadUnknownError: the index has no such thread.
        """
        if not self._ledger.execute(_TOUCH, (now, steps, phase, reason, thread_id)):
            raise ThreadUnknownError(f"there is no thread {thread_id} in the index.")

    def find(self, thread_id: str) -> ThreadRow | None:
        """The thread's row."""
        return self._only(_FIND, thread_id)

    def latest(self, workspace: str) -> ThreadRow | None:
        """The thread that was last active in the workspace."""
        return self._only(_LATEST, workspace)

    def recent(self, limit: int) -> list[ThreadRow]:
        """At most `limit` threads, the last active first."""
        with self._ledger.tables() as tables:
            rows = tables["threads"].rows_where(select=_COLUMNS, order_by=_NEWEST_FIRST, limit=limit)
            return [ThreadRow(**row) for row in rows]

    def forget(self, thread_id: str) -> None:
        """Take the thread out of the index; its checkpoints stay. Unknown ids are nothing to forget."""
        self._ledger.execute("DELETE FROM threads WHERE thread_id = ?", (thread_id,))

    def _only(self, query: str, value: str) -> ThreadRow | None:
        for row in self._ledger.execute(query, (value,)):
            return ThreadRow(**dict(zip(_NAMES, row, strict=True)))
        return None
