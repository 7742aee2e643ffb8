"""Stores rows of threads.db in another encoding: before what they are told from goes, or for the stock saver.

Every function runs within a transaction of its caller.
"""

from collections.abc import Mapping
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol

from lockstitch.state.plain_rows import SPREAD_FROM
from lockstitch.state.row_encoding import OURS, WHOLE, compress, join_plain
from lockstitch.state.saved_rows import (
    DELTAS,
    PACKED,
    Execute,
    Place,
    read_checkpoint,
    spread,
    unpack_value,
)

INTO_CHECKPOINTS: Final = (
    " INTO checkpoints"
    " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)"
)
_PUT: Final = f"INSERT OR REPLACE{INTO_CHECKPOINTS} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
_ONE: Final = "WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3"
_STORE: Final = f"UPDATE checkpoints SET type = ?4, checkpoint = ?5 {_ONE}"
_WRITES: Final = f"SELECT task_id, idx, type, value FROM writes {_ONE}"
_STORE_WRITE: Final = f"UPDATE writes SET type = ?6, value = ?7 {_ONE} AND task_id = ?4 AND idx = ?5"
_CHILDREN: Final = (
    "SELECT checkpoint_id FROM checkpoints"
    " WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND parent_checkpoint_id = ?3"
)
_ALL: Final = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
_SHARED: Final = f"FROM writes {_ONE} AND channel IN ('{PACKED}', '{DELTAS}')"
_SHARED_WRITES: Final = f"SELECT task_id, task_path, channel, type, value {_SHARED}"
_DROP_SHARED: Final = f"DELETE {_SHARED}"
_PUT_WRITE: Final = (
    "INSERT INTO writes"
    " (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


async def put_anew(
    execute: Execute, serde: SerializerProtocol, place: Place, values: tuple[Any, ...]
) -> None:
    """Store a checkpoint that needs no other, whose id may be taken; what is told from it is unpacked first.

    Raises:
        SystemFaultError: a row cannot be read.
    """
    checkpoint_id = values[2]
    for (child_id,) in await execute(_CHILDREN, (*place, checkpoint_id)):
        await make_whole(execute, serde, place, child_id)
    await execute(_PUT, values)


async def make_whole(execute: Execute, serde: SerializerProtocol, place: Place, checkpoint_id: str) -> None:
    """Store a checkpoint so that it needs no other; those told from it stay as they are.

    Raises:
        SystemFaultError: a row cannot be read.
    """
    saved = await read_checkpoint(execute, serde, place, checkpoint_id)
    if saved is not None and saved.depth:
        plain = whole_plain(saved.checkpoint, serde)
        await execute(_STORE, (*place, checkpoint_id, WHOLE, compress(plain)))


def whole_plain(checkpoint: Mapping[str, Any], serde: SerializerProtocol) -> bytes:
    """The plain bytes of a whole row."""
    return join_plain(checkpoint.get("channel_values", ()), serde.dumps_typed(checkpoint)[1])


async def unpack_thread(execute: Execute, serde: SerializerProtocol, thread_id: str) -> None:
    """Store a thread's rows as the stock saver does: several times as large.

    Raises:
        SystemFaultError: a row cannot be read.
    """
    rows = await execute(_ALL, (thread_id,))
    for checkpoint_ns, checkpoint_id in rows:
        await make_whole(execute, serde, (thread_id, checkpoint_ns), checkpoint_id)
    for checkpoint_ns, checkpoint_id in rows:
        place = (thread_id, checkpoint_ns)
        saved = await read_checkpoint(execute, serde, place, checkpoint_id)
        assert saved is not None
        await _unpack_writes(execute, (*place, checkpoint_id))
        await _spread(execute, serde, (*place, checkpoint_id))
        await execute(_STORE, (*place, checkpoint_id, *serde.dumps_typed(saved.checkpoint)))


async def _spread(execute: Execute, serde: SerializerProtocol, at: tuple[str, str, str]) -> None:
    """Give each write that shares a row one of its own; none of them is of a channel that minds the order."""
    for task_id, task_path, channel, kind, blob in await execute(_SHARED_WRITES, at):
        first = SPREAD_FROM[channel]
        for n, (name, value) in enumerate(spread(channel, serde.loads_typed((kind, blob))), first):
            await execute(_PUT_WRITE, (*at, task_id, task_path, n, name, *serde.dumps_typed(value)))
    await execute(_DROP_SHARED, at)


async def _unpack_writes(execute: Execute, at: tuple[str, str, str]) -> None:
    for task_id, idx, kind, blob in await execute(_WRITES, at):
        if kind in OURS:
            await execute(_STORE_WRITE, (*at, task_id, idx, *unpack_value(kind, blob)))
