"""Writes events to the log in batches, off the event loop, and tells them once they are kept.

In this order, since a number that a client has seen must be in the log, whenever the process dies.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lockstitch.state.errors import AgentError, SystemFaultError
from lockstitch.state.event_log import EventLog
from lockstitch.state.events import Event

GAP_S: Final = 0.05  # between two writes: 20 a second for all runs together, and nobody sees the delay

Tell = Callable[[Sequence[Event], AgentError | None], None]
"""Takes events in order; with the error if they could not be kept."""


class EventWriter:
    """Takes events from one event loop; works only while there are any."""

    def __init__(self, log: EventLog, tell: Tell, *, gap_s: float = GAP_S) -> None:
        self._log = log
        self._tell = tell
        self._gap_s = gap_s
        self._pending: list[Event] = []
        self._asked: list[asyncio.Future[None]] = []
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # a thread of its own: the tools of many runs may keep the loop's busy for long
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lockstitch-events")

    def put(self, event: Event) -> None:
        """Have the event kept and told, within the gap and the time of a write."""
        self._pending.append(event)
        self._work_on()

    async def flush(self) -> None:
        """Wait until everything that was put before has been told."""
        told = asyncio.get_running_loop().create_future()
        self._asked.append(told)
        self._hurry.set()
        self._work_on()
        await told

    def _work_on(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._pending or self._asked:
            self._hurry.clear()
            # sorted: what a worker thread reports takes one turn of the loop longer
            batch, self._pending = sorted(self._pending, key=lambda event: event.seq), []
            asked, self._asked = self._asked, []
            self._tell(batch, await self._keep(batch))
            for told in asked:
                if not told.done():
                    told.set_result(None)
            await self._pause()

    async def _keep(self, batch: Sequence[Event]) -> AgentError | None:
        try:
            if batch:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._log.append, batch)
        except AgentError as error:
            return error
        except Exception as error:  # noqa: BLE001  the worker boundary: the readers must hear of it
            fault = SystemFaultError(f"events could not be kept ({type(error).__name__}).")
            fault.__cause__ = error
            return fault
        return None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._gap_s):
                await self._hurry.wait()
        except TimeoutError:
            return
