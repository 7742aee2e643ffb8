"""One thread at a terminal: runs it, asks the person what it waits for, and gives the exit code.

Legs of a run are driven inside the event loop; a person is asked between them, outside of it, so that
typing, Ctrl-C and the time limit are those of any other program.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.graph.models.choice import choose_model
from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.graph.parts import current_folder
from lockstitch.graph.strategies.registry import choose_strategy
from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.events import AgentCompletion, AgentRequestInputTimeout
from lockstitch.state.interrupts import HumanRequest
from lockstitch.state.reasons import TerminationReason, exit_code_of
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadIndex, check_thread_id, new_thread_id
from lockstitch.studio.ask import Reply, ask_person, describe_request
from lockstitch.studio.render import JsonLines, LiveView, View
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.service import AgentService, RunRequest, open_service
from lockstitch.studio.stop_signals import on_stop_signals
from lockstitch.studio.terminal import drop_typeahead, open_console, person_is_here, read_line, within

Person = Callable[[HumanRequest], Reply | None]
"""Somebody who can be asked; None leaves the thread waiting. TimeoutError: nobody answered in time."""

EXIT_WAITING: Final = exit_code_of("waiting")


@dataclass(frozen=True)
class Leg:
    """How far one stretch of a run came; `signal_exit` is the exit code of the signal that stopped it."""

    reason: TerminationReason | None
    signal_exit: int | None


class Session:
    """Runs on one thread, with one view, under one set of options."""

    def __init__(
        self, runner: asyncio.Runner, service: AgentService, options: RunOptions, *, thread_id: str
    ) -> None:
        self._runner = runner
        self._service = service
        self._options = options
        self.thread_id = thread_id
        self.view: View = LiveView(open_console(), open_console(to_stderr=True))
        self.person: Person | None = None
        self.begun = options.thread is not None or options.latest  # else there is no thread before a run

    def say_how_to_go_on(self) -> None:
        """Tell the command that goes on with this thread."""
        self.view.say(f'Go on: {self._options.command_for(self.thread_id)} "..."')

    def waiting_for(self) -> HumanRequest | None:
        """What the thread asks a person, if it does.

        Raises:
            ThreadUnknownError: there is no such thread yet.
        """
        return self._runner.run(self._service.view(self.thread_id)).waiting_for

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
        while True:
            leg = self._runner.run(self._drive(prompt, reply))
            if leg.signal_exit is not None:
                self.view.say("Stopped; the thread is kept.")
                return leg.signal_exit
            if leg.reason != "waiting":
                return exit_code_of(leg.reason or "system_error")
            request = self.waiting_for()
            reply, prompt = self._ask(request) if request else None, None
            if reply is None:
                return self._leave_waiting(request)

    async def _drive(self, prompt: str | None, reply: Reply | None) -> Leg:
        reason: TerminationReason | None = None
        self.begun = True
        request = RunRequest(
            thread_id=self.thread_id,
            prompt=prompt,
            reply=reply,
            context=self._options.context(),
            holder="lockstitch run",
        )
        handle = self._service.start(request)
        with on_stop_signals(handle.stop) as signals:
            try:
                async for event in handle.events():
                    self.view.show(event)
                    if isinstance(event, AgentCompletion):
                        reason = event.reason
            finally:  # also when the view failed: nothing may go on behind a closed terminal
                handle.stop()
                await handle.ended()
        return Leg(reason, signals.exit_code)

    def _ask(self, request: HumanRequest) -> Reply | None:
        if self.person is None:
            return None
        try:
            return self.person(request)
        except TimeoutError:
            timeout_s = self._service.parts.settings.request_input_timeout_s
            self.view.show(AgentRequestInputTimeout(action_id=request["action_id"], timeout_s=timeout_s))
            return None
        except KeyboardInterrupt:
            self._leave_waiting(request)
            raise

    def _leave_waiting(self, request: HumanRequest | None) -> int:
        """Say on stderr what waits and how to answer; the exit code of a waiting thread."""
        if request is not None:
            command = self._options.command_for(self.thread_id)
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
    folder = _check(options, settings)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        service = runner.run(stack.enter_async_context(open_service(settings)))
        try:
            service.parts.models.open(options.model, temperature=options.temperature)
            thread_id = _choose_thread(options, service.threads, folder)
            if options.thread is not None:
                view = runner.run(service.view(thread_id))  # a mistyped id must not begin a thread
                if options.workspace is None and (worked_in := view.state.get("workspace")):
                    check_workspace(Path(worked_in), home=settings.home)
            session = Session(runner, service, options, thread_id=thread_id)
            if as_json:
                session.view = JsonLines(open_console(to_stderr=True))
            elif person_is_here():
                session.person = person_at_terminal(settings.request_input_timeout_s)
            yield session
        finally:
            runner.run(stack.aclose())


def person_at_terminal(timeout_s: float) -> Person:
    """Whoever sits at this terminal; they have `timeout_s` for each request."""
    console = open_console()

    def ask(request: HumanRequest) -> Reply | None:
        drop_typeahead()
        with within(timeout_s):
            return ask_person(request, console=console, read_line=read_line)

    return ask


def _check(options: RunOptions, settings: Settings) -> Path:
    """Find what is wrong before the home or a thread is made; the folder for a new thread."""
    choose_model(options.model, settings)
    choose_strategy(options.strategy or settings.strategy)
    if options.thread is not None:
        check_thread_id(options.thread)
    folder = (options.workspace or settings.workspace or current_folder()).expanduser()
    if options.workspace or options.thread is None:
        return check_workspace(folder, home=settings.home)
    return folder


def _choose_thread(options: RunOptions, threads: ThreadIndex, folder: Path) -> str:
    if options.thread is not None:
        return check_thread_id(options.thread)
    if not options.latest:
        return new_thread_id()
    row = threads.latest(str(folder))
    if row is None:
        raise ThreadUnknownError("this workspace has no thread yet: give a prompt without --continue.")
    return row.thread_id
