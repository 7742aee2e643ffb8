"""How a checkpoint and a write lie in a row: compressed, and without what another row says already.

Three checkpoints a step say nearly the same: most of them tell what changed since the one before. What all
rows say, the names of fields above all, stands in `row_words`, by way of which each is compressed. This
module touches no disk.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import local
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lockstitch.state.row_words import WORDS

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor

STOCK: Final = "msgpack"  # the stock saver's type of a row
WHOLE: Final = "msgpack+zstd1"  # a frame whose dictionary is WORDS
DIFFERENCE: Final = "msgpack+zstd1+base"  # the same, of what changed since the parent
OURS: Final = frozenset({WHOLE, DIFFERENCE})
LEVEL: Final = 1  # 10 us a row; level 3 takes a fifth longer and saves less than one in a hundred
# Rows told from each other: a whole one, then differences, each told from the one before. A damaged row takes
# so many with it at most, and a read takes so many. No multiple of the three checkpoints of a step, so that
# not always the largest of them is the whole one; 24 would save a tenth.
CHAIN_MAX: Final = 7
BASES_KEPT: Final = 32  # threads whose last checkpoint is in memory: 10 KB each
COMPRESS_BYTES_MIN: Final = 512  # below, compression saves less than the row's own keys take
PLAIN_BYTES_MAX: Final = 1 << 30  # SQLite's own limit of a row is no higher; room is made for it unseen
USUAL_BYTES: Final = 16 * 1024  # of most rows at most; tables for more would be slower to use than to fill
# A copy of a long delta channel repeats itself across megabytes: its window must reach back over all of it.
LONG_WINDOW_LOG: Final = 27

_COUNT_BYTES: Final = 4  # of the names that a plain checkpoint begins with
_SEPARATOR: Final = "\0"
_MAPS: Final = ("channel_values", "channel_versions", "versions_seen")
_ABSENT: Final = object()
_made = local()


class Base(NamedTuple):
    """A stored checkpoint, as that from which the next one may be told.

    Attributes:
        checkpoint: its maps, which nobody else changes.
        depth: differences between its row and a whole one.
    """

    checkpoint_id: str
    checkpoint: Mapping[str, Any]
    depth: int


def remember(checkpoint: Mapping[str, Any], depth: int) -> Base | None:
    """A checkpoint that was stored, as a base: LangGraph may go on writing into the maps of its own.

    None where it lacks a field that a difference is made of; all of LangGraph's have them.
    """
    try:
        maps = {name: checkpoint[name].copy() for name in _MAPS}
        maps["versions_seen"] = {node: dict(of) for node, of in maps["versions_seen"].items()}
    except KeyError:
        return None
    return Base(checkpoint["id"], maps, depth)


class Bases:
    """The last checkpoint of each of the threads in use, which the next one will most likely be told from."""

    def __init__(self) -> None:
        """None yet."""
        self._kept: OrderedDict[tuple[str, str], Base] = OrderedDict()

    def find(self, place: tuple[str, str], checkpoint_id: str | None) -> Base | None:
        """The checkpoint, if it is the last one of its thread and namespace."""
        base = self._kept.get(place)
        return base if base and base.checkpoint_id == checkpoint_id else None

    def keep(self, place: tuple[str, str], checkpoint: Mapping[str, Any], depth: int) -> None:
        """Keep a checkpoint that was stored; `depth` counts differences between its row and a whole one."""
        self._kept.pop(place, None)
        if base := remember(checkpoint, depth):
            self._kept[place] = base
        if len(self._kept) > BASES_KEPT:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget them all: they may have gone, or changed."""
        self._kept.clear()


def difference(checkpoint: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """What `checkpoint` has that `base` has not; what is gone stands under the field's name with a minus.

    A channel's value is taken as unchanged where it is the same object at the same version.
    """
    told = dict(checkpoint)
    known, old, seen = base["channel_versions"], base["channel_values"], base["versions_seen"]
    versions = {name: v for name, v in checkpoint["channel_versions"].items() if known.get(name) != v}
    told["channel_versions"] = versions
    told["channel_values"] = {
        name: value
        for name, value in checkpoint["channel_values"].items()
        if old.get(name, _ABSENT) is not value or name in versions
    }
    told["versions_seen"] = {
        node: of for node, of in checkpoint["versions_seen"].items() if seen.get(node) != of
    }
    for field_name in _MAPS:
        before, after = base[field_name], checkpoint[field_name]
        if not before.keys() <= after.keys():
            told[f"-{field_name}"] = [name for name in before if name not in after]
    return told


def add_difference(base: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint that `told` is the difference of."""
    whole = {name: value for name, value in told.items() if name not in _MAPS and name[0] != "-"}
    for field_name in _MAPS:
        gone = set(told.get(f"-{field_name}", ()))
        kept = {name: value for name, value in base[field_name].items() if name not in gone}
        whole[field_name] = kept | told[field_name]
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
    return _compressor(is_long=len(plain) > USUAL_BYTES).compress(plain)


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
