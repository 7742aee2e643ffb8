"""A build beside an event loop: its progress in words, a few times a minute, and its stop."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from lockstitch.tools.code_index.build import Phase, Progress

Result = TypeVar("Result")

FIRST_S: Final = 1.0  # quicker builds tell nothing
LEAVE_S: Final = 0.8  # a stop takes a second at most; a batch of pieces half of one
EVERY_S: Final = 3.0  # events are kept: a build of an hour must not fill the log
WORDS: Final[dict[Phase, str]] = {"files": "reading files", "meaning": "encoding"}


class Telling:
    """Takes a build's progress and tells it in words, now and then. Called by the build's thread."""

    def __init__(
        self, tell: Callable[[str], None], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._next = monotonic() + FIRST_S

    def __call__(self, progress: Progress) -> None:
        """Hear of some progress."""
        if self._monotonic() >= self._next and progress.total:
            self._next = self._monotonic() + EVERY_S
            self._tell(describe(progress))


def describe(progress: Progress) -> str:
    """The progress in words."""
    return f"index: {WORDS[progress.phase]}, {progress.done:,} of {progress.total:,}"


async def until_stopped(work: Callable[[], Result], stop: threading.Event) -> Result:
    """Do the work in a worker thread; a cancellation sets `stop` and waits a moment for it to be heard.

    An endpoint that hangs hears nothing: its thread is left, and ends with the request.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()
        working.add_done_callback(_hear)
        await asyncio.wait([working], timeout=LEAVE_S)
        raise


def _hear(working: "asyncio.Future[Result]") -> None:
    """Take its error, since nobody else asks for it."""
    if not working.cancelled():
        working.exception()
