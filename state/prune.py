"""Which checkpoints a delta channel still needs: those its value is replayed from.

A delta channel stores its value in some checkpoints only. In all others it is rebuilt from the writes on
the chain of parents, back to the nearest one that holds it. To cut that chain empties the channel silently.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

COUNTERS: Final = "counters_since_delta_snapshot"  # LangGraph's metadata key that names the delta channels


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint:
    """One row: the checkpoint as LangGraph saved it, its metadata, and where it hangs."""

    checkpoint_id: str
    parent_id: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]


def parse_metadata(stored: bytes | None) -> dict[str, Any]:
    """The metadata of a row."""
    return dict(json.loads(stored)) if stored else {}


def replayed_channels(saved: SavedCheckpoint) -> set[str]:
    """The delta channels whose value at this checkpoint comes from its ancestors.

    The counters name every delta channel of the graph; one without a version was never written, so nothing
    is replayed for it.
    """
    counted, versions = saved.metadata.get(COUNTERS, {}), saved.checkpoint["channel_versions"]
    return {name for name in counted if name in versions} - _stored(saved)


async def chain_of(
    head: SavedCheckpoint, load: Callable[[str], Awaitable[SavedCheckpoint | None]]
) -> list[str]:
    """The ids of `head` and of every ancestor its delta channels are replayed from, newest first."""
    chain, needed, at = {head.checkpoint_id: head.parent_id}, replayed_channels(head), head
    while needed and at.parent_id and (parent := await load(at.parent_id)):
        if parent.checkpoint_id in chain:
            break  # a checkpoint put again below its own descendant makes the chain a ring
        chain[parent.checkpoint_id] = parent.parent_id
        needed -= _stored(parent)
        at = parent
    return list(chain)


def _stored(saved: SavedCheckpoint) -> set[str]:
    return set(saved.checkpoint["channel_values"])
