"""Deletes what a person no longer wants kept: whole threads, or a thread's memory. For every door.

A thread that another process is writing is left alone: its lock is held while anything of it is deleted.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from lockstitch.state.checkpointer import ThreadSaver, open_checkpointer
from lockstitch.state.database_file import database_faults
from lockstitch.state.errors import SystemFaultError, ThreadBusyError, ThreadUnknownError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import Settings
from lockstitch.state.sizes import measure_threads
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread_off_loop
from lockstitch.state.threads import ThreadIndex, ThreadRow, check_thread_id
from lockstitch.state.vacuum import database_bytes
from lockstitch.tools.changes.scanned import kept_by_scans
from lockstitch.tools.changes.transaction import clear_layers

HOLDER: Final = "lockstitch housekeeping"  # told to others who find the thread busy
KEPT_BY_CLEAR: Final = ("workspace", "last_seq", "escapes")  # events go on counting, and so do escapes
SHRINK_SHARE: Final = 0.25  # of the file's pages are free: less is not worth writing all others anew


@dataclass(frozen=True)
class IdleThread:
    """A thread that nobody used for a while, and the bytes it takes."""

    row: ThreadRow
    size: int  # what its prune frees, but for contents that a fork of it still needs


@dataclass(frozen=True)
class Pruned:
    """What a prune came to; `freed` is what the files became smaller by, in bytes."""

    deleted: list[str]
    busy: list[str]  # written by another process, or used since they were listed: left as they are
    freed: int


class Housekeeping:
    """What can be deleted of one home."""

    def __init__(self, home: Home, ledger: Ledger, saver: ThreadSaver, log: EventLog) -> None:
        self._home = home
        self._ledger = ledger
        self._saver = saver
        self._log = log
        self._threads = ThreadIndex(ledger)
        self._objects = ObjectStore(home.objects, ledger)
        self._journal = Journal(ledger, self._objects)

    async def idle_threads(self, *, idle_hours: float, now: str, keep: int = 0) -> list[IdleThread]:
        """The threads that were not used for so long, the last used first.

        Args:
            idle_hours: since they were used.
            now: ISO 8601 in UTC.
            keep: how many of the last used threads are left out, however long they rest.
        """
        before = datetime.fromisoformat(now) - timedelta(hours=idle_hours)
        rows = [row for row in (await asyncio.to_thread(self._rows))[keep:] if _is_older(row, before)]
        ids = [row.thread_id for row in rows]
        sizes = await asyncio.to_thread(measure_threads, self._home, self._journal, self._objects, ids)
        return [IdleThread(row, sizes[row.thread_id].total) for row in rows]

    async def prune(self, idle: Iterable[IdleThread]) -> Pruned:
        """Delete the threads that are still idle, and give their space back to the disk."""
        before = database_bytes(self._home.threads_db)
        deleted, busy, kept_texts = list[str](), list[str](), 0
        for thread in idle:
            try:
                async with self._held(thread.row.thread_id):
                    if await asyncio.to_thread(self._threads.find, thread.row.thread_id) != thread.row:
                        busy.append(thread.row.thread_id)
                        continue
                    kept_texts += await asyncio.to_thread(self._spill(thread.row.thread_id).size)
                    await self._delete(thread.row.thread_id)
            except ThreadBusyError:
                busy.append(thread.row.thread_id)
            else:
                deleted.append(thread.row.thread_id)
        contents = 0
        if deleted:
            contents = await self._collect()
            await self._shrink()
        smaller = max(0, before - database_bytes(self._home.threads_db))
        return Pruned(deleted, busy, smaller + kept_texts + contents)

    async def delete(self, thread_id: str) -> None:
        """Delete one thread, whenever it was used.

        Raises:
            ThreadBusyError: another process writes it.
            ThreadUnknownError: there is none.
        """
        row = await asyncio.to_thread(self._known, thread_id)
        async with self._held(row.thread_id):
            await self._delete(row.thread_id)
        await self._tidy()

    async def clear(self, thread_id: str, *, now: str) -> None:
        """Forget what was said and done in a thread; the thread, its workspace and its row stay.

        Its earlier steps cannot be resumed or rewound to any more. A second clear mends one that was cut off.

        Raises:
            ThreadBusyError: another process writes it.
            ThreadUnknownError: there is none.
        """
        row = await asyncio.to_thread(self._known, thread_id)
        async with self._held(row.thread_id):
            config: RunnableConfig = {"configurable": {"thread_id": row.thread_id}}
            graph = state_graph().compile(checkpointer=self._saver)
            values = (await graph.aget_state(config)).values
            told = await asyncio.to_thread(self._log.last_seq, row.thread_id)
            await self._forget(row.thread_id)
            fresh = {"workspace": row.workspace} | {k: values[k] for k in KEPT_BY_CLEAR if k in values}
            fresh["last_seq"] = max(fresh.get("last_seq", 0), told)
            await graph.aupdate_state(config, {**fresh, "phase": "idle"}, as_node="finish")
            await asyncio.to_thread(
                self._threads.touch, row.thread_id, now=now, steps=0, phase="idle", reason=None
            )
        await self._tidy()

    def _held(self, thread_id: str) -> AbstractAsyncContextManager[None]:
        return hold_thread_off_loop(self._home.locks, thread_id, holder=HOLDER)

    def _known(self, thread_id: str) -> ThreadRow:
        thread_id = check_thread_id(thread_id)
        row = self._threads.find(thread_id)
        if row is None:
            raise ThreadUnknownError(
                f"there is no thread {thread_id}: `lockstitch threads` lists those there are."
            )
        return row

    async def _delete(self, thread_id: str) -> None:
        """All of a thread; its row last, so that a delete that is cut off can be made again."""
        await self._forget(thread_id)
        await asyncio.to_thread(self._threads.forget, thread_id)
        await asyncio.to_thread((self._home.locks / f"{thread_id}.lock").unlink, missing_ok=True)

    async def _forget(self, thread_id: str) -> None:
        """What the thread remembers: checkpoints, kept texts, events, what it had begun, what it changed."""
        await self._saver.adelete_thread(thread_id)
        await asyncio.to_thread(self._spill(thread_id).clear)
        await asyncio.to_thread(self._log.forget, thread_id)
        await asyncio.to_thread(Intents(self._ledger).forget, thread_id)
        await asyncio.to_thread(self._journal.forget, thread_id)
        if row := await asyncio.to_thread(self._threads.find, thread_id):
            home, place = self._home.path, Path(row.workspace)
            await asyncio.to_thread(clear_layers, place, home=home, owner=thread_id)

    async def _tidy(self) -> None:
        """After one thread's end: contents go; the file is written anew only where much of it is free."""
        await self._collect()
        with database_faults(self._home.threads_db.name):
            ((free,),) = await self._saver.conn.execute_fetchall("PRAGMA freelist_count")
            ((pages,),) = await self._saver.conn.execute_fetchall("PRAGMA page_count")
        if free > pages * SHRINK_SHARE:
            await self._shrink()

    async def _collect(self) -> int:
        """Delete the contents of files that no thread needs any more; the bytes that are freed."""
        needed = await asyncio.to_thread(lambda: self._journal.digests() | kept_by_scans(self._home.path))
        return await asyncio.to_thread(self._objects.collect, needed)

    async def _shrink(self) -> None:
        """Give free pages back; where another process reads the file, or the disk is full, it keeps them."""
        try:
            with database_faults(self._home.threads_db.name):
                await self._saver.conn.execute_fetchall("VACUUM")
                await self._saver.conn.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        except SystemFaultError:
            return

    def _spill(self, thread_id: str) -> SpillStore:
        return SpillStore(self._home.spill, thread_id)

    def _rows(self) -> list[ThreadRow]:
        return self._threads.recent(-1)  # SQLite's word for no limit


@asynccontextmanager
async def open_housekeeping(settings: Settings) -> AsyncIterator[Housekeeping]:
    """Housekeeping of the home that the settings name.

    Raises:
        HomeUnusableError: the home cannot be created, read or written.
    """
    home = await asyncio.to_thread(prepare_home, settings.home)
    with (
        await asyncio.to_thread(open_ledger, home.ledger_db) as ledger,
        await asyncio.to_thread(open_event_log, home.path) as log,
    ):
        async with open_checkpointer(home.threads_db) as saver:
            yield Housekeeping(home, ledger, saver, log)


def state_graph() -> StateGraph[RunState, None, RunState, RunState]:
    """The graph's channels and the node that a fresh state is written as; to read and write, not to run."""
    graph = StateGraph(RunState)
    graph.add_node("finish", lambda state: state)
    graph.add_edge(START, "finish")
    graph.add_edge("finish", END)
    return graph


def _is_older(row: ThreadRow, moment: datetime) -> bool:
    try:
        return datetime.fromisoformat(row.updated_at) < moment
    except ValueError:
        return False  # no time of ours: nobody can say how long it rests
