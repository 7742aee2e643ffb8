"""Which checkpoints a delta channel still needs: those its value is replayed from.

A delta channel stores its value in some checkpoints only. In all others it is rebuilt from the writes on
the chain of parents, back to the nearest one that holds it. To cut that chain empties the channel silently.
"""

from collections.abc import AsyncIterator
from typing import Final

from lockstitch.state.saved_rows import SavedCheckpoint

COUNTERS: Final = "counters_since_delta_snapshot"  # LangGraph's metadata key that names the delta channels


def replayed_channels(saved: SavedCheckpoint) -> set[str]:
    """The delta channels whose value at this checkpoint comes from its ancestors.

    The counters name every delta channel of the graph; one without a version was never written, so nothing
    is replayed for it.
    """
    counted, versions = saved.metadata.get(COUNTERS, {}), saved.checkpoint["channel_versions"]
    return {name for name in counted if name in versions} - _stored(saved)


async def chain_of(head: SavedCheckpoint, ancestors: AsyncIterator[tuple[str, frozenset[str]]]) -> list[str]:
    """The ids of `head` and of every ancestor its delta channels are replayed from, newest first.

    `ancestors` are its id and that of each ancestor, nearest first, with the channels that its row holds.
    """
    chain, needed = {(await anext(ancestors))[0]: None}, replayed_channels(head)
    while needed and (parent := await anext(ancestors, None)):
        checkpoint_id, stored = parent
        if checkpoint_id in chain:
            break  # a checkpoint put again below its own descendant makes the chain a ring
        chain[checkpoint_id] = None
        needed -= stored
    return list(chain)


def _stored(saved: SavedCheckpoint) -> set[str]:
    return set(saved.checkpoint["channel_values"])
