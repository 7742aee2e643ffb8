"""A thread's rows as the stock saver writes them, whatever they lie as in threads.db; nothing is written.

Works on msgpack itself: of what LangGraph packs into its extensions nothing is built.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from lockstitch.state.row_encoding import OURS, STOCK
from lockstitch.state.saved_rows import CHAIN_OF_ONE, DELTAS, PACKED, join_rows, open_row, unpack_value

# Numbers of the first writes that had shared a row: beyond those that have one.
SPREAD_FROM: Final = {PACKED: 1_000_000, DELTAS: 2_000_000}

_CHECKPOINTS: Final = (
    "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
    " FROM checkpoints WHERE thread_id = ? ORDER BY rowid"
)
_WRITES: Final = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
    " FROM writes WHERE thread_id = ? ORDER BY rowid"
)


def plain_checkpoints(database: sqlite3.Connection, thread_id: str) -> Iterator[tuple[Any, ...]]:
    """The cells of each checkpoint, in the order they were stored, without the thread's id.

    Raises:
        SystemFaultError: one cannot be read.
    """
    for checkpoint_ns, checkpoint_id, parent_id, kind, blob, metadata in database.execute(
        _CHECKPOINTS, (thread_id,)
    ):
        plain = (kind, blob)
        if kind in OURS:
            chain = database.execute(CHAIN_OF_ONE, (thread_id, checkpoint_ns, checkpoint_id)).fetchall()
            plain = (STOCK, _pack(join_rows([open_row(row) for row in chain], _READER)))
        yield checkpoint_ns, checkpoint_id, parent_id, *plain, metadata


def plain_writes(database: sqlite3.Connection, thread_id: str) -> Iterator[tuple[Any, ...]]:
    """The cells of each write, likewise; those that share a row are told one by one.

    Raises:
        SystemFaultError: one cannot be read.
    """
    for *at, idx, channel, kind, blob in database.execute(_WRITES, (thread_id,)):
        plain = unpack_value(kind, blob)
        if channel in SPREAD_FROM:
            for number, (name, value) in enumerate(_READER.loads_typed(plain), SPREAD_FROM[channel]):
                yield *at, number, name, *_typed(value)
        else:
            yield *at, idx, channel, *plain


class _Reader:
    """Reads msgpack as LangGraph's serializer does, but leaves extensions as they are."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        import ormsgpack

        return ormsgpack.unpackb(data[1], ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)


_READER: Final = _Reader()


def _typed(value: Any) -> tuple[str, bytes]:
    """Type and bytes of a value by itself, as LangGraph's serializer has them."""
    if value is None:
        return "null", b""
    if isinstance(value, bytes):
        return "bytes", value
    return STOCK, _pack(value)


def _pack(value: Any) -> bytes:
    import ormsgpack

    return bytes(ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS))
