"""How rows lie: the fixed dictionary, and differences that come back as what they were told of."""

from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.row_encoding import add_difference, compress, decompress, difference, remember
from lockstitch.state.row_words import WORDS

WORDS_DIGEST = "88ae3f183c65ed1c6aa1b56660e1c9809efb18a07912253ca382028938708ff1"


def test_words_that_rows_were_written_with_never_change() -> None:
    assert sha256(WORDS).hexdigest() == WORDS_DIGEST, (
        "rows of every home are read with these words: give other words a type of row of their own"
    )


NAMES = st.sampled_from("abcdef")
MAPS = st.dictionaries(NAMES, st.integers(0, 3))
CHECKPOINTS = st.fixed_dictionaries(
    {
        "id": st.text(max_size=3),
        "channel_values": MAPS,
        "channel_versions": MAPS,
        "versions_seen": st.dictionaries(NAMES, MAPS),
        "updated_channels": st.none() | st.lists(NAMES),
    }
)


@given(CHECKPOINTS, CHECKPOINTS)
def test_difference_is_told_and_taken_back(before: dict[str, Any], after: dict[str, Any]) -> None:
    base = remember(before, 0)
    assert base is not None
    assert add_difference(before, difference(after, base.checkpoint)) == after


def test_base_stays_when_its_checkpoint_is_written_into() -> None:
    before: dict[str, Any] = {
        "id": "1",
        "channel_values": {"a": 1},
        "channel_versions": {"a": "1"},
        "versions_seen": {"plan": {"a": "1"}},
    }
    base = remember(before, 0)
    before["channel_values"]["a"] = before["channel_versions"]["a"] = "2"
    before["versions_seen"]["plan"]["a"] = "2"
    assert base is not None
    told = difference(before, base.checkpoint)
    assert (told["channel_values"], told["channel_versions"]) == ({"a": "2"}, {"a": "2"})
    assert told["versions_seen"] == {"plan": {"a": "2"}}


def test_long_and_short_rows_come_back() -> None:
    for plain in (b"", b"x", b"phase" * 100, bytes(range(256)) * 1000):
        assert decompress(compress(plain)) == plain
