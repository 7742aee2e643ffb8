"""What small files were seen to hold, so that who lists, shows and keeps them reads them once."""

import hashlib
import os
from collections.abc import Iterator
from typing import Final

FILE_BYTES_MAX: Final = 64 * 1024  # a larger file takes longer to hash than to open again
ALL_BYTES_MAX: Final = 8 * 1024**2  # of one listing: ten thousand new files are no reason to fill the memory
CHUNK_BYTES: Final = 1024 * 1024  # of one read: few calls, little memory


class KnownContents:
    """Contents by their sha256 in hex, as many as there is room for."""

    def __init__(self) -> None:
        self._by_digest: dict[str, bytes] = {}
        self._left = ALL_BYTES_MAX

    def get(self, digest: str) -> bytes | None:
        """The content of that digest; None where it is not known."""
        return self._by_digest.get(digest)

    def read(self, fd: int) -> str:
        """Read an open file to its end; its digest."""
        size = os.fstat(fd).st_size
        if size > min(FILE_BYTES_MAX, self._left):
            return digest_of(fd)
        data = b"".join(pieces_of(fd))
        digest = hashlib.sha256(data).hexdigest()
        self._by_digest[digest] = data
        self._left -= len(data)  # more than its size, where it grew meanwhile
        return digest


def pieces_of(fd: int) -> Iterator[bytes]:
    """What is left to read of an open file."""
    while piece := os.read(fd, CHUNK_BYTES):
        yield piece


def digest_of(fd: int) -> str:
    """The sha256 in hex of what is left to read of an open file."""
    digest = hashlib.sha256()
    for piece in pieces_of(fd):
        digest.update(piece)
    return digest.hexdigest()
