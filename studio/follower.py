"""One reader's place in the events of a thread: never holds anybody up, catches up from the log."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from lockstitch.state.event_log import EventLog
from lockstitch.state.events import Event

ROOM: Final = 1_000  # events waiting for one reader, about a megabyte; beyond that it reads the log
PAGE: Final = 200  # events of one reading: about 2 ms in which the log's writer waits


class Follower:
    """Reads kept events first, then those it is told. What it is told is in the log already.

    Where it reads too slowly, what waits for it is dropped and read from the log later; pieces of replies
    are lost that way, and nothing else.
    """

    def __init__(self, log: EventLog, thread_id: str, *, after: int) -> None:
        self._log = log
        self._thread_id = thread_id
        self._seq = after
        self._told: deque[Event] = deque()
        self._behind = True
        self._over = False
        self._wake = asyncio.Event()

    def tell(self, event: Event) -> None:
        """Hand over the thread's next event."""
        if len(self._told) >= ROOM:
            self._told.clear()
            self._behind = True
        if not self._behind:
            self._told.append(event)
        self._wake.set()

    def end(self) -> None:
        """Say that no event follows."""
        self._over = True
        self._wake.set()

    async def events(self) -> AsyncIterator[Event]:
        """Every event after the reader's place, in order, once; until the end.

        Raises:
            HomeUnusableError, SystemFaultError: the log cannot be read.
        """
        while True:
            self._wake.clear()
            if self._behind:
                self._behind = False  # before the reading: what is told meanwhile must not be missed
                async for event in self._kept():
                    yield event
            while self._told:
                event = self._told.popleft()
                if event.seq > self._seq:
                    self._seq = event.seq
                    yield event
            if self._over and not self._behind:
                return
            if not self._behind:
                await self._wake.wait()

    async def _kept(self) -> AsyncIterator[Event]:
        while page := await asyncio.to_thread(self._log.since, self._thread_id, self._seq, limit=PAGE):
            for event in page:
                self._seq = event.seq
                yield event
            if len(page) < PAGE:
                return
