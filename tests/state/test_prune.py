"""Which checkpoints the delta channels of a kept one still need."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lockstitch.state.prune import COUNTERS, chain_of, replayed_channels
from lockstitch.state.saved_rows import SavedCheckpoint, parse_metadata


def saved(number: int, *, stores: str = "", counts: str = "", versions: str = "mn") -> SavedCheckpoint:
    """Checkpoint `number` below `number - 1`; each letter is a channel."""
    checkpoint: dict[str, Any] = {
        "channel_values": dict.fromkeys(stores),
        "channel_versions": dict.fromkeys(versions, "1"),
    }
    return SavedCheckpoint(
        checkpoint_id=str(number),
        parent_id=str(number - 1) if number else None,
        checkpoint=checkpoint,
        metadata={COUNTERS: {channel: [1, 1] for channel in counts}},
    )


async def lineage(*newest_first: SavedCheckpoint) -> AsyncIterator[tuple[str, frozenset[str]]]:
    for one in newest_first:
        yield one.checkpoint_id, frozenset(one.checkpoint["channel_values"])


async def chain_numbers(*history: SavedCheckpoint) -> str:
    return "".join(await chain_of(history[-1], lineage(*reversed(history))))


@pytest.mark.parametrize(
    ("head", "replayed"),
    [
        (saved(1), set()),
        (saved(1, counts="mn"), {"m", "n"}),
        (saved(1, counts="mn", stores="n"), {"m"}),
        (saved(1, counts="mn", versions="m"), {"m"}),
    ],
    ids=["no delta channel", "both", "one is stored here", "one was never written"],
)
def test_channel_is_replayed_when_it_was_written_and_is_not_stored(
    head: SavedCheckpoint, replayed: set[str]
) -> None:
    assert replayed_channels(head) == replayed


async def test_checkpoint_that_stores_everything_stands_alone() -> None:
    assert await chain_numbers(saved(0), saved(1), saved(2, stores="m")) == "2"


async def test_chain_goes_back_to_where_the_last_channel_is_stored() -> None:
    history = [
        saved(0, stores="mn"),
        saved(1, counts="mn", stores="n"),
        saved(2, counts="mn", stores="m"),
        saved(3, counts="mn"),
    ]
    assert await chain_numbers(*history) == "321"


async def test_chain_without_a_stored_value_goes_back_to_the_root() -> None:
    assert await chain_numbers(saved(0), saved(1, counts="m"), saved(2, counts="m")) == "210"


async def test_chain_that_was_cut_before_ends_at_the_cut() -> None:
    assert await chain_numbers(saved(5, counts="m"), saved(6, counts="m")) == "65"


async def test_ring_of_parents_ends() -> None:
    head = saved(1, counts="m")
    assert await chain_of(head, lineage(head, saved(0), head, saved(0))) == ["1", "0"]


def test_row_without_metadata_has_none() -> None:
    assert parse_metadata(None) == {}
    assert parse_metadata(b'{"step": 1}') == {"step": 1}
