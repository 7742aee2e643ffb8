"""Contents as files in `objects/ab/cdef...` of the home folder: what is too large for a row of the ledger.

Each is kept once, whole or not at all when this process dies, and as a difference where that is small. After
a power cut a file may be shorter than its header says: then its content counts as missing, and the next
`put` writes it anew.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.home import explain_refusal
from lockstitch.state.object_encoding import (
    DELTA,
    DELTA_BYTES_MAX,
    DELTA_BYTES_MIN,
    DELTA_GAIN,
    ZSTD,
    Header,
    decode,
    decode_pieces,
    encode,
    encode_delta,
    encode_pieces,
)
from lockstitch.state.object_folder import ObjectFolder, pieces_of, write_all

DEPTH_MAX: Final = 16  # deltas behind one content: to read as many of 1 MB takes 10 ms
STREAM_BYTES: Final = DELTA_BYTES_MAX  # larger contents are never held in memory as a whole
SYNC_EACH_MAX: Final = 64  # files: each waits 0.3 to 2 ms; for more, all of the system's are flushed at once
FRESH_S: Final = 3600.0  # how long an object may wait for the effect that names it before it is collected


class ContentFiles:
    """The files of one home. Waits for the disk: call it from worker threads, any number of them.

    Every method raises SystemFaultError where the folder cannot be read or written.
    """

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        """Know the folder without touching the disk.

        Args:
            folder: `objects` in the home.
            now: seconds since 1970, by which `collect` knows what is fresh.
        """
        self._files = ObjectFolder(folder, now=now)
        self._now = now
        self._lock = threading.Lock()
        # Digests and the bases of each, put by this process: to look at and flush an object once is enough.
        self._unsynced: dict[str, list[str]] = {}
        self._synced: dict[str, list[str]] = {}

    def put(self, data: bytes, *, base: str | None = None) -> str:
        """Keep a content and return its digest. It outlives this process at once, a power cut after `sync`.

        Args:
            data: the whole content.
            base: digest of one that it resembles, such as the file's before: where that is much smaller, only
                the difference is kept. One that cannot be read does no harm.
        """
        digest = hashlib.sha256(data).hexdigest()
        with content_faults():
            if not self._reuse(digest):
                header, payload = self._encoded(data, base)
                self._files.write(digest, header, payload)
                self._unsynced[digest] = [header.base, *self._bases(header.base)] if header.base else []
        return digest

    def put_file(self, fd: int, *, base: str | None = None) -> str:
        """As `put`, of an open file from its beginning, whatever its position; a large one in pieces."""
        with content_faults():
            if os.fstat(fd).st_size > STREAM_BYTES:
                return self._put_pieces(pieces_of(fd))
            data = b"".join(pieces_of(fd))
        return self.put(data, base=base)

    def read(self, digest: str) -> bytes:
        """A whole content, checked against its digest.

        Raises:
            SystemFaultError: it is missing, cut off or changed.
        """
        with content_faults(digest):
            data = self._content(digest)
            if hashlib.sha256(data).hexdigest() != digest:
                raise ValueError("the digest is another one")
        return data

    def pieces(self, digest: str) -> Iterator[bytes]:
        """A content in pieces of any length, for one that may be large.

        Raises:
            SystemFaultError: as `read`, perhaps only after the last piece: use nothing before the end.
        """
        with content_faults(digest):
            header = self._files.header(digest)
        if header.size <= STREAM_BYTES or header.encoding != ZSTD:
            yield self.read(digest)
            return
        seen, pieces = hashlib.sha256(), decode_pieces(self._files.payload_pieces(digest))
        while True:
            with content_faults(digest):
                piece = next(pieces, None)
            if piece is None:
                break
            seen.update(piece)
            yield piece
        with content_faults(digest):
            if seen.hexdigest() != digest:
                raise ValueError("the digest is another one")

    def has(self, digest: str) -> bool:
        """Whether the content is kept, as far as its length tells; only reading finds what was changed."""
        with content_faults():
            return self._header(digest) is not None

    def size(self, digest: str) -> int:
        """Bytes of a content.

        Raises:
            SystemFaultError: it is missing or cut off.
        """
        with content_faults(digest):
            return self._files.header(digest).size

    def stored(self, digests: Iterable[str]) -> int:
        """Bytes that these contents take on the disk, without the bases they share with others."""
        with content_faults():
            return sum(map(self._files.size, digests))

    def drop(self, digest: str) -> None:
        """Delete a damaged object, so that the next `put` of its content writes it anew."""
        with content_faults():
            self._files.drop(digest)
        for known in (self._synced, self._unsynced):
            known.pop(digest, None)

    def drafts(self) -> list[Path]:
        """What writers that died have left, and nobody writes any more."""
        with content_faults():
            return self._files.drafts(unused_since=self._now() - FRESH_S)

    def sync(self) -> None:
        """Wait until all that was put is on the disk, so that a power cut loses nothing of it.

        The flush of a file takes its name along where the file system has a journal (ext4, XFS, btrfs, APFS).
        """
        with self._lock, content_faults():
            waiting = self._unsynced.copy()
            if len(waiting) > SYNC_EACH_MAX:
                os.sync()
            else:
                self._files.flush(waiting)
            self._synced |= waiting
            for digest in waiting:
                self._unsynced.pop(digest, None)

    def collect(self, keep: set[str]) -> int:
        """Delete what is neither in `keep`, nor fresh, nor a base of what stays; the bytes that are freed.

        Others may put meanwhile: for FRESH_S after its last `put`, new or found again, an object is fresh.
        """
        unused_since = self._now() - FRESH_S
        with content_faults():
            times = self._files.times()
            staying = {digest for digest, time_s in times.items() if digest in keep or time_s >= unused_since}
            for digest in list(staying):
                staying.update(self._bases(digest))
            old = times.keys() - staying
            freed = sum(self._files.delete(digest, unused_since=unused_since) for digest in old)
            self._files.delete_drafts(unused_since=unused_since)
        return freed

    def _put_pieces(self, pieces: Iterable[bytes]) -> str:
        seen, size, stored = hashlib.sha256(), 0, 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                seen.update(piece)
                size += len(piece)
                yield piece

        with self._files.draft() as (fd, draft):
            write_all(fd, Header(ZSTD, 0, 0, 0).pack())
            for piece in encode_pieces(counted()):
                stored += len(piece)
                write_all(fd, piece)
            os.pwrite(fd, Header(ZSTD, 0, size, stored).pack(), 0)
            digest = seen.hexdigest()
            self._files.adopt(draft, digest)
        self._unsynced[digest] = []
        return digest

    def _reuse(self, digest: str) -> bool:
        """Whether the content is kept already. It is fresh from now on, and so are its bases."""
        if not self._files.touch(digest):
            return False
        bases = self._synced.get(digest)
        if bases is None:
            if self._header(digest) is None:
                return False
            bases = self._bases(digest)
            self._unsynced[digest] = bases  # whoever wrote it may not have flushed it
        return all(map(self._files.touch, bases))

    def _encoded(self, data: bytes, base: str | None) -> tuple[Header, bytes]:
        encoding, payload = encode(data)
        alone = Header(encoding, 0, len(data), len(payload)), payload
        if base is None or not DELTA_BYTES_MIN <= len(data) <= DELTA_BYTES_MAX:
            return alone
        try:
            base, below = self._chain_end(base)
            if not DELTA_BYTES_MIN <= below.size <= DELTA_BYTES_MAX or not self._reuse(base):
                return alone
            delta = encode_delta(data, self.read(base))
        except (SystemFaultError, ValueError):
            return alone  # a damaged base: this content is kept by itself
        if len(delta) * DELTA_GAIN > len(payload):
            return alone
        return Header(DELTA, below.depth + 1, len(data), len(delta), base), delta

    def _chain_end(self, digest: str) -> tuple[str, Header]:
        """What a delta of `digest` is made of: it, or, where its chain is full, the whole object behind it.

        So a hundred small edits are one whole content and a hundred small differences.
        """
        header = self._files.header(digest)
        if header.depth >= DEPTH_MAX:
            *_, digest = self._bases(digest)
            header = self._files.header(digest)
        return digest, header

    def _bases(self, digest: str) -> list[str]:
        """The objects that a content is made of besides its own, the nearest first."""
        found: list[str] = []
        while len(found) < DEPTH_MAX and (header := self._header(digest)) is not None and header.base:
            digest = header.base
            found.append(digest)
        return found

    def _header(self, digest: str) -> Header | None:
        try:
            return self._files.header(digest)
        except ValueError:
            return None

    def _content(self, digest: str) -> bytes:
        chain = [self._files.load(digest)]
        while base := chain[-1][0].base:
            if len(chain) > DEPTH_MAX:
                raise ValueError("the chain has no end")
            chain.append(self._files.load(base))
        content = b""
        for header, payload in reversed(chain):
            content = decode(header, payload, content)
        return content


@contextmanager
def content_faults(digest: str = "") -> Iterator[None]:
    """Tell the system's refusals, and a damaged object `digest`, in our words."""
    try:
        yield
    except OSError as error:
        raise SystemFaultError(
            f"the kept contents of files cannot be used: the home folder {explain_refusal(error)}. "
            "Mend that, then go on; `lockstitch doctor` helps."
        ) from error
    except ValueError as error:
        raise SystemFaultError(
            f"the kept content {digest[:12]} is missing or damaged ({error}), so no file can be "
            "restored from it. Run `lockstitch doctor`."
        ) from error
