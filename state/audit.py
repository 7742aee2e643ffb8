"""The audit: every call of a tool, who made it and how it ended, in the ledger. Written once, never changed.

It holds no file contents, no answers and no keys: of a call's arguments only paths, hosts, and a command
with what looks like a secret masked. SQLite itself refuses to change or delete a row; `prune`, by age, is
the one way out, and leaves a row of its own. That holds off mistakes, ours too, not the owner of the file.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from lockstitch.state.database_file import BUSY_TIMEOUT_S, database_faults
from lockstitch.state.errors import UsageError
from lockstitch.state.ledger import NAME, Ledger, create_trigger
from lockstitch.state.mask import Mask, mask_command
from lockstitch.state.run_context import Door

Outcome = Literal[
    "ok", "error", "asked", "answered", "rejected", "refused", "escape", "interrupted", "cancelled"
]
"""How a call ended. `ok`, `error`: it ran. `asked`: it waits for a person's word; a later row says what came
of it, `answered` and `rejected` being that person's word in place of the call. `refused`: by policy or the
rate limit. `escape`: by a path out of the workspace. `interrupted`: cut off with its process, and not made
again. `cancelled`: stopped while it ran."""

OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)
PRUNED: Final = "audit_prune"  # the `tool` of the row that a prune leaves
FIELD_CHARS: Final = 1_000  # of one text: a patch may name many files, and nobody reads more
COMMAND_CHARS: Final = 200  # of a command's first line: enough to know it by; the lines below may be a file
READ_CHARS: Final = 10_000  # of a text from the model, before it is masked and cut
ROWS_AT_ONCE: Final = 8  # in the event loop: each takes some 12 µs to mask
CUT: Final = "…"


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One row. Of `path`, `host` and `command` those are None that the call has none of.

    Attributes:
        timestamp: when the call ended or was asked about; ISO 8601 in UTC, to the millisecond.
        thread_id: empty for a call without a thread, as are `run_id` and `call_id`.
        step: of the run, from 1; 0 without one.
        path: as the model wrote it; several are separated by newlines.
        time_ms: how long the call ran.
    """

    timestamp: str
    thread_id: str
    run_id: str
    step: int
    call_id: str
    door: Door
    workspace: str
    tool: str
    outcome: Outcome
    time_ms: float
    path: str | None = None
    host: str | None = None
    command: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuditFilter:
    """Which rows are wanted; None and empty mean all. `since` is as `AuditEntry.timestamp`."""

    thread_id: str | None = None
    tools: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    since: str | None = None

    def where(self) -> tuple[str, list[str]]:
        """The condition in SQL, and its values."""
        parts, values = ["1"], list[str]()
        for column, wanted in (("tool", self.tools), ("outcome", self.outcomes)):
            if wanted:
                parts.append(f"{column} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        for condition, value in (("thread_id = ?", self.thread_id), ("timestamp >= ?", self.since)):
            if value is not None:
                parts.append(condition)
                values.append(value)
        return " AND ".join(parts), values


_NAMES: Final = tuple(field.name for field in fields(AuditEntry))
_ONE: Final = f"({', '.join('?' * len(_NAMES))})"
_INTO: Final = f"INSERT INTO audit ({', '.join(_NAMES)}) VALUES "
_INSERT: Final = _INTO + _ONE


class Audit:
    """The rows of all threads. Synchronous and safe in worker threads; `mask` knows this process's keys.

    Every method raises HomeUnusableError or SystemFaultError where the file cannot be used.
    """

    def __init__(self, ledger: Ledger, *, mask: Mask | None = None, on_loop: bool = False) -> None:
        """An audit in the ledger; `on_loop` allows `record_at_once`."""
        self._ledger = ledger
        self._mask = mask or Mask(())
        self._on_loop = on_loop

    def record(self, entries: Sequence[AuditEntry]) -> None:
        """Append the rows in one commit, masked and cut. Only a power cut may lose them."""
        rows = [self._row(entry) for entry in entries]
        with self._ledger.lazy_transaction():
            for row in rows:
                self._ledger.execute(_INSERT, row)

    def record_at_once(self, entries: Sequence[AuditEntry]) -> bool:
        """As `record`, but in the event loop; False, and nothing kept, where that may not or cannot be."""
        if not self._on_loop or len(entries) > ROWS_AT_ONCE:
            return False
        rows = [self._row(entry) for entry in entries]
        statement = _INTO + ", ".join([_ONE] * len(rows))
        return self._ledger.try_at_once(statement, [value for row in rows for value in row])

    def rows(self, wanted: AuditFilter, *, limit: int) -> list[dict[str, Any]]:
        """The last `limit` rows that are wanted, the oldest first; with their `id`."""
        condition, values = wanted.where()
        with self._ledger.tables() as tables:
            found = tables["audit"].rows_where(condition, values, order_by="id DESC", limit=limit)
            return list(found)[::-1]

    def count(self, wanted: AuditFilter) -> int:
        """How many rows are wanted."""
        condition, values = wanted.where()
        with self._ledger.tables() as tables:
            return int(tables["audit"].count_where(condition, values))

    def prune(self, *, before: str, now: str) -> int:
        """Delete the rows older than `before` for good, and append one that tells of it; how many they were.

        Both moments are as `AuditEntry.timestamp`.
        """
        with self._ledger.transaction():
            self._ledger.execute("DROP TRIGGER audit_no_delete")  # seen by nobody else until it is back
            self._ledger.execute("DELETE FROM audit WHERE timestamp < ?", (before,))
            deleted = int(self._ledger.execute("SELECT changes()")[0][0])
            self._ledger.execute(create_trigger("audit_no_delete"))
            self._ledger.execute(_INSERT, self._row(_pruned(deleted, before=before, now=now)))
        return deleted

    def _row(self, entry: AuditEntry) -> tuple[object, ...]:
        """The entry as it is stored: without keys, each text in one line that can be printed."""
        return tuple(self._text(name, value) for name, value in vars(entry).items())

    def _text(self, name: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        text = self._mask.text(value[:READ_CHARS])
        if name == "command":
            first, rest = text.partition("\n")[::2]
            return _one_line(mask_command(first), cut=bool(rest), max_chars=COMMAND_CHARS)
        return "\n".join(_one_line(line, max_chars=FIELD_CHARS) for line in text.split("\n"))[:FIELD_CHARS]


def query_ledger(path: Path, statement: str) -> Iterator[dict[str, Any]]:
    """The rows of a person's own SELECT, on a connection that can write nothing; bytes as hex digits.

    Raises:
        UsageError: SQLite cannot follow the statement, or it gives no rows.
        HomeUnusableError, SystemFaultError: the file cannot be used.
    """
    from sqlite_utils import Database

    with database_faults(NAME):
        address = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    with closing(connection):
        try:
            for row in Database(connection, execute_plugins=False).query(statement):
                yield {
                    name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()
                }
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            why = str(error).rstrip(".")
            raise UsageError(f"the SQL cannot be followed: {why}. One SELECT can.") from error


def _pruned(deleted: int, *, before: str, now: str) -> AuditEntry:
    return AuditEntry(
        timestamp=now,
        thread_id="",
        run_id="",
        step=0,
        call_id="",
        door="cli",
        workspace="",
        tool=PRUNED,
        outcome="ok",
        time_ms=0.0,
        command=f"deleted {deleted} from before {before}",
    )


def _one_line(text: str, *, max_chars: int, cut: bool = False) -> str:
    """The text with what cannot be printed spelt out; one that goes on ends in CUT."""
    line = text if text.isprintable() else ascii(text)[1:-1]
    if cut or len(line) > max_chars:
        return line[: max_chars - len(CUT)] + CUT
    return line
