"""Output that may have no end: its beginning and its end are kept, and all of it is counted."""


class KeptOutput:
    """What came so far; between `head` and `tail`, `cut_bytes` were dropped.

    Attributes:
        total_bytes: of all that came.
    """

    def __init__(self, keep_bytes: int) -> None:
        """Keep at most so many bytes, half from the beginning and half from the end."""
        self.total_bytes = 0
        self._half = keep_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self.total_bytes += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - self._half
        if excess > self._half:  # not at every piece: trimming copies
            del self._tail[:excess]

    @property
    def head(self) -> bytes:
        """The beginning."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The end, as far as the beginning does not hold it."""
        return bytes(self._tail[max(0, len(self._tail) - self._half) :])

    @property
    def cut_bytes(self) -> int:
        """How many are missing between the two."""
        return self.total_bytes - len(self.head) - len(self.tail)
