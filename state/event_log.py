"""Events kept on disk, so that a client who comes back with the last `seq` it saw misses nothing.

Kept are at least the last 20,000 events of a thread, for as long as the setting `event_days` says (7 days).
Pieces of replies are never kept: what they came to follows in other events. Their numbers are, so that no
number is given to two events of a thread, whenever the process died. After a power cut the last moments
may be missing, as in `threads.db`.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from lockstitch.state.database_file import connect_database, database_faults
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.events import AgentDelta, Event, parse_event
from lockstitch.state.locked_database import LockedDatabase

NAME: Final = "events.db"
EVENTS_MAX: Final = 20_000  # a thread: about a thousand steps, 10 to 40 MB
TRIM_EVERY: Final = 1_000  # numbers: the cost of a trim, about 2 ms, is shared by as many events

_SCHEMA: Final = (
    (
        "CREATE TABLE IF NOT EXISTS events (thread_id TEXT NOT NULL, seq INTEGER NOT NULL,"
        " told_at TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (thread_id, seq)) STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS events_told_at ON events (told_at)",
    "CREATE TABLE IF NOT EXISTS last_seqs (thread_id TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT",
)
# OR IGNORE: what was told first under a number stays, whatever comes later
_KEEP: Final = "INSERT OR IGNORE INTO events (thread_id, seq, told_at, body) VALUES (?, ?, ?, ?)"
_NOTE: Final = (
    "INSERT INTO last_seqs (thread_id, seq) VALUES (?, ?)"
    " ON CONFLICT (thread_id) DO UPDATE SET seq = max(seq, excluded.seq)"
)
_SINCE: Final = "SELECT body FROM events WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_TRIM: Final = (
    "DELETE FROM events WHERE thread_id = :id AND seq <= (SELECT seq FROM events WHERE thread_id = :id"
    f" ORDER BY seq DESC LIMIT 1 OFFSET {EVENTS_MAX})"
)


class EventLog(LockedDatabase):
    """The kept events of all threads. Synchronous and safe in worker threads; made by `open_event_log`."""

    def append(self, events: Sequence[Event]) -> None:
        """Keep the events, and note how far their threads' numbers have come, in one transaction."""
        kept = [_row(event) for event in events if not isinstance(event, AgentDelta)]
        numbers: dict[str, list[int]] = {}
        for event in events:
            numbers.setdefault(event.thread_id, []).append(event.seq)
        with self.transaction():
            for row in kept:
                self.execute(_KEEP, row)
            for thread_id, told in numbers.items():
                self.execute(_NOTE, (thread_id, max(told)))
                if (min(told) - 1) // TRIM_EVERY != max(told) // TRIM_EVERY:
                    self.execute(_TRIM, {"id": thread_id})

    def since(self, thread_id: str, seq: int, *, limit: int = 1000) -> list[Event]:
        """At most `limit` kept events of the thread with a greater number than `seq`, in order."""
        return [_event(body) for (body,) in self.execute(_SINCE, (thread_id, seq, limit))]

    def last_seq(self, thread_id: str) -> int:
        """The greatest number that an event of the thread was given, kept or not; 0 before the first."""
        found = self.execute("SELECT seq FROM last_seqs WHERE thread_id = ?", (thread_id,))
        return int(found[0][0]) if found else 0

    def forget(self, thread_id: str) -> None:
        """Delete all of a thread, its numbers too: who goes on with them must know how far they came."""
        with self.transaction():
            for table in ("events", "last_seqs"):
                self.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))

    def prune(self, *, before: str) -> int:
        """Delete the events that were told before that moment, ISO 8601 in UTC; how many they were."""
        with self.transaction():
            self.execute("DELETE FROM events WHERE told_at < ?", (before,))
            return int(self.execute("SELECT changes()")[0][0])


def open_event_log(home: Path) -> EventLog:
    """Open the log in the home folder, or create it. Close it, or use it in a `with`.

    Raises:
        HomeUnusableError: the file cannot be opened for writing.
        SystemFaultError: it is damaged or locked, or the disk failed.
    """
    with ExitStack() as stack:
        connection = connect_database(home / NAME)
        stack.callback(connection.close)
        with database_faults(NAME):
            connection.execute("PRAGMA synchronous = NORMAL")
            for statement in _SCHEMA:
                connection.execute(statement)
        stack.pop_all()
        return EventLog(connection, name=NAME)


def _row(event: Event) -> tuple[str, int, str, str]:
    return event.thread_id, event.seq, event.timestamp, event.line


def _event(body: str) -> Event:
    try:
        return parse_event(json.loads(body))
    except (ValueError, ValidationError) as error:
        raise SystemFaultError(
            f"{NAME} in the home folder holds an event that this version cannot read. "
            "Upgrade with `pip install --upgrade lockstitch`."
        ) from error
