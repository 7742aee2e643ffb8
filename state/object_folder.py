"""The files of the object store: one an object, private, whole or not there, found by its digest.

It knows names and headers, and nothing of what the objects are for.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from lockstitch.state.object_encoding import HEADER_BYTES, PIECE_BYTES, Header, unpack

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_CLOEXEC


class ObjectFolder:
    """The folder `objects`; made when the first object is written.

    Every method raises OSError as the system does, and ValueError where an object is missing or cut off.
    """

    def __init__(self, folder: Path, *, now: Callable[[], float]) -> None:
        """The folder, untouched; `now` gives seconds since 1970, the times of the files."""
        self._folder = folder
        self._now = now

    def write(self, digest: str, header: Header, payload: bytes) -> None:
        """Put an object at its place; one that is there is replaced."""
        with self.draft() as (fd, draft):
            write_all(fd, header.pack() + payload)
            self.adopt(draft, digest)

    @contextmanager
    def draft(self) -> Iterator[tuple[int, Path]]:
        """A new file to be written and adopted; deleted when it is not."""
        draft = self._folder / f".{secrets.token_hex(8)}.tmp"
        try:
            fd = os.open(draft, _NEW, FILE_MODE)
        except FileNotFoundError:
            self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            fd = os.open(draft, _NEW, FILE_MODE)
        try:
            yield fd, draft
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
        finally:
            os.close(fd)

    def adopt(self, draft: Path, digest: str) -> None:
        """Make a draft the object `digest`, needed now."""
        place, now = self._place(digest), self._now()
        os.utime(draft, (now, now))
        try:
            os.rename(draft, place)  # noqa: PTH104  half the time of Path.rename
        except FileNotFoundError:
            place.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
            draft.rename(place)

    def header(self, digest: str) -> Header:
        """An object's header; its file has the length that it tells."""
        with self._opened(digest) as fd:
            header = unpack(os.pread(fd, HEADER_BYTES, 0))
            if header is None or os.fstat(fd).st_size != HEADER_BYTES + header.stored:
                raise ValueError("the file is cut off")
        return header

    def load(self, digest: str) -> tuple[Header, bytes]:
        """An object's header and payload."""
        with self._opened(digest) as fd:
            data = b"".join(pieces_of(fd))
        header = unpack(data)
        if header is None or len(data) != HEADER_BYTES + header.stored:
            raise ValueError("the file is cut off")
        return header, data[HEADER_BYTES:]

    def payload_pieces(self, digest: str) -> Iterator[bytes]:
        """An object's payload in pieces."""
        with self._opened(digest) as fd:
            yield from pieces_of(fd, HEADER_BYTES)

    def size(self, digest: str) -> int:
        """Bytes of an object's file; 0 when there is none."""
        try:
            return self._place(digest).stat().st_size
        except FileNotFoundError:
            return 0

    def touch(self, digest: str) -> bool:
        """Note that the object is needed now; False when there is none."""
        now = self._now()
        try:
            os.utime(self._place(digest), (now, now))
        except FileNotFoundError:
            return False
        return True

    def flush(self, digests: Iterable[str]) -> None:
        """Wait until the objects are on the disk."""
        with ExitStack() as stack:
            files = [stack.enter_context(self._opened(digest)) for digest in digests]
            for fd in files if hasattr(os, "posix_fadvise") else ():
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # begins to write all: half the waiting
            for fd in files:
                os.fsync(fd)

    def times(self) -> dict[str, float]:
        """Every object by its digest, with the moment when it was last needed."""
        found: dict[str, float] = {}
        for path in self._folder.glob("??/*"):
            name = path.parent.name + path.name
            if _DIGEST.fullmatch(name):
                with suppress(FileNotFoundError):  # another process collects, too
                    found[name] = path.stat().st_mtime
        return found

    def delete(self, digest: str, *, unused_since: float) -> int:
        """Delete an object unless somebody has touched it since then; the bytes that are freed.

        First out of everybody's sight, then looked at again: a `touch` either came before and is seen, or
        finds nothing and so knows that it must write.
        """
        place, aside = self._place(digest), self._folder / f".{secrets.token_hex(8)}.tmp"
        try:
            place.rename(aside)
        except FileNotFoundError:
            return 0
        found = aside.stat()
        if found.st_mtime >= unused_since:
            aside.rename(place)
            return 0
        aside.unlink()
        return found.st_size

    def drop(self, digest: str) -> None:
        """Delete an object, whoever needs it."""
        self._place(digest).unlink(missing_ok=True)

    def drafts(self, *, unused_since: float) -> list[Path]:
        """What writers that died have left."""
        found = []
        for draft in self._folder.glob(".*.tmp"):
            with suppress(FileNotFoundError):
                if draft.stat().st_mtime < unused_since:
                    found.append(draft)
        return found

    def delete_drafts(self, *, unused_since: float) -> None:
        """Delete what writers that died have left."""
        for draft in self.drafts(unused_since=unused_since):
            draft.unlink(missing_ok=True)

    @contextmanager
    def _opened(self, digest: str) -> Iterator[int]:
        try:
            fd = os.open(self._place(digest), _READ)
        except FileNotFoundError as error:
            raise ValueError("the file is missing") from error
        try:
            yield fd
        finally:
            os.close(fd)

    def _place(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError("an object is named by 64 hex digits")
        return self._folder / digest[:2] / digest[2:]


def pieces_of(fd: int, offset: int = 0) -> Iterator[bytes]:
    """What an open file holds from there on, at most 1 MB at once; its position is left alone."""
    while piece := os.pread(fd, PIECE_BYTES, offset):
        offset += len(piece)
        yield piece


def write_all(fd: int, data: bytes) -> None:
    """Write all of it; a write may take less than it is given."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
