"""The contents of files, kept by their sha256: what a rewind restores, and what finishes a cut-off change.

Each is kept once, a small one as a row of the ledger, a larger one as a file.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstitch.state.content_files import FRESH_S, ContentFiles
from lockstitch.state.content_rows import SMALL_BYTES, ContentRows
from lockstitch.state.ledger import Ledger
from lockstitch.state.object_folder import pieces_of


class ObjectStore:
    """The contents of one home. Waits for the disk: call it from worker threads, any number of them.

    Every method raises HomeUnusableError or SystemFaultError where the home cannot be read or written.
    """

    def __init__(self, folder: Path, ledger: Ledger, *, now: Callable[[], float] = time.time) -> None:
        """Open the store without touching the disk.

        Args:
            folder: `objects` in the home.
            ledger: of the same home.
            now: seconds since 1970, by which `collect` knows what is fresh.
        """
        self._rows = ContentRows(ledger, now=now)
        self._files = ContentFiles(folder, now=now)
        self._now = now

    def put(self, data: bytes, *, base: str | None = None) -> str:
        """Take a content; its digest. It outlives this process from `flush` on, a power cut from `sync` on.

        Args:
            data: the whole content.
            base: digest of one that it resembles, such as the file's before: where both are large, and the
                difference is much smaller, only that is kept. One that cannot be read does no harm.
        """
        return self._rows.put(data) if len(data) < SMALL_BYTES else self._files.put(data, base=base)

    def put_file(self, fd: int, *, base: str | None = None) -> str:
        """As `put`, of an open file from its beginning, whatever its position; a large one in pieces."""
        if os.fstat(fd).st_size < SMALL_BYTES:
            return self.put(b"".join(pieces_of(fd)), base=base)
        return self._files.put_file(fd, base=base)

    def read(self, digest: str) -> bytes:
        """A whole content, checked against its digest.

        Raises:
            SystemFaultError: it is missing, cut off or changed.
        """
        data = self._rows.read(digest)
        return self._files.read(digest) if data is None else data

    def pieces(self, digest: str) -> Iterator[bytes]:
        """A content in pieces of any length, for one that may be large.

        Raises:
            SystemFaultError: as `read`, perhaps only after the last piece: use nothing before the end.
        """
        data = self._rows.read(digest)
        yield from self._files.pieces(digest) if data is None else (data,)

    def has(self, digest: str) -> bool:
        """Whether the content is kept, as far as its length tells; only reading finds what was changed."""
        return self._rows.size(digest) is not None or self._files.has(digest)

    def size(self, digest: str) -> int:
        """Bytes of a content.

        Raises:
            SystemFaultError: it is missing or cut off.
        """
        size = self._rows.size(digest)
        return self._files.size(digest) if size is None else size

    def stored(self, digests: Iterable[str]) -> int:
        """Bytes that these contents take on the disk, without the bases they share with others."""
        every = list(digests)
        return sum(map(self._rows.stored, every)) + self._files.stored(every)

    def drop(self, digest: str) -> None:
        """Delete a damaged content, so that the next `put` writes it anew."""
        self._rows.drop(digest)
        self._files.drop(digest)

    def drafts(self) -> list[Path]:
        """What writers that died have left, and nobody writes any more."""
        return self._files.drafts()

    def flush(self) -> None:
        """Have all that was put outlive this process."""
        self._rows.write()

    def sync(self) -> None:
        """Wait until all that was put is on the disk, so that a power cut loses nothing of it."""
        self._files.sync()
        self._rows.write()

    @contextmanager
    def synced(self) -> Iterator[None]:
        """As `sync`, in one change of the ledger with what the block writes there about it."""
        self._files.sync()
        with self._rows.kept():
            yield

    def collect(self, keep: set[str]) -> int:
        """Delete what is neither in `keep`, nor fresh, nor a base of what stays; the bytes that are freed.

        Others may put meanwhile: for FRESH_S after its last `put`, new or found again, a content is fresh.
        """
        return self._files.collect(keep) + self._rows.collect(keep, unused_since=self._now() - FRESH_S)
