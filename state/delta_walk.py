"""What a delta channel is replayed from: its last stored value and every write since, along the parents.

LangGraph's own walk unpacks each checkpoint to the last field, and names each of them twice in one statement.
This one looks at the names that a row begins with, and asks for the writes of many checkpoints at once.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from lockstitch.state.saved_rows import DELTAS, OpenRow, open_row, spread, unpack_value

AT_ONCE: Final = 256  # checkpoints that are in memory together: 1 MB
WRITES: Final = (
    "SELECT w.checkpoint_id, w.channel, w.task_id, w.idx, w.type, w.value, w.task_path"
    " FROM json_each(?3) j CROSS JOIN writes w ON w.checkpoint_id = j.value"
    " WHERE w.thread_id = ?1 AND w.checkpoint_ns = ?2 AND w.channel IN (SELECT value FROM json_each(?4))"
)


class DeltaWalk:
    """The walk for some channels; give it each batch of ancestors, then their writes, until it is done."""

    def __init__(self, channels: Sequence[str], serde: SerializerProtocol, *, target: str) -> None:
        self._serde = serde
        self._target = target
        self._channels = json.dumps([*channels, DELTAS])
        self._active = set(channels)
        self._seeds: dict[str, Any] = {}
        self._writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}  # newest first
        self._walked: set[str] = set()
        self._batch: dict[str, frozenset[str]] = {}

    @property
    def is_done(self) -> bool:
        """Whether every channel has met its stored value, or the chain came back to itself."""
        return not self._active

    def take(self, rows: Sequence[Any]) -> tuple[str, str]:
        """Look through a batch; returns the ids and the channels to ask writes for, both as JSON.

        Raises:
            SystemFaultError: a row cannot be read.
        """
        self._batch = {}
        for checkpoint_id, *rest in rows:
            if checkpoint_id in self._walked:
                self._active = set()  # a checkpoint put again below its own descendant makes a ring
            if not self._active:
                break
            self._walked.add(checkpoint_id)
            if checkpoint_id == self._target:  # its own writes and values are no part of its history
                continue
            self._batch[checkpoint_id] = frozenset(self._active)
            self._seed(open_row((checkpoint_id, *rest)))
        return json.dumps(list(self._batch)), self._channels

    def add(self, rows: Sequence[Any]) -> None:
        """Add the writes of the last batch.

        Raises:
            SystemFaultError: one cannot be read.
        """
        found: dict[str, list[Any]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        for checkpoint_id, wanted in self._batch.items():
            writes = sorted(found.get(checkpoint_id, ()), key=lambda w: writes_sort_key(w[6], w[2], w[3]))
            for _, channel, task_id, _, kind, blob, _ in reversed(writes):
                value = self._serde.loads_typed(unpack_value(kind, blob))
                for name, content in reversed(list(spread(channel, value))):
                    if name in wanted:
                        self._writes[name].append((task_id, name, content))
        self._batch = {}

    def history(self) -> dict[str, DeltaChannelHistory]:
        """What was found; a channel without a stored value has no seed."""
        histories: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self._writes.items():
            histories[channel] = {"writes": writes[::-1]}
            if channel in self._seeds:
                histories[channel]["seed"] = self._seeds[channel]
        return histories

    def _seed(self, row: OpenRow) -> None:
        if stored := self._active & row.names(self._serde):
            values = row.told(self._serde)["channel_values"]
            self._seeds |= {channel: values[channel] for channel in stored}
            self._active -= stored


async def batches(rows: AsyncIterator[Any]) -> AsyncIterator[list[Any]]:
    """Rows in batches of AT_ONCE."""
    batch: list[Any] = []
    async for row in rows:
        batch.append(row)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
