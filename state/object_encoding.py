"""How the object store encodes a content: as it is, compressed, or as what differs from another one.

An encoded object is a header of 50 bytes and a payload. The header tells both lengths, so a file that was cut
off is known without reading it. This module touches no disk.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict

RAW: Final = 0  # the bytes themselves
ZSTD: Final = 1  # one zstd frame
DELTA: Final = 2  # one zstd frame whose dictionary is the content of the base, as in `zstd --patch-from`
LEVEL: Final = 3  # zstd's own default; 1 MB of text in 1 ms
COMPRESS_BYTES_MIN: Final = 64  # below, a frame's own header eats what compression saves
DELTA_BYTES_MIN: Final = 16 * 1024  # below, a compressed file takes the same block or two of a disk
# What a delta of two such files may cost: 50 ms and 50 MB of memory. Larger ones are compressed alone.
DELTA_BYTES_MAX: Final = 8 * 1024 * 1024
DELTA_GAIN: Final = 2  # times smaller than compressed alone: less is not worth reading a second file
UNTOLD: Final = -1  # zstd's word for the length of a content that came in pieces
PIECE_BYTES: Final = 1024 * 1024  # of one step of a stream

_HEADER: Final = struct.Struct(">BBQQ32s")
HEADER_BYTES: Final = _HEADER.size
_NO_BASE: Final = bytes(32)


@dataclass(frozen=True)
class Header:
    """What is known of an object without its payload.

    Attributes:
        encoding: RAW, ZSTD or DELTA.
        depth: objects between this one and one that is whole by itself; 0 is whole.
        size: bytes of the content.
        stored: bytes of the payload.
        base: digest of the object that a DELTA differs from; else empty.
    """

    encoding: int
    depth: int
    size: int
    stored: int
    base: str = ""

    def pack(self) -> bytes:
        """The header's bytes."""
        base = bytes.fromhex(self.base) or _NO_BASE
        return _HEADER.pack(self.encoding, self.depth, self.size, self.stored, base)


def unpack(data: bytes) -> Header | None:
    """The header that `data` begins with; None where it is none of ours."""
    if len(data) < HEADER_BYTES:
        return None
    encoding, depth, size, stored, base = _HEADER.unpack_from(data)
    if encoding not in (RAW, ZSTD, DELTA) or (encoding == DELTA) != (depth > 0):
        return None
    return Header(encoding, depth, size, stored, base.hex() if encoding == DELTA else "")


def encode(data: bytes) -> tuple[int, bytes]:
    """The encoding that fits a content by itself, RAW or ZSTD, and the payload."""
    if len(data) < COMPRESS_BYTES_MIN:
        return RAW, data
    import zstandard

    payload = zstandard.ZstdCompressor(level=LEVEL).compress(data)
    return (ZSTD, payload) if len(payload) < len(data) else (RAW, data)


def encode_delta(data: bytes, base: bytes) -> bytes:
    """The payload of `data` as a DELTA of `base`; both DELTA_BYTES_MAX at most."""
    import zstandard

    # The window must reach back over both, and the table remember an eighth of their places: zstd's own
    # choice may forget more, and made 26 KB of one changed line in 1 MB where this makes 0.1 KB.
    reach = (len(data) + len(base)).bit_length()
    options = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(data), dict_size=len(base), window_log=reach, hash_log=reach - 3
    )
    compressor = zstandard.ZstdCompressor(dict_data=_dictionary(base), compression_params=options)
    return compressor.compress(data)


def decode(header: Header, payload: bytes, base: bytes = b"") -> bytes:
    """The content; `base` is that of the object a DELTA differs from.

    Raises:
        ValueError: the payload does not fit its header.
    """
    if header.encoding == RAW:
        return payload
    import zstandard

    try:
        if zstandard.frame_content_size(payload) not in (header.size, UNTOLD):  # before room is made for it
            raise ValueError("the frame tells another length")
        dictionary = _dictionary(base) if header.encoding == DELTA else None
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(
            payload, max_output_size=header.size
        )
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError("the frame cannot be read") from error


def encode_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The ZSTD payload of a content that comes in pieces, itself in pieces."""
    import zstandard

    stream = zstandard.ZstdCompressor(level=LEVEL).compressobj()
    for piece in pieces:
        yield stream.compress(piece)
    yield stream.flush()


def decode_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a ZSTD payload that comes in pieces, itself in pieces.

    Raises:
        ValueError: the payload cannot be read.
    """
    import zstandard

    stream = zstandard.ZstdDecompressor().decompressobj()
    try:
        for piece in pieces:
            yield stream.decompress(piece)
    except zstandard.ZstdError as error:
        raise ValueError("the frame cannot be read") from error


def _dictionary(base: bytes) -> "ZstdCompressionDict":
    import zstandard

    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
