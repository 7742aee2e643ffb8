"""Runs of other processes on this home: who writes a thread, and what is told of it meanwhile.

The command line keeps its events in the same log; reading that is all there is to following its runs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from lockstitch.state.event_log import EventLog
from lockstitch.state.events import AgentCompletion, AgentErrorEvent, Event
from lockstitch.state.thread_lock import writer_of
from lockstitch.state.threads import ThreadRow
from lockstitch.studio.follower import Follower

LOOK_EVERY_S: Final = 0.25  # seconds between two looks at the log: its writer takes as long
LATE_LOOKS: Final = 8  # after the lock is free: the run's last events are written then, within milliseconds
GONE: Final = (
    "The process that ran this thread is gone. What it recorded is kept: the thread goes on where it was."
)


class Elsewhere:
    """What other processes do with the threads of this home.

    Args:
        log: where their events are kept.
        locks: folder of the lock files.
        find: the row of a thread in the index.
    """

    def __init__(self, log: EventLog, locks: Path, find: Callable[[str], ThreadRow | None]) -> None:
        self._log = log
        self._locks = locks
        self._find = find

    async def writer(self, thread_id: str) -> str:
        """Who writes the thread, in words for a person; empty where nobody does."""
        return await asyncio.to_thread(writer_of, self._locks, thread_id)

    async def follow(self, thread_id: str, *, after: int) -> AsyncIterator[Event]:
        """The thread's events with a number above `after`, until nobody writes it any more.

        Ends at once where nobody does. Pieces of replies never come: they are not kept. A run whose end is
        not kept is given one without a number: it was killed, or `langgraph dev` ran it.

        Raises:
            HomeUnusableError, SystemFaultError: the log cannot be read.
        """
        late_looks, was_written, over = LATE_LOOKS, False, False
        while True:
            written = bool(await self.writer(thread_id))
            follower = Follower(self._log, thread_id, after=after)
            follower.end()  # what is kept now
            async for event in follower.events():
                after, over = event.seq, isinstance(event, AgentCompletion)
                yield event
            was_written |= written
            if not written and (over or not was_written or not late_looks):
                break
            late_looks -= not written
            await asyncio.sleep(LOOK_EVERY_S)
        if was_written and not over:
            for event in await asyncio.to_thread(self._end, thread_id):
                yield event

    def _end(self, thread_id: str) -> list[Event]:
        row = self._find(thread_id)
        if row is not None and row.reason is not None:
            return [AgentCompletion(thread_id=thread_id, steps=row.steps, reason=row.reason)]
        if row is not None and row.phase == "waiting":
            return [AgentCompletion(thread_id=thread_id, steps=row.steps, reason="waiting")]
        gone = AgentErrorEvent(thread_id=thread_id, message=GONE)
        steps = row.steps if row else 0
        return [gone, AgentCompletion(thread_id=thread_id, steps=steps, reason="system_error")]
