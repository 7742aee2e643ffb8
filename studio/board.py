"""The runs of this process, for every door: begun, followed, told, stopped. They outlive their clients."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from lockstitch.graph.parts import utc_now
from lockstitch.state.errors import AgentError, SystemFaultError, TerminalError, ThreadBusyError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import AgentCompletion, AgentErrorEvent, Event
from lockstitch.state.reasons import TerminationReason, exit_code_of
from lockstitch.state.settings import Settings
from lockstitch.studio.builds import Builds
from lockstitch.studio.elsewhere import Elsewhere
from lockstitch.studio.event_keeper import drop_old
from lockstitch.studio.event_writer import EventWriter
from lockstitch.studio.follower import Follower
from lockstitch.studio.run_handle import RunHandle
from lockstitch.studio.service import AgentService, RunRequest, open_service

DRAIN_S: Final = 10.0  # for runs to be stopped at the end: a command's process tree takes at most 5
PRUNE_EVERY_S: Final = 24 * 3600.0  # events are kept for days, so once a day is often enough
LAST_WORDS: Final = frozenset({"agent_approval_request", "agent_request_input", "agent_completion"})
"""Events after which a run only stores where it stands and frees its thread; they are told once it has."""


class _Run:
    """One run that goes on."""

    def __init__(self, handle: RunHandle) -> None:
        self.handle = handle
        self.begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self.last: Event | None = None
        self.rests = False
        self.reason: TerminationReason | None = None
        self.fault: AgentError | None = None
        self.task: asyncio.Task[None] | None = None

    def take(self, event: Event) -> None:
        """Note how far the run has come."""
        if not self.begun.done():
            self.begun.set_result(event.seq - 1)
        self.last = event
        self.rests = self.rests or event.type in LAST_WORDS
        self.reason = event.reason if isinstance(event, AgentCompletion) else None

    def end(self, last_seq: int) -> None:
        """Let those go on who wait for its end; who began it is told where it was refused."""
        self.over.set()
        if not self.begun.done() and self.fault:
            self.begun.set_exception(self.fault)
        elif not self.begun.done():  # stopped before it had begun
            self.begun.set_result(last_seq)


class Board:
    """The runs of one process and who follows them. Lives on one event loop.

    Who is told that a run ended, or that it waits for a person, can begin the next one at once. What a run is
    told too late for its last plan begins the next one by itself, where the run was done; else it is said to
    the thread's next run first.

    Attributes:
        builds: of indexes, which go on beside the runs and end with them.
    """

    builds: Builds

    def __init__(
        self, service: AgentService, log: EventLog, elsewhere: Elsewhere, *, holder: str = "lockstitch"
    ) -> None:
        self.service = service
        self.log = log
        self.elsewhere = elsewhere
        self._holder = holder
        self._writer = EventWriter(log, self._tell)
        self._runs: dict[str, _Run] = {}
        self._starting: set[str] = set()
        self._followers: dict[str, set[Follower]] = {}
        self._late: dict[str, list[str]] = {}
        self._draining = False

    async def start(self, request: RunRequest) -> int:
        """Begin a run that goes on in the background; the number after which its events come.

        Waits while the thread's run before it is coming to rest.

        Raises:
            ThreadBusyError: a run of this thread goes on, here or in another process.
            ThreadUnknownError: there is nothing to go on with.
            UsageError: the request does not fit the thread as it stands.
            SystemFaultError: this process is about to end, or the log cannot be read.
        """
        thread_id = request.thread_id
        if (before := self._runs.get(thread_id)) and before.rests:
            await before.over.wait()
        if thread_id in self._runs or thread_id in self._starting:
            raise ThreadBusyError(
                f"a run of thread {thread_id} is going on. "
                "Wait until it ends or stop it, or begin a new thread."
            )
        self._starting.add(thread_id)
        try:
            last_seq = await asyncio.to_thread(self.log.last_seq, thread_id)
            run = self._begin(replace(request, holder=self._holder, last_seq=last_seq))
        finally:
            self._starting.discard(thread_id)
        return await run.begun  # who asked may leave meanwhile: the run goes on

    async def follow(self, thread_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The thread's events with a number above `after`, kept ones and then live ones.

        Ends when the thread's run rests (it ended, was stopped, or waits for a person), or at once when none
        goes on, here or in another process. Who reads too slowly holds nobody up, and misses pieces of
        replies only.

        Raises:
            HomeUnusableError, SystemFaultError: the log cannot be read.
        """
        if not self.is_running(thread_id):
            async for event in self.elsewhere.follow(thread_id, after=after):
                yield event
            return
        follower = Follower(self.log, thread_id, after=after)
        followers = self._followers.setdefault(thread_id, set())
        followers.add(follower)
        try:
            async for event in follower.events():
                yield event
        finally:
            followers.discard(follower)
            if not followers and self._followers.get(thread_id) is followers:
                del self._followers[thread_id]

    def stop(self, thread_id: str) -> bool:
        """Stop the thread's run; False when none goes on."""
        if run := self._runs.get(thread_id):
            run.handle.stop()
        return run is not None

    def say(self, thread_id: str, text: str) -> bool:
        """Hand a person's words to the run's next plan; False when no run takes them."""
        run = self._runs.get(thread_id)
        return run is not None and run.handle.say(text)

    async def rest(self, thread_id: str) -> None:
        """Wait until the thread's run rests and all its events were told; at once when none goes on."""
        if run := self._runs.get(thread_id):
            await run.over.wait()

    def is_running(self, thread_id: str) -> bool:
        """Whether a run of the thread goes on in this process."""
        return thread_id in self._runs

    def running(self) -> list[str]:
        """The threads whose runs go on in this process."""
        return list(self._runs)

    async def drain(self, timeout_s: float) -> None:
        """Begin no more runs, stop those there are in good order, and write all events down.

        A run that takes longer is left as it is: its thread goes on from its last step.
        """
        self._draining = True
        for run in self._runs.values():
            run.handle.stop()
        if tasks := [run.task for run in self._runs.values() if run.task]:
            await asyncio.wait(tasks, timeout=timeout_s)
        await self._writer.flush()

    def _begin(self, request: RunRequest) -> _Run:
        if self._draining:
            raise SystemFaultError("this server is about to end: try again once it runs again.")
        run = self._runs[request.thread_id] = _Run(self.service.start(request))
        for text in self._late.pop(request.thread_id, []):
            run.handle.say(text)
        run.task = asyncio.create_task(self._run(run, request))
        return run

    async def _run(self, run: _Run, request: RunRequest) -> None:
        """One run, and the next for as long as something was said too late for the one before."""
        thread_id = request.thread_id
        try:
            await self._read(run)
            while late := self._due(run):
                last_seq = run.last.seq if run.last else request.last_seq
                prompt = "\n\n".join(late)
                run.handle = self.service.start(
                    replace(request, prompt=prompt, reply=None, last_seq=last_seq)
                )
                await self._read(run)
            if late := run.handle.untaken():
                self._late[thread_id] = late
        finally:
            await self._writer.flush()
            del self._runs[thread_id]
            for follower in self._followers.get(thread_id, ()):
                follower.end()
            run.end(request.last_seq)

    def _due(self, run: _Run) -> list[str]:
        done = run.reason is not None and exit_code_of(run.reason) == 0
        return run.handle.untaken() if done and not self._draining else []

    async def _read(self, run: _Run) -> None:
        """Have every event of the handle kept and told, its error as well; the last words when it is over."""
        run.rests, last_words, error = False, list[Event](), None
        try:
            async for event in run.handle.events():
                run.take(event)
                if run.rests:
                    last_words.append(event)
                else:
                    self._writer.put(event)
        except AgentError as raised:
            error = raised
        for event in last_words:
            self._writer.put(event)
        run.fault = error or run.fault
        if run.fault and run.last:
            self._fail(run, run.fault, last=run.last)

    def _fail(self, run: _Run, error: AgentError, *, last: Event) -> None:
        """Tell an error that no node could, after what was told before."""
        stamp = EventStamp(thread_id=last.thread_id, run_id=last.run_id, last_seq=last.seq, now=utc_now)
        words: list[Event] = [AgentErrorEvent(message=error.message)]
        if run.reason is None:
            reason = error.reason if isinstance(error, TerminalError) else "system_error"
            words.append(AgentCompletion(steps=last.step, reason=reason))
        for word in words:
            event = stamp.stamp(word, step=last.step)
            run.take(event)
            self._writer.put(event)

    def _tell(self, events: Sequence[Event], fault: AgentError | None) -> None:
        for event in events:
            for follower in self._followers.get(event.thread_id, ()):
                follower.tell(event)
            run = self._runs.get(event.thread_id)
            if fault and run and not run.fault:  # nobody could come back to what is not kept
                run.fault = fault
                run.handle.stop()


