"""A talk at a real terminal: the input line joined to its session, its figures and its questions."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from lockstitch.state.events import Event
from lockstitch.state.interrupts import HumanRequest
from lockstitch.studio.ask import Reply, ask_person
from lockstitch.studio.chat.completion import TalkCompleter
from lockstitch.studio.chat.front import Take
from lockstitch.studio.chat.gauge import Gauge
from lockstitch.studio.chat.history import TypedHistory
from lockstitch.studio.chat.keyboard import Keyboard, KeysOfTerminal
from lockstitch.studio.chat.paths import WorkspacePaths
from lockstitch.studio.chat.slash import COMMANDS, values_of
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.render import LiveView
from lockstitch.studio.stop_signals import LeaveError, Presses, StopSignals, leave_on_signals
from lockstitch.studio.terminal import keep_typeahead, open_console
from lockstitch.studio.writing import Writing

HISTORY: Final = "chat_history"  # file in the home folder


class GaugedView(LiveView):
    """A live view whose events the toolbar hears, too."""

    def __init__(self, gauge: Gauge, writing: Writing) -> None:
        super().__init__(open_console(), open_console(to_stderr=True), writing=writing)
        self._gauge = gauge

    def show(self, event: Event) -> None:
        """See View."""
        self._gauge.hear(event)
        super().show(event)


class KeyboardFront:
    """See Front."""

    def __init__(self, talk: Talk) -> None:
        """Takes the session's view, its person and Ctrl-C."""
        session = talk.session
        home = session.service.parts.home.path
        self._talk = talk
        self._writing = Writing()
        self._paths: dict[Path, WorkspacePaths] = {}
        presses = Presses()
        self._keyboard = Keyboard(
            history=TypedHistory(home / HISTORY),
            completer=TalkCompleter(
                commands=[(one.name, one.help) for one in COMMANDS.values()],
                values=lambda name: values_of(talk, name),
                paths=self._list_paths,
            ),
            toolbar=lambda: talk.gauge.line(session.thread_id),
            presses=presses,
            keys=KeysOfTerminal(sys.stdin),
        )
        session.view = GaugedView(talk.gauge, self._writing)
        session.person = self._ask
        keep_typeahead()
        leave_on_signals()
        signal.signal(signal.SIGINT, presses.receive)

    def read(self) -> str:
        """See Front."""
        return self._talk.session.runner.run(self._keyboard.read())

    def put_back(self, text: str) -> None:
        """See Front."""
        self._keyboard.put_back(text)

    def stay(self, run: StopSignals, take: Take) -> AbstractAsyncContextManager[object]:
        """See Front."""
        return self._keyboard.stay(run, take=take, moment=self._writing.line)

    def _list_paths(self) -> Sequence[str]:
        """The paths of the folder that the thread works in, another one after a switch."""
        root, home = self._talk.root, self._talk.session.service.parts.home.path
        return self._paths.setdefault(root, WorkspacePaths(root, home=home)).paths()

    def _ask(self, request: HumanRequest) -> Reply | None:
        """Somebody who can be asked, see session.py."""
        session = self._talk.session
        ends = time.monotonic() + session.service.parts.settings.request_input_timeout_s

        def read_line(prompt: str, *, prefill: str = "") -> str:
            answer = self._keyboard.ask(prompt, prefill=prefill)
            try:
                return session.runner.run(_within(ends - time.monotonic(), answer))
            except LeaveError as error:
                if error.number == signal.SIGINT:
                    raise KeyboardInterrupt from None
                raise

        return ask_person(request, console=open_console(), read_line=read_line)


async def _within(timeout_s: float, answer: Coroutine[Any, Any, str]) -> str:
    async with asyncio.timeout(timeout_s):
        return await answer
