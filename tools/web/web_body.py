"""The body of a web server's answer, bounded on the wire and after decompression."""

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError

BODY_BYTES: Final = 2 * 1024 * 1024  # a book's text; what is larger is an archive, or a trap
ACCEPTED: Final = "gzip"  # in a request: what `read_body` reads
_GZIP: Final = 16 + zlib.MAX_WBITS  # with a gzip header


async def read_body(pieces: AsyncIterator[bytes], headers: Mapping[str, str]) -> bytes:
    """The whole body, decompressed.

    Args:
        pieces: as they come over the wire.
        headers: of the answer.

    Raises:
        ResourceLimitError: it is over `BODY_BYTES`, or becomes so.
        ToolExecutionError: it is compressed in a way nobody asked for, or broken.
    """
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in {"identity", "", "gzip", "x-gzip"}:
        raise ToolExecutionError("the page is compressed in a way that is not read. Try another source.")
    length = headers.get("content-length", "")
    if length.isdigit() and len(length) < 20 and int(length) > BODY_BYTES:
        raise _too_long()
    body = await _collect(pieces)
    return _unzip(body) if coding.endswith("gzip") and body else body


async def _collect(pieces: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > BODY_BYTES:
            raise _too_long()
    return bytes(body)


def _unzip(data: bytes) -> bytes:
    unzipper = zlib.decompressobj(_GZIP)
    try:
        body = unzipper.decompress(data, BODY_BYTES + 1)
    except zlib.error as error:
        raise _broken() from error
    if len(body) > BODY_BYTES:
        raise _too_long()
    if not unzipper.eof:
        raise _broken()
    return body


def _too_long() -> ResourceLimitError:
    return ResourceLimitError(
        f"the page is over {BODY_BYTES // 1024 // 1024} MB and was not read. Fetch a part of it, or another"
        " source."
    )


def _broken() -> ToolExecutionError:
    return ToolExecutionError("the page came broken. Try again, or another source.")
