"""Contents as rows of the ledger: those of small files, which so reach the disk in one write with an effect.

A file of its own for each would cost a step more than the step itself: each is made, named and flushed.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from lockstitch.state.content_files import content_faults
from lockstitch.state.ledger import Ledger
from lockstitch.state.object_encoding import DELTA_BYTES_MIN, Header, decode, encode

SMALL_BYTES: Final = DELTA_BYTES_MIN  # from here on a content may be kept as a difference, in a file
WAITING_MAX: Final = 500  # contents, 8 MB at most: more are written before anybody asks for it
STILL_FRESH_S: Final = 600.0  # a row that was needed so lately is not written again to say so

_OF_ONE: Final = "FROM contents WHERE digest = ?"
_KEEP: Final = (
    "INSERT INTO contents (digest, needed_at, encoding, size, payload) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (digest) DO UPDATE SET needed_at = excluded.needed_at"
    f" WHERE needed_at < excluded.needed_at - {STILL_FRESH_S}"
)

_Row = tuple[int, int, bytes]  # encoding, bytes of the content, payload


class ContentRows:
    """The table `contents`; safe to use from any thread. What is put waits in memory until it is `kept`.

    Every method raises HomeUnusableError or SystemFaultError where the ledger cannot be used.
    """

    def __init__(self, ledger: Ledger, *, now: Callable[[], float]) -> None:
        """`now` gives seconds since 1970."""
        self._ledger = ledger
        self._now = now
        self._waiting: dict[str, _Row] = {}

    def put(self, data: bytes) -> str:
        """Take a content of less than SMALL_BYTES; its digest."""
        digest, (encoding, payload) = hashlib.sha256(data).hexdigest(), encode(data)
        self._waiting[digest] = encoding, len(data), payload
        if len(self._waiting) > WAITING_MAX:
            self.write()
        return digest

    def write(self) -> None:
        """Have all that was put on the disk, also in a power cut."""
        if self._waiting:
            with self.kept():
                pass

    @contextmanager
    def kept(self) -> Iterator[None]:
        """One change of the ledger: what the block does there, and all that was put."""
        with self._ledger.transaction():
            waiting, now = list(self._waiting.items()), self._now()
            for digest, row in waiting:
                self._ledger.execute(_KEEP, (digest, now, *row))
            yield
        for digest, row in waiting:
            if self._waiting.get(digest) is row:
                del self._waiting[digest]

    def read(self, digest: str) -> bytes | None:
        """A content, checked against its digest; None where there is none.

        Raises:
            SystemFaultError: it was changed.
        """
        row = self._row(digest)
        if row is None:
            return None
        encoding, size, payload = row
        with content_faults(digest):
            data = decode(Header(encoding, 0, size, len(payload)), payload)
            if hashlib.sha256(data).hexdigest() != digest:
                raise ValueError("the digest is another one")
        return data

    def size(self, digest: str) -> int | None:
        """Bytes of a content; None where there is none."""
        row = self._waiting.get(digest) or self._asked("encoding, size", digest)
        return row[1] if row else None

    def stored(self, digest: str) -> int:
        """Bytes that a content takes."""
        row = self._row(digest)
        return len(row[2]) if row else 0

    def drop(self, digest: str) -> None:
        """Delete a content, whoever needs it."""
        self._waiting.pop(digest, None)
        self._ledger.execute(f"DELETE {_OF_ONE}", (digest,))

    def collect(self, keep: set[str], *, unused_since: float) -> int:
        """Delete what is neither in `keep` nor was needed since then; the bytes that are freed."""
        every, freed = self._ledger.execute("SELECT digest FROM contents"), 0
        unused = f"DELETE {_OF_ONE} AND needed_at < ? RETURNING length(payload)"
        with self._ledger.transaction():
            for (digest,) in every:
                if digest not in keep:
                    freed += sum(length for (length,) in self._ledger.execute(unused, (digest, unused_since)))
        return freed

    def _row(self, digest: str) -> _Row | None:
        return self._waiting.get(digest) or self._asked("encoding, size, payload", digest)

    def _asked(self, columns: str, digest: str) -> Any:
        found = self._ledger.execute(f"SELECT {columns} {_OF_ONE}", (digest,))
        return found[0] if found else None
