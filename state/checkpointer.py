"""The checkpointer: every thread's checkpoints, and what LangGraph's server does with whole threads and runs.

The file is written with `synchronous=NORMAL`: what was acknowledged survives the death of the process; a
power cut may take the last commits, never the file.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path
from typing import Final, cast

import aiosqlite

from lockstitch.state.database_file import BUSY_TIMEOUT_S, connect_database, database_faults
from lockstitch.state.errors import TerminalError, UsageError
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.lean_saver import LeanSaver
from lockstitch.state.prune import chain_of, replayed_channels
from lockstitch.state.row_rewriting import make_whole, unpack_thread
from lockstitch.state.run_state import REPLAYED, STORED_WHOLE
from lockstitch.state.saved_rows import ANCESTORS, NAME, Place, open_row, read_checkpoint
from lockstitch.state.settings import load_settings
from lockstitch.state.standing import OpenFile

LOOP_BUSY_MS: Final = 5  # for another process's write, in the event loop; then the worker thread waits on

_OF_RUNS: Final = (
    "WITH doomed AS (SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints"
    " WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') IN (SELECT value FROM json_each(?))) "
)
_CHILDREN_OF_RUNS: Final = (
    _OF_RUNS + "SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id"
    " FROM checkpoints c JOIN doomed d ON (c.thread_id, c.checkpoint_ns, c.parent_checkpoint_id)"
    " = (d.thread_id, d.checkpoint_ns, d.checkpoint_id)"
    " WHERE (c.thread_id, c.checkpoint_ns, c.checkpoint_id) NOT IN doomed"
)
# A run that went on from where another one was cut off wrote to that one's last checkpoint, and of its writes
# there half are gone by then (`write_rows`). Where it was interrupted all are there, and may serve again.
_DELETE_LEFT: Final = (
    _OF_RUNS + "DELETE FROM writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ("
    "SELECT c.thread_id, c.checkpoint_ns, c.parent_checkpoint_id FROM checkpoints c"
    " WHERE (c.thread_id, c.checkpoint_ns, c.checkpoint_id) IN doomed"
    " AND NOT EXISTS (SELECT 1 FROM checkpoints o"
    " WHERE (o.thread_id, o.checkpoint_ns, o.parent_checkpoint_id)"
    " = (c.thread_id, c.checkpoint_ns, c.parent_checkpoint_id)"
    " AND (o.thread_id, o.checkpoint_ns, o.checkpoint_id) NOT IN doomed)"
    " AND NOT EXISTS (SELECT 1 FROM writes w WHERE (w.thread_id, w.checkpoint_ns, w.checkpoint_id)"
    " = (c.thread_id, c.checkpoint_ns, c.parent_checkpoint_id) AND w.idx < 0))"
)
_DELETE_RUNS: Final = (  # the writes first: the checkpoints say which they are
    _DELETE_LEFT,
    *(
        f"{_OF_RUNS} DELETE FROM {table} WHERE (thread_id, checkpoint_ns, checkpoint_id) IN doomed"
        for table in ("writes", "checkpoints")
    ),
)
_DELETE_OTHERS: Final = tuple(
    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?"
    " AND checkpoint_id NOT IN (SELECT value FROM json_each(?))"
    for table in ("writes", "checkpoints")
)
_COPY_CHECKPOINTS: Final = (
    "INSERT INTO checkpoints"
    " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)"
    " SELECT :target, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint,"
    " CAST(json_replace(CAST(metadata AS TEXT), '$.thread_id', :target) AS BLOB)"
    " FROM checkpoints WHERE thread_id = :source"
)
_COPY_WRITES: Final = (
    "INSERT INTO writes"
    " (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " SELECT :target, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
    " FROM writes WHERE thread_id = :source"
)


class ThreadSaver(LeanSaver):
    """The saver with what LangGraph's server needs beyond the stock one. Made by `open_checkpointer`."""

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Delete the checkpoints and writes of the runs, as after a rollback.

        Raises:
            UsageError: a later run stands on one of them; nothing was deleted.
        """
        runs = (json.dumps([str(run_id) for run_id in run_ids]),)
        async with self._transaction():
            for *place, checkpoint_id in await self._execute(_CHILDREN_OF_RUNS, runs):
                await self._free(cast("Place", tuple(place)), checkpoint_id)
            for statement in _DELETE_RUNS:
                await self._execute(statement, runs)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread under a new id.

        Raises:
            UsageError: the target has checkpoints already.
        """
        names = {"source": str(source_thread_id), "target": str(target_thread_id)}
        async with self._transaction():
            if await self._execute("SELECT 1 FROM checkpoints WHERE thread_id = :target LIMIT 1", names):
                raise UsageError(f"there is a thread {target_thread_id} already: copy to a new id.")
            await self._execute(_COPY_CHECKPOINTS, names)
            await self._execute(_COPY_WRITES, names)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the threads' history (`keep_latest`) or all of them (`delete`); the file keeps its size.

        `keep_latest` leaves the newest checkpoint of each namespace, and the older ones its delta channels
        are replayed from. The caller holds the threads' locks.

        Raises:
            UsageError: no such strategy.
        """
        if strategy not in ("keep_latest", "delete", "delete_all"):  # the server says delete_all
            raise UsageError(f"unknown strategy {strategy!r}: use keep_latest or delete.")
        for thread_id in map(str, thread_ids):
            if strategy == "keep_latest":
                await self._keep_latest(thread_id)
            else:
                await self.adelete_thread(thread_id)

    async def aunpack(self, thread_ids: Sequence[str]) -> None:
        """Store the threads as the stock saver does, so that it can read them; several times as large."""
        for thread_id in map(str, thread_ids):
            async with self._transaction():
                await unpack_thread(self._execute, self.serde, thread_id)

    async def _free(self, place: Place, checkpoint_id: str) -> None:
        """Make a checkpoint independent of its parent, which is about to go."""
        saved = await read_checkpoint(self._execute, self.serde, place, checkpoint_id)
        if saved is not None and replayed_channels(saved):
            raise UsageError("later runs of the thread stand on this one, so it stays: fork the thread.")
        await make_whole(self._execute, self.serde, place, checkpoint_id)

    async def _keep_latest(self, thread_id: str) -> None:
        async with self._transaction():
            spaces = await self._execute(
                "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ?", (thread_id,)
            )
            for (checkpoint_ns,) in spaces:
                place = (thread_id, checkpoint_ns)
                head = await read_checkpoint(self._execute, self.serde, place, None)
                assert head is not None
                async with aclosing(self._ancestors(place, head.checkpoint_id)) as ancestors:
                    kept = await chain_of(head, ancestors)
                await make_whole(self._execute, self.serde, place, kept[-1])  # what it is told from goes
                for statement in _DELETE_OTHERS:
                    await self._execute(statement, (*place, json.dumps(kept)))

    async def _ancestors(
        self, place: Place, checkpoint_id: str
    ) -> AsyncGenerator[tuple[str, frozenset[str]], None]:
        """The checkpoint and its ancestors, nearest first, with the channels whose values each row holds."""
        async with self.conn.execute(ANCESTORS, (*place, checkpoint_id)) as rows:
            async for found in rows:
                row = open_row(found)
                yield row.checkpoint_id, row.names(self.serde)


@asynccontextmanager
async def open_checkpointer(path: Path, *, in_loop: bool = False) -> AsyncIterator[ThreadSaver]:
    """Open the database at `path`, or create it.

    Args:
        path: of the file.
        in_loop: write in the event loop's own thread, which costs less than half of handing each write to
            another. The loop waits `LOOP_BUSY_MS` at most; `langgraph dev` forbids even that.

    Raises:
        HomeUnusableError: the file cannot be opened for writing.
        SystemFaultError: it is damaged or locked, or the disk failed.
    """
    file = await asyncio.to_thread(_prepare_file, path)
    connection = aiosqlite.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    with database_faults(NAME):
        await connection
    try:
        with closing(_connect_for_loop(path)) if in_loop else nullcontext() as for_loop:
            saver = ThreadSaver(connection, for_loop, packed=STORED_WHOLE, deltas=REPLAYED, file=file)
            with database_faults(NAME):
                await saver.setup()
                await connection.execute_fetchall("PRAGMA synchronous = NORMAL")
            try:
                yield saver
            finally:
                with suppress(TerminalError, UsageError):  # it stays, and is in nobody's way
                    await saver.adrop_over()
    finally:
        await connection.close()


@asynccontextmanager
async def open_default_checkpointer() -> AsyncIterator[ThreadSaver]:
    """The checkpointer of the home that the settings name: `checkpointer.path` of langgraph.json.

    Raises as `load_settings`, `prepare_home` and `open_checkpointer` do.
    """
    home = await asyncio.to_thread(_prepare_default_home)  # the server forbids file work on its event loop
    async with open_checkpointer(home.threads_db) as saver:
        yield saver


def _prepare_file(path: Path) -> OpenFile:
    """Open the file once before aiosqlite does, whose thread dies noisily where that fails."""
    connect_database(path).close()
    return OpenFile(path)


def _connect_for_loop(path: Path) -> sqlite3.Connection:
    """A connection that never waits long: not for another's write, nor for the disk."""
    connection = connect_database(path)
    for pragma in ("synchronous = NORMAL", f"busy_timeout = {LOOP_BUSY_MS}", "wal_autocheckpoint = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _prepare_default_home() -> Home:
    return prepare_home(load_settings().home)
