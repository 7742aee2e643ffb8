"""One thread at a terminal: runs it, asks the person what it waits for, and gives the exit code.

Legs of a run are driven inside the event loop; a person is asked between them, outside of it, so that
typing, Ctrl-C and the time limit are those of any other program.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.events import AgentCompletion, AgentRequestInputTimeout
from lockstitch.state.interrupts import HumanRequest
from lockstitch.state.reasons import TerminationReason, exit_code_of
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import Settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.ask import Reply, ask_person, describe_request
from lockstitch.studio.choices_check import check_choices, check_options, choose_thread
from lockstitch.studio.event_keeper import EventKeeper, drop_old
from lockstitch.studio.render import JsonLines, LiveView, View
from lockstitch.studio.run_handle import RunHandle
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.service import AgentService, RunRequest, ThreadView, open_service
from lockstitch.studio.stop_signals import StopSignals, leave_on_signals, on_stop_signals, one_press
from lockstitch.studio.terminal import (
    drop_typeahead,
    keep_terminal,
    open_console,
    person_is_here,
    read_line,
    within,
)
from lockstitch.studio.uncollected import uncollected

Beside = Callable[[RunHandle, StopSignals], AbstractAsyncContextManager[object]]
"""What goes on while a leg of a run does; it may talk to the run, and stop it as a signal would."""

Person = Callable[[HumanRequest], Reply | None]
"""Somebody who can be asked; None leaves the thread waiting. TimeoutError: nobody answered in time."""

EXIT_WAITING: Final = exit_code_of("waiting")


@dataclass(frozen=True)
class Leg:
    """How far one stretch of a run came; `signal_exit` is the exit code of the signal that stopped it."""

    reason: TerminationReason | None
    signal_exit: int | None


class Session:
    """Runs on one thread at a time, with one view, under options that may change between runs."""

    def __init__(
        self,
        runner: asyncio.Runner,
        service: AgentService,
        log: EventLog,
        options: RunOptions,
        *,
        thread_id: str,
    ) -> None:
        self.runner = runner
        self.service = service
        self.options = options
        self.thread_id = thread_id
        self.view: View = LiveView(open_console(), open_console(to_stderr=True))
        self.person: Person | None = None
        self.beside: Beside = lambda _handle, _signals: nullcontext()
        self.begun = options.thread is not None or options.latest  # else there is no thread before a run
        self._keeper = EventKeeper(log, self._warn)
        self._told_sandbox = False

    def say_how_to_go_on(self, *, prompt: bool = True) -> None:
        """Tell the command that goes on with this thread, or answers what it waits for.

        `prompt` where it needs one.
        """
        command, view = self.options.command_for(self.thread_id), self.runner.run(self.look())
        if view and view.waiting_for:
            word = "--answer TEXT" if "question" in view.waiting_for else "--approve"
            self.view.say(f"It waits for you. Answer: {command} {word}")
        else:
            self.view.say(f"Go on: {command}" + (' "..."' if prompt else ""))

    async def look(self) -> ThreadView | None:
        """The thread as it stands; None before its first run."""
        try:
            return await self.service.view(self.thread_id)
        except ThreadUnknownError:
            return None

    def waiting_for(self) -> HumanRequest | None:
        """What the thread asks a person, if it does.

        Raises:
            ThreadUnknownError: there is no such thread yet.
        """
        return self.runner.run(self.service.view(self.thread_id)).waiting_for

    def choose(self, **choices: Any) -> None:
        """Change options by name, from the next run on. A choice that does not fit changes nothing.

        Raises:
            UsageError: model or strategy cannot be what was asked for.
        """
        options = replace(self.options, **choices)
        check_choices(options, self.service)
        self.options = options

    async def turn_to(self, thread_id: str) -> None:
        """Go on with another thread.

        Raises:
            ThreadUnknownError: there is none of that id.
            WorkspaceError: the folder it works in is gone.
        """
        view = await self.service.view(thread_id)
        if self.options.workspace is None and (worked_in := view.state.get("workspace")):
            check_workspace(Path(worked_in), home=self.service.parts.home.path)
        self.thread_id, self.begun = thread_id, True

    def begin_anew(self) -> None:
        """Go on with a new thread; nothing is stored before its first run."""
        self.thread_id, self.begun = new_thread_id(), False

    def run(self, *, prompt: str | None = None, reply: Reply | None = None) -> int:
        """Run until the thread rests, asking the person in between; the exit code.

        Raises:
            AgentError: the request cannot be followed.
            BrokenPipeError: nobody reads the output any more; the run was stopped.
        """
        if prompt is None and reply is None and self.person and (request := self.waiting_for()):
            reply = self._ask(request)
            if reply is None:
                return self._leave_waiting(request)
        context = self.options.context()  # once: what is chosen meanwhile is for the next run
        while True:
            leg = self.runner.run(self._drive(prompt, reply, context))
            if leg.signal_exit is not None:
                self.view.say("Stopped; the thread is kept.")
                return leg.signal_exit
            if leg.reason != "waiting":
                return exit_code_of(leg.reason or "system_error")
            request = self.waiting_for()
            reply, prompt = self._ask(request) if request else None, None
            if reply is None:
                return self._leave_waiting(request)

    async def _drive(self, prompt: str | None, reply: Reply | None, context: RunContext) -> Leg:
        reason: TerminationReason | None = None
        self.begun = True
        request = RunRequest(
            thread_id=self.thread_id,
            prompt=prompt,
            reply=reply,
            context=context,
            holder="lockstitch run",
            answers=self.person is not None,
            streams=self.view.streams,
            last_seq=self._keeper.last_seq(self.thread_id),
        )
        handle = self.service.start(request)
        with on_stop_signals(handle.stop) as signals:
            telling = asyncio.create_task(self._tell_sandbox())  # which is looked for while the model thinks
            try:
                async with self.beside(handle, signals):
                    async for event in handle.events():
                        self.view.show(event)
                        self._keeper.put(event)
                        if isinstance(event, AgentCompletion):
                            reason = event.reason
            finally:  # also when the view failed: nothing may go on behind a closed terminal
                handle.stop()
                await handle.ended()
                await self._keeper.flush()
                await telling
                self.view.rest()
        return Leg(reason, signals.exit_code)

    async def _tell_sandbox(self) -> None:
        """Say once where nothing, or the weaker one, holds commands back."""
        if self._told_sandbox:
            return
        self._told_sandbox = True
        found = await asyncio.to_thread(self.service.parts.find_sandbox)
        if found.backend == "none":
            self._warn(f"No sandbox: {found.reason}. Commands run as you, and ask first.")
        elif found.backend == "landlock":
            self._warn(f"Sandbox: {found.reason}.")

    def _warn(self, words: str) -> None:
        self.view.warn(words)  # the one of that moment

    def _ask(self, request: HumanRequest) -> Reply | None:
        if self.person is None:
            return None
        try:
            with one_press():
                return self.person(request)
        except TimeoutError:
            timeout_s = self.service.parts.settings.request_input_timeout_s
            self.view.show(AgentRequestInputTimeout(action_id=request["action_id"], timeout_s=timeout_s))
            return None
        except KeyboardInterrupt:
            self._leave_waiting(request)
            raise

    def _leave_waiting(self, request: HumanRequest | None) -> int:
        """Say on stderr what waits and how to answer; the exit code of a waiting thread."""
        if request is not None:
            command = self.options.command_for(self.thread_id)
            ways = (
                ("--answer TEXT",)
                if "question" in request
                else ("--approve", "--reject WHY", "--answer TEXT")
            )
            lines = (describe_request(request), "Answer with", *(f"  {command} {way}" for way in ways))
            self.view.warn("\n".join(lines))
        return EXIT_WAITING


@contextmanager
def open_session(options: RunOptions, *, as_json: bool = False) -> Iterator[Session]:
    """A session on the thread that the options name, or on a new one. Nothing is created for wrong options.

    Raises:
        UsageError: home, workspace, model, strategy or thread cannot be what was asked for.
    """
    settings = options.load()
    folder = check_options(options, settings)
    with keep_terminal(), asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            with uncollected():
                session = _open(runner, stack, options, settings, folder=folder)
            if as_json:
                session.view = JsonLines(open_console(to_stderr=True))
            elif person_is_here():
                session.person = person_at_terminal(settings.request_input_timeout_s)
            yield session
        finally:
            if person_is_here():  # whose Ctrl-C may come a third time, while all is being closed
                leave_on_signals()
            runner.run(stack.aclose())


def _open(
    runner: asyncio.Runner, stack: AsyncExitStack, options: RunOptions, settings: Settings, *, folder: Path
) -> Session:
    service = runner.run(stack.enter_async_context(open_service(settings)))
    log = stack.enter_context(open_event_log(service.parts.home.path))
    drop_old(log, days=settings.event_days)
    check_choices(options, service)
    thread_id = choose_thread(options, service.threads, folder)
    session = Session(runner, service, log, options, thread_id=thread_id)
    if options.thread is not None:
        runner.run(session.turn_to(thread_id))  # a mistyped id must not begin a thread
    return session


def person_at_terminal(timeout_s: float) -> Person:
    """Whoever sits at this terminal; they have `timeout_s` for each request."""
    console = open_console()

    def ask(request: HumanRequest) -> Reply | None:
        drop_typeahead()
        with within(timeout_s):
            return ask_person(request, console=console, read_line=read_line)

    return ask
