"""A run in a task of its own: its events as they come, and a way to stop it."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from lockstitch.graph.client import Inbox
from lockstitch.state.errors import AgentError, SystemFaultError
from lockstitch.state.events import AgentCompletion, Event

Emit: TypeAlias = Callable[[Event], None]


class RunHandle:
    """Begins `drive` at once. The run goes on whether or not anybody reads its events."""

    def __init__(self, drive: Callable[[Emit], Awaitable[None]], inbox: Inbox | None = None) -> None:
        self._inbox = inbox or Inbox()
        self._told: deque[Event | AgentError] = deque()  # in the order of the calls, from any thread
        self._news = asyncio.Event()
        self._loop, self._home_thread = asyncio.get_running_loop(), threading.get_ident()
        self._stoppable = True
        self._task = asyncio.create_task(self._work(drive))
        # not in a `finally`: of a task that is cancelled before it began nothing runs
        self._task.add_done_callback(lambda _: self._news.set())

    async def events(self) -> AsyncIterator[Event]:
        """Every event of the run, in order, until it ends, waits for a person, or was stopped.

        Raises:
            AgentError: the run could not begin or go on; the message says what to do.
        """
        while True:
            over = self._task.done()
            self._news.clear()
            while self._told:
                item = self._told.popleft()
                if isinstance(item, AgentError):
                    raise item
                yield item
            if over:
                return
            await self._news.wait()

    def say(self, text: str) -> bool:
        """Hand a message to the run's next plan; False when the run is over, and took nothing."""
        if self._stoppable:
            self._inbox.put(text)
        return self._stoppable

    def untaken(self) -> list[str]:
        """Messages that were said too late; true once the run has ended. The next run may begin with them."""
        return self._inbox.texts()

    def stop(self) -> None:
        """End the run: running processes are ended, the stop is recorded, the thread stays resumable.

        A second stop would cut off the recording of the first, and one after the run's completion would
        contradict it: both do nothing.
        """
        if self._stoppable:
            self._stoppable = False
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until nothing of the run is left."""
        await asyncio.wait([self._task])

    async def _work(self, drive: Callable[[Emit], Awaitable[None]]) -> None:
        try:
            await drive(self._emit)
        except AgentError as error:
            self._put(error)
        except Exception as error:  # noqa: BLE001  the worker boundary: whatever it is, the reader must hear of it
            # without its text, which may hold a file's content
            fault = SystemFaultError(f"the run failed ({type(error).__name__}). The thread is kept.")
            fault.__cause__ = error
            self._put(fault)

    def _emit(self, event: Event) -> None:
        if isinstance(event, AgentCompletion):
            self._stoppable = False
        self._put(event)

    def _put(self, item: Event | AgentError) -> None:
        """Hand it to the reader, who is woken once for all that is told meanwhile."""
        self._told.append(item)
        if threading.get_ident() == self._home_thread:
            self._news.set()
        else:
            self._loop.call_soon_threadsafe(self._news.set)
