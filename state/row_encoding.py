"""How a checkpoint and a write lie in a row: compressed, and without what another row says already.

Three checkpoints a step say nearly the same: most of them tell what changed since the one before. What all
rows say, the names of fields above all, stands in `row_words`, by way of which each is compressed. This
module touches no disk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import is_
from threading import local
from typing import TYPE_CHECKING, Any, Final

from lockstitch.state.row_words import WORDS

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor

STOCK: Final = "msgpack"  # the stock saver's type of a row
WHOLE: Final = "msgpack+zstd1"  # a frame whose dictionary is WORDS
DIFFERENCE: Final = "msgpack+zstd1+base"  # the same, of what changed since the parent
OURS: Final = frozenset({WHOLE, DIFFERENCE})
LEVEL: Final = 1  # 10 us a row; level 3 takes a fifth longer and saves less than one in a hundred
# Differences in a row, each told from the one before. A read of one checkpoint takes as many, at about 15 us
# each; a whole row is three to five times as large.
CHAIN_MAX: Final = 32
COMPRESS_BYTES_MIN: Final = 64  # below, a frame's own header eats what compression saves
PLAIN_BYTES_MAX: Final = 1 << 30  # SQLite's own limit of a row is no higher; room is made for it unseen
USUAL_BYTES: Final = 16 * 1024  # of most rows at most; tables for more would be slower to use than to fill
# A copy of a long delta channel repeats itself across megabytes: its window must reach back over all of it.
LONG_BYTES: Final = USUAL_BYTES
LONG_WINDOW_LOG: Final = 27

_COUNT_BYTES: Final = 4  # of the names that a plain checkpoint begins with
_SEPARATOR: Final = "\0"
_MAPS: Final = ("channel_values", "channel_versions", "versions_seen")
_LIST_MIN: Final = 3  # items; a shorter one is told anew
_ABSENT: Final = object()
_made = local()


@dataclass(frozen=True)
class Base:
    """A stored checkpoint, as that from which the next one may be told.

    Attributes:
        checkpoint: as LangGraph knows it; never changed.
        depth: differences between its row and a whole one.
    """

    checkpoint_id: str
    checkpoint: Mapping[str, Any] = field(repr=False)
    depth: int


def can_differ(checkpoint: Mapping[str, Any]) -> bool:
    """Whether a checkpoint has the fields that a difference is made of; all of LangGraph's have."""
    return all(name in checkpoint for name in _MAPS)


def difference(checkpoint: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """What `checkpoint` has that `base` has not; what is gone stands under the field's name with a minus.

    A channel's value is taken as unchanged where it is the same object at the same version. Of a list that
    only grew, or lost its first item as it grew, the new items are told (under the field's name with a plus).
    """
    told = {name: value for name, value in checkpoint.items() if name not in _MAPS}
    versions = dict(checkpoint["channel_versions"].items() - base["channel_versions"].items())
    old, seen = base["channel_values"], base["versions_seen"]
    values = {
        name: value
        for name, value in checkpoint["channel_values"].items()
        if name in versions or old.get(name, _ABSENT) is not value
    }
    if longer := {
        name: (dropped, value[len(old[name]) - dropped :])
        for name, value in values.items()
        if (dropped := _grown(value, old.get(name))) is not None
    }:
        told["+channel_values"] = longer
        values = {name: value for name, value in values.items() if name not in longer}
    told["channel_values"], told["channel_versions"] = values, versions
    told["versions_seen"] = {
        node: of for node, of in checkpoint["versions_seen"].items() if seen.get(node, _ABSENT) != of
    }
    for field_name in _MAPS:
        if gone := base[field_name].keys() - checkpoint[field_name].keys():
            told[f"-{field_name}"] = sorted(gone)
    return told


def _grown(value: Any, old: Any) -> int | None:
    """How many first items (none or one) `old` lost when it became `value`; None where it is another."""
    if type(value) is not list or type(old) is not list or len(old) < _LIST_MIN:
        return None
    for dropped in (0, 1):
        kept = len(old) - dropped
        if len(value) >= kept and all(map(is_, islice(old, dropped, None), value)):
            return dropped
    return None


def add_difference(base: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint that `told` is the difference of."""
    whole = {name: value for name, value in told.items() if name not in _MAPS and name[0] not in "+-"}
    for field_name in _MAPS:
        gone = set(told.get(f"-{field_name}", ()))
        kept = {name: value for name, value in base[field_name].items() if name not in gone}
        whole[field_name] = kept | told[field_name]
    for name, (dropped, items) in told.get("+channel_values", {}).items():
        whole["channel_values"][name] = [*base["channel_values"][name][dropped:], *items]
    return whole


def join_plain(names: Iterable[str], packed: bytes) -> bytes:
    """A checkpoint's plain bytes: the names of the channels whose values its row holds, and its msgpack.

    The names come first, so that a search for the checkpoint that stores a channel need not unpack all.
    """
    listed = _SEPARATOR.join(names).encode()
    return len(listed).to_bytes(_COUNT_BYTES, "big") + listed + packed


def names_in(plain: bytes) -> frozenset[str]:
    """The names of the channels whose values a row holds."""
    end = _COUNT_BYTES + int.from_bytes(plain[:_COUNT_BYTES], "big")
    return frozenset(plain[_COUNT_BYTES:end].decode().split(_SEPARATOR))


def packed_in(plain: bytes) -> bytes:
    """The msgpack of a plain checkpoint."""
    return plain[_COUNT_BYTES + int.from_bytes(plain[:_COUNT_BYTES], "big") :]


def compress(plain: bytes) -> bytes:
    """One zstd frame."""
    return _compressor(is_long=len(plain) > LONG_BYTES).compress(plain)


def encode_write(kind: str, value: bytes) -> tuple[str, bytes]:
    """Type and bytes of a write; what does not become smaller stays as it is."""
    if kind != STOCK or len(value) < COMPRESS_BYTES_MIN:
        return kind, value
    frame = compress(value)
    return (WHOLE, frame) if len(frame) < len(value) else (kind, value)


def decompress(frame: bytes) -> bytes:
    """The plain bytes of a frame.

    Raises:
        ValueError: it is damaged.
    """
    import zstandard

    try:
        if not 0 <= zstandard.frame_content_size(frame) <= PLAIN_BYTES_MAX:
            raise ValueError("a frame tells no length that can be")
        return _decompressor().decompress(frame)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError("a frame cannot be read") from error


def _compressor(*, is_long: bool) -> "ZstdCompressor":
    """One a thread, since to make it costs more than to use it, and no two threads may use one at once."""
    name = "long" if is_long else "short"
    if not hasattr(_made, name):
        from zstandard import ZstdCompressionParameters, ZstdCompressor

        options: dict[str, Any] = {"enable_ldm": True, "window_log": LONG_WINDOW_LOG} if is_long else {}
        parameters = ZstdCompressionParameters.from_level(
            LEVEL, source_size=0 if is_long else USUAL_BYTES, write_checksum=True, **options
        )
        words = _words()
        setattr(_made, name, ZstdCompressor(dict_data=words, compression_params=parameters))
    made: ZstdCompressor = getattr(_made, name)
    return made


def _decompressor() -> "ZstdDecompressor":
    if not hasattr(_made, "decompressor"):
        from zstandard import ZstdDecompressor

        _made.decompressor = ZstdDecompressor(dict_data=_words())
    made: ZstdDecompressor = _made.decompressor
    return made


def _words() -> "ZstdCompressionDict":
    import zstandard

    return zstandard.ZstdCompressionDict(WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