@asynccontextmanager
async def open_board(settings: Settings, *, holder: str, on_loop: bool) -> AsyncIterator[Board]:
    """A board on the home that the settings name; at its end its runs are stopped in good order.

    Args:
        settings: of this process.
        holder: what this process is called towards others who find a thread busy.
        on_loop: whether quick file work may be done on the event loop; `langgraph dev` forbids it.

    Raises:
        HomeUnusableError: the home cannot be created, read or written.
        SystemFaultError: a file in it is damaged or locked, or the disk failed.
    """
    async with open_service(settings, on_loop=on_loop) as service:
        with await asyncio.to_thread(open_event_log, service.parts.home.path) as log:
            elsewhere = Elsewhere(log, service.parts.home.locks, service.threads.find)
            board = Board(service, log, elsewhere, holder=holder)
            board.builds = Builds(service.parts.home.path, settings)
            pruning = asyncio.create_task(_prune(log, days=settings.event_days))
            try:
                yield board
            finally:
                pruning.cancel()
                await asyncio.wait([pruning])
                await board.builds.close()
                await board.drain(DRAIN_S)


async def _prune(log: EventLog, *, days: int) -> None:
    """Delete what is older, once a day."""
    while True:
        with suppress(AgentError):  # whoever writes next meets it, and can tell somebody
            await asyncio.to_thread(drop_old, log, days=days)
        await asyncio.sleep(PRUNE_EVERY_S)
