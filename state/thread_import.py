"""A checked archive written into a home, all of it or nothing.

A thread can be in the middle of a step: whoever goes on with it goes on with what it was about to do.
"""

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from lockstitch.state.archive_check import LAST, Incoming, text_of
from lockstitch.state.archive_file import Member, open_archive
from lockstitch.state.archive_rows import COLUMNS, parse_lines, parse_row
from lockstitch.state.content_files import STREAM_BYTES
from lockstitch.state.database_file import connect_database, database_faults
from lockstitch.state.errors import TerminalError, UsageError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.home import Home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import Effect, Journal
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.locked_database import one_change
from lockstitch.state.objects import ObjectStore
from lockstitch.state.renaming import Names
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import ThreadIndex

HOLDER: Final = "lockstitch import"  # told to others who find the thread busy


def take_in(
    home: Home, incoming: Incoming, names: Names, *, before_rows: Callable[[ObjectStore], None]
) -> str:
    """Write the thread into the home; its id. The tables of `threads.db` must be there.

    Args:
        home: that takes it.
        incoming: the archive, checked.
        names: what is renamed in it.
        before_rows: called when all contents are kept, and before anything names the thread.

    Raises:
        UsageError: there is such a thread, or the archive was changed since it was checked.
        ThreadBusyError: another process writes a thread of that id.
        HomeUnusableError, SystemFaultError: the home cannot be written. Nothing was imported then.
    """
    thread_id = names.thread[1]
    with ExitStack() as stack:
        stack.enter_context(hold_thread(home.locks, thread_id, holder=HOLDER))
        ledger = stack.enter_context(open_ledger(home.ledger_db))
        log = stack.enter_context(open_event_log(home.path))
        threads = stack.enter_context(closing(connect_database(home.threads_db)))
        _refuse_known(ledger, threads, thread_id)
        intake = _Intake(home, ledger, log, incoming=incoming, names=names)
        try:
            intake.take(threads, before_rows)
        except BaseException:
            intake.take_back(threads)
            raise
    return thread_id


class _Intake:
    def __init__(
        self, home: Home, ledger: Ledger, log: EventLog, *, incoming: Incoming, names: Names
    ) -> None:
        self._home = home
        self._ledger = ledger
        self._log = log
        self._incoming = incoming
        self._names = names
        self._thread_id = names.thread[1]
        self._objects = ObjectStore(home.objects, ledger)
        self._journal = Journal(ledger, self._objects)
        self._texts = SpillStore(home.spill, self._thread_id)
        self._bases = dict(_bases(incoming.effects))

    def take(self, threads: sqlite3.Connection, before_rows: Callable[[ObjectStore], None]) -> None:
        """Contents and texts, then rows; the line in the index last, so that nobody sees half a thread."""
        with open_archive(self._incoming.path) as archive:
            contents = archive.contents()
            for member, pieces in contents:
                if member.name in LAST:
                    break
                self._keep(member, pieces)
            self._objects.sync()
            before_rows(self._objects)
            self._log_events()
            self._write_ledger()
            with one_change(threads, name=self._home.threads_db.name):
                self._write_rows(threads, "checkpoints", pieces)
                for _, pieces in contents:
                    self._write_rows(threads, "writes", pieces)
        row = self._incoming.row
        folder = self._names.workspace(row.workspace)
        ThreadIndex(self._ledger).record(replace(row, thread_id=self._thread_id, workspace=folder))

    def take_back(self, threads: sqlite3.Connection) -> None:
        """Delete all that names the thread, as far as the disk lets us; contents go when next collected."""
        for forget in (
            partial(_delete_rows, threads, self._thread_id),
            partial(ThreadIndex(self._ledger).forget, self._thread_id),
            partial(self._journal.forget, self._thread_id),
            partial(Intents(self._ledger).forget, self._thread_id),
            partial(self._log.forget, self._thread_id),
            self._texts.clear,
        ):
            with suppress(
                TerminalError
            ):  # what stays is told by `lockstitch doctor`; why it stays, by the error
                forget()

    def _keep(self, member: Member, pieces: Iterator[bytes]) -> None:
        folder, _, name = member.name.partition("/")
        if folder == "spill":
            self._texts.keep(text_of(b"".join(pieces)))
        elif folder == "objects" and member.size <= STREAM_BYTES:
            self._objects.put(b"".join(pieces), base=self._bases.get(name))
        elif folder == "objects":
            with tempfile.TemporaryFile(dir=self._home.path) as file:
                file.writelines(pieces)
                file.flush()
                self._objects.put_file(file.fileno())
        else:
            for _ in pieces:
                pass  # read when the archive was checked

    def _log_events(self) -> None:
        with self._log.transaction():
            for seq, told_at, body in self._incoming.events:
                told = json.dumps(json.loads(str(body)) | {"thread_id": self._thread_id})
                self._log.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?)", (self._thread_id, seq, told_at, told)
                )
            self._log.execute(
                "INSERT INTO last_seqs VALUES (?, ?)", (self._thread_id, self._incoming.last_seq)
            )

    def _write_ledger(self) -> None:
        names, incoming = self._names, self._incoming
        with self._ledger.transaction():
            for effect in incoming.effects:
                own = effect.thread_id == incoming.thread_id
                renamed = replace(
                    effect,
                    id=names.id(effect.id),
                    parent=names.id(effect.parent),
                    thread_id=self._thread_id if own else "",
                    workspace=names.workspace(effect.workspace),
                )
                self._journal.take_in(renamed)
            self._journal.place(self._thread_id, names.id(incoming.position))
            insert = _insert("intents")
            for row in incoming.intents:
                self._ledger.execute(insert, (self._thread_id, *row))

    def _write_rows(self, threads: sqlite3.Connection, table: str, pieces: Iterator[bytes]) -> None:
        insert = _insert(table)
        for row in parse_lines(pieces, lambda found: parse_row(table, found)):
            cells = dict(zip(COLUMNS[table], row, strict=True))
            renamed = _renamed(table, cells, self._names)
            with database_faults(self._home.threads_db.name):
                threads.execute(insert, (self._thread_id, *renamed.values()))


def _bases(effects: list[Effect]) -> Iterator[tuple[str, str]]:
    """Each content with the one that it came from: the store keeps what differs."""
    for effect in effects:
        for change in effect.changes:
            if change.before and change.after and change.before.kind == change.after.kind == "file":
                yield change.after.digest, change.before.digest


def _refuse_known(ledger: Ledger, threads: sqlite3.Connection, thread_id: str) -> None:
    with database_faults("threads.db"):
        found = threads.execute(
            "SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", (thread_id,)
        ).fetchall()
    if found or ThreadIndex(ledger).find(thread_id):
        raise UsageError(
            f"there is a thread {thread_id} here already. Import it with --as-new, under an id of its own."
        )


def _delete_rows(threads: sqlite3.Connection, thread_id: str) -> None:
    with one_change(threads, name="threads.db"), database_faults("threads.db"):
        for table in ("writes", "checkpoints"):
            threads.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))


def _insert(table: str) -> str:
    columns = ("thread_id", *COLUMNS[table])
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _renamed(table: str, cells: dict[str, Any], names: Names) -> dict[str, Any]:
    if table == "checkpoints":
        return cells | {
            "checkpoint": names.value(cells["type"], "", cells["checkpoint"]),
            "metadata": names.metadata(cells["metadata"]),
        }
    return cells | {"value": names.value(cells["type"], cells["channel"], cells["value"])}
