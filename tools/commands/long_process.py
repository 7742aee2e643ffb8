"""One process that goes on after the call that started it: its thread, its newest output, its end.

It has a thread and an event loop of its own. A run's loop stands still while a person at a terminal is asked,
and output that nobody takes would hold the process up; and the kernel ends a sandbox with the very thread
that started it, which so must live as long.
"""

import asyncio
import codecs
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from lockstitch.state.errors import AgentError, ToolExecutionError
from lockstitch.tools.commands.kept_output import KeptOutput
from lockstitch.tools.commands.process import OutputWatcher, ProcessResult

FRESH_BYTES: Final = 1024 * 1024  # of output that nobody has read yet, half of it the oldest, half the newest
POLL_S: Final = 0.02  # between two looks at another thread's work
SETTLE_S: Final = 0.1  # after the first new output: what is said together is read together
STOP_S: Final = 5.0  # for a process to end; SIGTERM, SIGKILL and the pipe take at most 2

Live = Callable[[OutputWatcher], Coroutine[Any, Any, ProcessResult]]
"""Runs the process to its end, or ends it when it is cancelled; gives each piece of output on."""


class LongProcess:
    """A process from its start on; safe to use from any thread.

    Attributes:
        process_id: short, and of one thread of the agent: `p1`.
        started_at: ISO 8601 in UTC.
        kept: a person wants it to stay beyond the run.
        result: how it ended by itself; None while it runs, and where it was ended.
        fault: why it could not be started, or was given up.
    """

    def __init__(self, process_id: str, live: Live, *, command: str, folder: str) -> None:
        """Start it; `command` and `folder` are what a person is shown."""
        self.process_id = process_id
        self.command = command
        self.folder = folder
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.kept = False
        self.result: ProcessResult | None = None
        self.fault: AgentError | None = None
        self._lock = threading.Lock()
        self._fresh = KeptOutput(FRESH_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._wanted = True
        self._cancel: Callable[[], object] | None = None
        # a daemon: an agent that ends without a word must not wait for it
        self._thread = threading.Thread(target=self._run, args=(live,), name=process_id, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def take(self) -> KeptOutput:
        """What it has said since the last time."""
        with self._lock:
            if not self._thread.is_alive():
                self._fresh.add(self._decoder.decode(b"", final=True).encode())
            taken, self._fresh = self._fresh, KeptOutput(FRESH_BYTES)
        return taken

    async def over_within(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        await _until(lambda: not self.running, seconds)
        return not self.running

    async def heard_within(self, seconds: float) -> None:
        """Wait until it says something new, or ends."""
        deadline = time.monotonic() + seconds
        await _until(lambda: self._fresh.total_bytes > 0 or not self.running, seconds)
        await self.over_within(min(SETTLE_S, deadline - time.monotonic()))

    async def end(self) -> None:
        """End it, and all it started.

        Raises:
            ToolExecutionError: it did not end in time.
        """
        self.stop()
        if not await self.over_within(STOP_S):
            raise ToolExecutionError(
                f"process {self.process_id} did not end: it waits for a disk or network."
            )

    def stop(self) -> None:
        """Have it ended, without waiting."""
        with self._lock, contextlib.suppress(RuntimeError):  # its loop has closed by itself
            self._wanted = False
            if self._cancel:
                self._cancel()

    def join(self) -> None:
        """Wait for its end, `STOP_S` at most."""
        self._thread.join(STOP_S)

    def _run(self, live: Live) -> None:
        try:
            self.result = asyncio.run(self._live(live))
        except asyncio.CancelledError:
            return  # it was ended
        except AgentError as error:
            self.fault = error
        except Exception as error:  # noqa: BLE001  the border of a thread: whoever reads must hear of it
            self.fault = ToolExecutionError(f"the process was given up ({type(error).__name__}).")

    async def _live(self, live: Live) -> ProcessResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._lock:
            if not self._wanted:
                raise asyncio.CancelledError
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        return await live(self._hear)

    def _hear(self, data: bytes) -> None:
        with self._lock:  # whole characters alone: a reading may come at any moment
            self._fresh.add(self._decoder.decode(data).encode())


async def _until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:  # noqa: ASYNC110  another thread makes it true
        await asyncio.sleep(POLL_S)
