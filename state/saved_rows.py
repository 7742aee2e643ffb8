"""Reads the rows of threads.db back: a checkpoint told as a difference, by way of those it is told from."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from langgraph.checkpoint.base import PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite.utils import load_pending_writes

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.row_encoding import (
    CHAIN_MAX,
    DIFFERENCE,
    OURS,
    STOCK,
    add_difference,
    decompress,
    names_in,
    packed_in,
)

NAME: Final = "threads.db"
# The channels of the rows that hold what a task wrote to several; LangGraph's own begin so, too.
PACKED: Final = "__packed__"  # to those that are stored whole
DELTAS: Final = "__deltas__"  # to those that are replayed from their writes

Execute = Callable[[str, Sequence[Any]], Awaitable[list[Any]]]
Place = tuple[str, str]  # a thread, and a namespace in it


class Reader(Protocol):
    """What makes a value of its type and bytes: LangGraph's serializer, or less."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value."""


_COLUMNS: Final = "checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
# CROSS JOIN keeps the ancestors outside, so that each step is one look into the primary key.
_LINEAGE: Final = (
    "WITH RECURSIVE chain(n, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) AS ("
    f"SELECT * FROM (SELECT 0, {_COLUMNS} FROM checkpoints"
    " WHERE thread_id = ?1 AND checkpoint_ns = ?2 {head})"
    " UNION ALL SELECT n + 1, c.checkpoint_id, c.parent_checkpoint_id, c.type, c.checkpoint, c.metadata"
    " FROM chain a CROSS JOIN checkpoints c ON c.checkpoint_id = a.parent_checkpoint_id"
    " WHERE c.thread_id = ?1 AND c.checkpoint_ns = ?2 {further})"
    f" SELECT {_COLUMNS} FROM chain"
)
_ONE: Final = "AND checkpoint_id = ?3"
_NEWEST: Final = "ORDER BY checkpoint_id DESC LIMIT 1"
_WHILE_TOLD: Final = f"AND a.type = '{DIFFERENCE}' AND a.n < {CHAIN_MAX}"
CHAIN_OF_ONE: Final = _LINEAGE.format(head=_ONE, further=_WHILE_TOLD)
CHAIN_OF_NEWEST: Final = _LINEAGE.format(head=_NEWEST, further=_WHILE_TOLD)
ANCESTORS: Final = _LINEAGE.format(head=_ONE, further="")  # the checkpoint itself first, then nearest first


@dataclass(frozen=True)
class OpenRow:
    """A row after decompression; `plain` is empty for a stock row."""

    checkpoint_id: str
    parent_id: str | None
    kind: str
    metadata: bytes | None
    packed: bytes = field(repr=False)
    plain: bytes = field(repr=False)

    def names(self, serde: Reader) -> frozenset[str]:
        """The channels whose values the row itself holds."""
        return names_in(self.plain) if self.plain else frozenset(self.told(serde).get("channel_values", ()))

    def told(self, serde: Reader) -> dict[str, Any]:
        """The checkpoint, or what changed in it."""
        told: dict[str, Any] = serde.loads_typed((STOCK if self.kind in OURS else self.kind, self.packed))
        return told


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint as LangGraph saved it, its metadata, and how its row lies.

    Attributes:
        is_ours: the next one may be told from it.
        depth: differences between its row and a whole one.
    """

    checkpoint_id: str
    parent_id: str | None
    checkpoint: Mapping[str, Any]
    metadata: dict[str, Any]
    is_ours: bool = True
    depth: int = 0


def damaged(why: str) -> SystemFaultError:
    """The error for a row that cannot be read."""
    return SystemFaultError(
        f"{NAME} in the home folder is damaged ({why}). Move it away, or put a backup in its place."
    )


def open_row(row: Sequence[Any]) -> OpenRow:
    """Decompress a row.

    Raises:
        SystemFaultError: it cannot be read.
    """
    checkpoint_id, parent_id, kind, blob, metadata = row
    if kind not in OURS:
        return OpenRow(checkpoint_id, parent_id, kind, metadata, blob, b"")
    try:
        plain = decompress(blob)
    except ValueError as error:
        raise damaged(f"checkpoint {checkpoint_id}: {error}") from error
    return OpenRow(checkpoint_id, parent_id, kind, metadata, packed_in(plain), plain)


async def read_checkpoint(
    execute: Execute, serde: SerializerProtocol, place: Place, checkpoint_id: str | None
) -> SavedCheckpoint | None:
    """A checkpoint by its id, or the newest in its place; None where there is none.

    Raises:
        SystemFaultError: it cannot be read.
    """
    query, values = (CHAIN_OF_ONE, (*place, checkpoint_id)) if checkpoint_id else (CHAIN_OF_NEWEST, place)
    rows = [open_row(row) for row in await execute(query, values)]
    return _joined(rows, serde) if rows else None


def _joined(rows: Sequence[OpenRow], serde: Reader) -> SavedCheckpoint:
    head = rows[0]
    about = parse_metadata(head.metadata)
    is_ours = head.kind in OURS
    return SavedCheckpoint(
        head.checkpoint_id, head.parent_id, join_rows(rows, serde), about, is_ours, len(rows) - 1
    )


def join_rows(rows: Sequence[OpenRow], serde: Reader) -> dict[str, Any]:
    """The checkpoint of the first row, by way of the others, each of which is told from the next.

    Raises:
        SystemFaultError: one of them is missing.
    """
    if rows[-1].kind == DIFFERENCE:
        raise damaged(f"what checkpoint {rows[-1].checkpoint_id} differs from is not there")
    checkpoint = rows[-1].told(serde)
    for row in reversed(rows[:-1]):
        checkpoint = add_difference(checkpoint, row.told(serde))
    return checkpoint


def parse_metadata(stored: bytes | None) -> dict[str, Any]:
    """The metadata of a row."""
    return dict(json.loads(stored)) if stored else {}


def unpack_value(kind: str, blob: bytes) -> tuple[str, bytes]:
    """A write as the serializer knows it.

    Raises:
        SystemFaultError: it cannot be read.
    """
    if kind not in OURS:
        return kind, blob
    try:
        return STOCK, decompress(blob)
    except ValueError as error:
        raise damaged(f"a write: {error}") from error


def spread(channel: str, value: Any) -> Iterable[tuple[str, Any]]:
    """The writes of a row, each by itself."""
    return value if channel in (PACKED, DELTAS) else [(channel, value)]


def load_writes(rows: Iterable[Any], serde: SerializerProtocol) -> list[PendingWrite]:
    """The writes of one checkpoint, in LangGraph's order.

    Raises:
        SystemFaultError: one cannot be read.
    """
    plain_rows = [
        (task_id, channel, *unpack_value(kind, blob), task_path, idx)
        for task_id, channel, kind, blob, task_path, idx in rows
    ]
    return [
        (task_id, name, content)
        for task_id, channel, value in load_pending_writes(plain_rows, serde)
        for name, content in spread(channel, value)
    ]
