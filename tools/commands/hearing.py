"""A program's worker thread, and all it waits for there: output, an end, and the wish to stop it."""

import asyncio
import contextvars
import os
import select
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lockstitch.state.finished import settled

CHUNK_BYTES: Final = 65_536  # of one reading: what a Linux pipe holds
POLL_S_MAX: Final = 3600.0  # of one wait: the kernel counts milliseconds, and has no word for infinite ones
# Commands last, so they take no threads from those who have short work; what is never used is never made.
WORKERS_MAX: Final = 1_000
_WORKERS: Final = ThreadPoolExecutor(WORKERS_MAX, thread_name_prefix="command")

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818  no error: somebody wanted it
    """The work was stopped."""


class Stop:
    """The wish that work in another thread ends.

    Attributes:
        fd: can be read once the wish is told.
    """

    def __init__(self) -> None:
        self.fd, self._open_end = os.pipe()
        self.is_told = False

    def tell(self) -> None:
        """Wish it; again changes nothing."""
        if not self.is_told:
            self.is_told = True
            os.close(self._open_end)

    def close(self) -> None:
        """Give the descriptors back; nobody waits any more."""
        self.tell()
        os.close(self.fd)


async def in_worker(work: Callable[[Stop], T]) -> T:
    """The result of `work` in a thread; cancelled, it is told to stop, and waited for before that is told."""
    stop = Stop()
    context = contextvars.copy_context()
    working = asyncio.get_running_loop().run_in_executor(_WORKERS, context.run, work, stop)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.tell()
        await settled(working)
        raise
    finally:
        stop.close()


def aside(work: Callable[[], None]) -> None:
    """Have work done in another worker thread; nobody hears of its end.

    Raises:
        RuntimeError: this process is ending, or has no more threads; it will not be done.
    """
    left = [work]

    def do() -> None:
        if left:
            left.pop()()

    try:
        _WORKERS.submit(do)
    except RuntimeError:  # the pool may have noted it all the same, for a thread that comes free
        if left:
            left.clear()
            raise


class Hearing:
    """What a worker hears of a program; its output is taken whatever is waited for, so that it never waits.

    Attributes:
        is_drained: the output has come to its end.
    """

    def __init__(
        self, output: int, takers: Sequence[Callable[[bytes], None]], stop: Stop | None = None
    ) -> None:
        """`output` is the descriptor whose pieces the takers are given."""
        self._output = output
        self._takers = takers
        self._stop = stop
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)
        self.is_drained = False

    def wait(self, fd: int, seconds: float, *, stoppable: bool = False) -> bool:
        """Wait until `fd` can be read; False when it cannot within that time.

        Raises:
            Stopped: somebody wants it, and it is `stoppable`.
        """
        stop = self._stop if stoppable else None
        watched = [fd, stop.fd] if stop else [fd]
        for each in watched:
            self._poll.register(each, select.POLLIN)
        try:
            deadline = time.monotonic() + seconds
            while True:
                ready = self._once(deadline)
                if stop and stop.fd in ready:
                    raise Stopped
                if fd in ready:
                    return True
                if time.monotonic() >= deadline:
                    return False
        finally:
            for each in watched:
                self._poll.unregister(each)

    def drain(self, seconds: float) -> None:
        """Take output to its end, or for so long."""
        deadline = time.monotonic() + seconds
        while not self.is_drained and time.monotonic() < deadline:
            self._once(deadline)

    def pause(self, seconds: float) -> None:
        """Let so much time pass."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._once(deadline)

    def _once(self, deadline: float) -> set[int]:
        """What can be read, as soon as anything can; output is taken."""
        left_s = min(POLL_S_MAX, max(0.0, deadline - time.monotonic()))
        ready = {fd for fd, _ in self._poll.poll(left_s * 1000)}
        if self._output in ready:
            data = os.read(self._output, CHUNK_BYTES)
            if not data:
                self.is_drained = True
                self._poll.unregister(self._output)
            for take in self._takers if data else ():
                take(data)
        return ready
