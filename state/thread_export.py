"""A thread written into one archive: plain rows as the stock saver's, and all contents that its effects name.

Left out are the audit, which says what happened in this home, and facts, which are the workspace's. No key is
in an archive, since none is ever stored.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from lockstitch.state.archive_file import Member, Pieces, describe_member, write_archive
from lockstitch.state.archive_rows import COLUMNS, dump_effect, dump_line, dump_row
from lockstitch.state.database_file import BUSY_TIMEOUT_S, database_faults
from lockstitch.state.errors import SystemFaultError, ThreadUnknownError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.home import Home
from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.plain_rows import plain_checkpoints, plain_writes
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import ThreadIndex, ThreadRow, check_thread_id

HOLDER: Final = "lockstitch export"  # told to others who find the thread busy

Described = tuple[Member, Pieces]


@dataclass(frozen=True)
class Exported:
    """What went into an archive.

    Attributes:
        size: bytes of the archive.
        checkpoints: how many.
        effects: how many changes of files, also those it shares with the thread it was forked from.
        contents: how many contents of files.
        missing: digests of contents that are gone or damaged in this home.
    """

    size: int
    checkpoints: int
    effects: int
    contents: int
    missing: list[str]


def export_thread(home: Home, thread_id: str, path: Path, *, now: str) -> Exported:
    """Write the thread into the file `path`, whole or not at all.

    Args:
        home: of the thread.
        thread_id: any spelling.
        path: of the archive; a file of that name is replaced.
        now: ISO 8601 in UTC, noted in the archive.

    Raises:
        ThreadUnknownError: there is none.
        ThreadBusyError: another process writes it.
        UsageError: the archive cannot be written there.
        HomeUnusableError, SystemFaultError: the home cannot be read, or is damaged.
    """
    thread_id = check_thread_id(thread_id)
    with ExitStack() as stack:
        stack.enter_context(hold_thread(home.locks, thread_id, holder=HOLDER))
        ledger = stack.enter_context(open_ledger(home.ledger_db))
        row = _known(ledger, thread_id)
        log = stack.enter_context(open_event_log(home.path))
        threads = stack.enter_context(closing(_open_to_read(home.threads_db)))
        thread = _Thread(home, thread_id, ledger=ledger, log=log, threads=threads)
        members, missing = thread.members(row)
        head = {"thread_id": thread_id, "exported_at": now, "missing": missing}
        size = write_archive(path, head, members)
        contents = sum(member.name.startswith("objects/") for member, _ in members)
        return Exported(size, thread.checkpoints(), len(thread.effects), contents, missing)


class _Thread:
    def __init__(
        self, home: Home, thread_id: str, *, ledger: Ledger, log: EventLog, threads: sqlite3.Connection
    ) -> None:
        self._home = home
        self._id = thread_id
        self._ledger = ledger
        self._log = log
        self._threads = threads
        self._objects = ObjectStore(home.objects, ledger)
        self._journal = Journal(ledger, self._objects)
        self.effects = needed_effects(self._journal, thread_id)

    def checkpoints(self) -> int:
        count = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
        with database_faults(self._home.threads_db.name):
            return int(self._threads.execute(count, (self._id,)).fetchone()[0])

    def members(self, row: ThreadRow) -> tuple[list[Described], list[str]]:
        """All of them in their order, and the digests of contents that are lost."""
        place = {"position": self._journal.position(self._id), "last_seq": self._log.last_seq(self._id)}
        contents, missing = _contents(self._objects, self.effects)
        members = [
            _described("thread.json", partial(_once, dump_line(asdict(row) | place))),
            _described("effects.jsonl", partial(map, dump_effect, self.effects)),
            _described("intents.jsonl", partial(_few_rows, self._ledger, "intents", self._id)),
            _described("events.jsonl", partial(_few_rows, self._log, "events", self._id)),
            *_texts(SpillStore(self._home.spill, self._id)),
            *contents,
            _described("checkpoints.jsonl", partial(_rows, plain_checkpoints, self._threads, self._id)),
            _described("writes.jsonl", partial(_rows, plain_writes, self._threads, self._id)),
        ]
        return members, missing


def needed_effects(journal: Journal, thread_id: str) -> list[Effect]:
    """The thread's effects and all that they and its position stand on, each after the one before it.

    Raises:
        SystemFaultError: one of them is missing.
    """
    found: dict[str, Effect] = {}
    own = journal.of_thread(thread_id)
    for end in [*(effect.id for effect in own), journal.position(thread_id)]:
        line, head = list[Effect](), end
        while head != BEGINNING and head not in found:
            line.append(journal.effect(head))
            head = line[-1].parent
        found |= {effect.id: effect for effect in reversed(line)}
    return list(found.values())


def digests_of(effects: Iterable[Effect]) -> list[str]:
    """The digests of all files in the effects, versions of one path one after the other where they can be."""
    changes = [change for effect in effects for change in effect.changes]
    nodes = (node for change in changes for node in (change.before, change.after))
    return list(dict.fromkeys(node.digest for node in nodes if node and node.kind == "file"))


def _known(ledger: Ledger, thread_id: str) -> ThreadRow:
    row = ThreadIndex(ledger).find(thread_id)
    if row is None:
        raise ThreadUnknownError(
            f"there is no thread {thread_id}: `lockstitch threads` lists those there are, and "
            "`lockstitch doctor` says whether one is missing there."
        )
    return row


def _open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that sees the same rows all the time."""
    with database_faults(path.name):
        address = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        connection.execute("BEGIN")
    return connection


def _contents(objects: ObjectStore, effects: list[Effect]) -> tuple[list[Described], list[str]]:
    whole: list[Described] = []
    missing: list[str] = []
    for digest in digests_of(effects):
        try:
            whole.append(_described(f"objects/{digest}", partial(objects.pieces, digest)))
        except SystemFaultError:  # the conversation can be had all the same, and it is told
            missing.append(digest)
    return whole, missing


def _texts(texts: SpillStore) -> list[Described]:
    def content(spill_id: str) -> Iterator[bytes]:
        yield texts.read(spill_id).encode("utf-8", "surrogatepass")

    return [_described(f"spill/{spill_id}", partial(content, spill_id)) for spill_id in texts.ids()]


def _described(name: str, pieces: Pieces) -> Described:
    return describe_member(name, pieces), pieces


def _once(data: bytes) -> Sequence[bytes]:
    return [data]


def _select(table: str) -> str:
    return f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE thread_id = ? ORDER BY rowid"


def _rows(
    plain: Callable[[sqlite3.Connection, str], Iterator[tuple[Any, ...]]],
    database: sqlite3.Connection,
    thread_id: str,
) -> Iterator[bytes]:
    with database_faults("threads.db"):
        yield from map(dump_row, plain(database, thread_id))


def _few_rows(database: Ledger | EventLog, table: str, thread_id: str) -> Iterator[bytes]:
    found: list[tuple[Any, ...]] = database.execute(_select(table), (thread_id,))
    return map(dump_row, found)
