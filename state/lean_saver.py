"""LangGraph's SQLite saver with small rows, cheaper writes, a strict reader, and faults told in our words.

A write is one statement in autocommit mode and one hop to the connection's thread, where the stock saver
takes three hops: 0.5 ms of CPU a superstep against 1.3. Where the event loop may write itself there is no
hop at all. What a task wrote to channels that are stored whole is one row, not one each, and it goes some
time after the next checkpoint, which holds the same. Rows are compressed (`row_encoding`), which costs 0.2 to
0.4 ms of CPU a step. Rows of the stock saver are read as they are; it refuses ours by their type, and reads
a thread again after `aunpack`.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.checkpoint.sqlite.utils import pending_writes_sql, search_where

from lockstitch.state.database_file import database_faults
from lockstitch.state.delta_walk import WRITES, DeltaWalk, batches
from lockstitch.state.row_encoding import (
    CHAIN_MAX,
    DIFFERENCE,
    WHOLE,
    Bases,
    compress,
    difference,
)
from lockstitch.state.row_rewriting import INTO_CHECKPOINTS, put_anew, whole_plain
from lockstitch.state.saved_rows import (
    ANCESTORS,
    NAME,
    Place,
    SavedCheckpoint,
    load_writes,
    read_checkpoint,
)
from lockstitch.state.short_versions import next_short
from lockstitch.state.standing import OpenFile, check_order
from lockstitch.state.write_rows import DROP_WHAT_IS_OVER, insert_writes, share_rows, write_row

# Writes between two that go through the worker thread all the same: it is the one that moves SQLite's log
# (WAL) into the file and waits for the disk. By itself SQLite does so at 4 MB, hundreds of our writes.
LOOP_WRITES: Final = 50
WRITES_AT_ONCE: Final = 1000  # rows of one statement: nine values each, of SQLite's 32,766 a statement
# Supersteps whose rows are deleted together, which costs less than each by itself: ten steps, 0.1 MB.
OVER_AT_ONCE: Final = 30

_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode
_PENDING: Final = pending_writes_sql(has_task_path=True)
# They store nothing where the id is taken, nor where the base is gone.
_PUT: Final = f"INSERT{INTO_CHECKPOINTS} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING"
_PUT_ON_BASE: Final = (
    f"INSERT{INTO_CHECKPOINTS} SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM checkpoints"
    " WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?4)"
    " ON CONFLICT DO NOTHING"
)


class LeanSaver(AsyncSqliteSaver):
    """A saver on a connection in autocommit mode whose schema is there.

    Every method raises SystemFaultError or HomeUnusableError where SQLite fails.
    """

    def __init__(
        self,
        connection: aiosqlite.Connection,
        in_loop: sqlite3.Connection | None = None,
        *,
        packed: frozenset[str] = frozenset(),
        deltas: frozenset[str] = frozenset(),
        file: OpenFile | None = None,
    ) -> None:
        """A saver on an open file.

        Args:
            connection: to the file.
            in_loop: a second one to the same file, for writes in the event loop's own thread.
            packed: channels whose writes go into one row; none that is replayed from its writes.
            deltas: channels that are, whose writes go into another.
            file: that must still be there when a checkpoint is stored.
        """
        # None and not the default: that one builds, and so runs, whatever a row of the database names
        super().__init__(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._in_loop = in_loop
        self._loop_writes = 0
        self._packed = packed
        self._deltas = deltas
        self._file = file
        self._bases = Bases()
        self._over: list[list[str]] = []  # checkpoints that have a child, whose packed rows are still there

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As the stock saver."""
        place = _place(config)
        async with self.lock:
            found = await self._read(place, get_checkpoint_id(config))
        if found is None:
            return None
        saved, writes = found
        if saved.is_ours:
            self._bases.keep(place, saved.checkpoint, saved.depth)
        return self._tuple(place, saved, writes)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  LangGraph's signature
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As the stock saver, but others may use the saver between two checkpoints."""
        where, values = search_where(config, filter, before)
        names = f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {where}"
        bound = f" ORDER BY checkpoint_id DESC LIMIT {-1 if limit is None else int(limit)}"
        async with self.lock:
            found = await self._execute(names + bound, values)
        for thread_id, checkpoint_ns, checkpoint_id in found:
            place = (thread_id, checkpoint_ns)
            async with self.lock:
                saved = await self._read(place, checkpoint_id)
            if saved is not None:  # not deleted meanwhile
                yield self._tuple(place, *saved)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As the stock saver."""
        place, checkpoint_id = _place(config), get_checkpoint_id(config)
        if channels and not checkpoint_id and (newest := await self.aget_tuple(config)):
            checkpoint_id = newest.config["configurable"]["checkpoint_id"]
        if not channels or not checkpoint_id:
            return {channel: {"writes": []} for channel in channels}
        walk = DeltaWalk(channels, self.serde, target=checkpoint_id)
        with database_faults(NAME):
            async with self.lock, self.conn.execute(ANCESTORS, (*place, checkpoint_id)) as rows:
                async for batch in batches(rows.__aiter__()):
                    walk.add(await self._execute(WRITES, (*place, *walk.take(batch))))
                    if walk.is_done:
                        break
        return walk.history()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002  LangGraph's signature
    ) -> RunnableConfig:
        """Store a checkpoint; returns the config that names it."""
        place, parent_id = _place(config), config["configurable"].get("checkpoint_id")
        if self._file:
            self._file.check()
            check_order(checkpoint["id"], parent_id)
        names = (*place, checkpoint["id"], parent_id)
        about = _to_json(get_checkpoint_metadata(config, metadata)).encode("utf-8", "ignore")
        base = self._bases.find(place, parent_id)
        depth, stored = 0, False
        if base and base.depth + 1 < CHAIN_MAX and base.checkpoint.keys() <= checkpoint.keys():
            told = difference(checkpoint, base.checkpoint)
            depth, plain = base.depth + 1, whole_plain(told, self.serde)
            async with self.lock:
                stored = await self._write(_PUT_ON_BASE, (*names, DIFFERENCE, compress(plain), about))
        if not stored:
            depth, plain = 0, whole_plain(checkpoint, self.serde)
            async with self.lock:
                stored = await self._write(_PUT, (*names, WHOLE, compress(plain), about))
        if not stored:
            async with self._transaction():
                await put_anew(self._execute, self.serde, place, (*names, WHOLE, compress(plain), about))
        self._bases.keep(place, checkpoint, depth)
        if parent_id and self._packed:
            await self._drop_over([*place, parent_id])
        thread_id, checkpoint_ns = config["configurable"]["thread_id"], place[1]
        named = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint["id"]}
        return {"configurable": named}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what one task wrote, all of it or nothing."""
        place, checkpoint_id = _place(config), str(config["configurable"]["checkpoint_id"])
        at = (*place, checkpoint_id, task_id, task_path)
        shared = share_rows(writes, self._packed, self._deltas) if self._packed else writes
        rows = [write_row(at, n, write, self.serde) for n, write in enumerate(shared)]
        # as the stock saver: only marks such as errors and interrupts may be written anew
        anew = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        verb = "INSERT OR REPLACE" if anew else "INSERT OR IGNORE"
        parts = [rows[start : start + WRITES_AT_ONCE] for start in range(0, len(rows), WRITES_AT_ONCE)]
        if len(parts) == 1:
            async with self.lock:
                await self._write(*insert_writes(verb, rows))
        elif parts:
            async with self._transaction():
                for part in parts:
                    await self._execute(*insert_writes(verb, part))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """The version after `current`, in its form; in the short one where there is none."""
        return next_short(current) or super().get_next_version(cast("str | None", current), channel)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints and writes."""
        async with self._transaction():
            await self._execute("DELETE FROM writes WHERE thread_id = ?", (str(thread_id),))
            await self._execute("DELETE FROM checkpoints WHERE thread_id = ?", (str(thread_id),))

    async def _drop_over(self, checkpoint: list[str]) -> None:
        """Note a superstep that is over; delete what only such ones hold, many at once."""
        self._over.append(checkpoint)
        if len(self._over) >= OVER_AT_ONCE:
            await self.adrop_over()

    async def adrop_over(self) -> None:
        """Delete what only supersteps hold that are over; whoever closes the saver does so first."""
        over, self._over = self._over, []
        if over:
            async with self.lock:
                await self._write(DROP_WHAT_IS_OVER, (json.dumps(over),))

    async def _read(
        self, place: Place, checkpoint_id: str | None
    ) -> tuple[SavedCheckpoint, list[Any]] | None:
        """A checkpoint and the rows of its writes; the caller holds the lock."""
        saved = await read_checkpoint(self._execute, self.serde, place, checkpoint_id)
        if saved is None:
            return None
        return saved, await self._execute(_PENDING, (*place, saved.checkpoint_id))

    def _tuple(self, place: Place, saved: SavedCheckpoint, writes: Iterable[Any]) -> CheckpointTuple:
        return CheckpointTuple(
            _named(place, saved.checkpoint_id),
            cast("Checkpoint", saved.checkpoint),
            cast("CheckpointMetadata", saved.metadata),
            _named(place, saved.parent_id) if saved.parent_id else None,
            load_writes(writes, self.serde),
        )

    async def _write(self, statement: str, values: Sequence[Any]) -> bool:
        """Run one statement, a transaction of its own, in the event loop where that is allowed and quick.

        Returns whether it stored anything.
        """
        self._loop_writes = (self._loop_writes + 1) % LOOP_WRITES
        if self._in_loop is not None and self._loop_writes:
            # another process may be writing: for that, and for whatever it is, the worker thread has patience
            with suppress(sqlite3.Error):
                return self._in_loop.execute(statement, values).rowcount > 0
        with database_faults(NAME):
            return (await self.conn.execute(statement, values)).rowcount > 0

    async def _execute(self, statement: str, values: Iterable[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Run one statement in one hop; the caller holds the lock."""
        with database_faults(NAME):
            return list(await self.conn.execute_fetchall(statement, values))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        async with self.lock:
            try:
                await self._execute("BEGIN IMMEDIATE")
                yield
                await self._execute("COMMIT")
            finally:
                self._bases.clear()  # they may have gone, or changed
                await self.conn.rollback()  # after a commit there is nothing to roll back


def _place(config: RunnableConfig) -> Place:
    names = config["configurable"]
    return str(names["thread_id"]), str(names.get("checkpoint_ns", ""))


def _named(place: Place, checkpoint_id: str) -> RunnableConfig:
    thread_id, checkpoint_ns = place
    names = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint_id}
    return {"configurable": names}
