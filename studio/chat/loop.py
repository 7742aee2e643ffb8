"""A talk from its first line to its last: reads, obeys slash commands, runs prompts, hands messages over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from lockstitch.state.errors import AgentError
from lockstitch.state.interrupts import HumanRequest
from lockstitch.state.reasons import EXIT_USAGE
from lockstitch.studio.chat.front import Front
from lockstitch.studio.chat.slash import obey, parse_line, spoken
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.run_handle import RunHandle
from lockstitch.studio.stop_signals import EXIT_OF_SIGNAL, LeaveError, StopSignals, presses_as_before

EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT: a run that Ctrl-C stopped; the talk goes on
DONE: Final = 0  # the exit code of a run that came to its end


class Loop:
    """Prompt after prompt on one thread at a time."""

    def __init__(self, talk: Talk, front: Front) -> None:
        self._talk = talk
        self._front = front
        self._late: list[str] = []  # typed while a run went on, and taken by none
        self.last = DONE  # the exit code of the last run
        talk.session.beside = self._beside

    def go(self) -> int:
        """Talk until the person leaves; the exit code, 0 or that of a signal."""
        try:
            code = self._begin()
            while not self._talk.leaving and not _ended_by_signal(code):
                code = self._take_next()
        except LeaveError as error:
            return error.exit_code
        return code if _ended_by_signal(code) else DONE

    def _begin(self) -> int:
        """Show where a known thread stands; what it asks comes first."""
        session = self._talk.session
        if not session.begun:
            return DONE
        session.runner.run(self._talk.refresh())
        return self._turn(None) if session.waiting_for() else DONE

    def _take_next(self) -> int:
        line = "\n\n".join(self._late) or self._front.read()
        if self._late:
            self._late = []
            self._talk.session.view.say(f"> {line}")
            return self._turn(line)
        if not line.strip():
            return self._turn(None) if self._talk.session.person and self._waits() else DONE
        text = line.strip()
        return self._turn(spoken(text)) if parse_line(text) is None else self._obey(text)

    def _obey(self, text: str) -> int:
        """Do what a slash command says; one that cannot be done stands in the next line, to be mended."""
        session = self._talk.session
        before = session.thread_id
        try:
            session.runner.run(obey(self._talk, text))
            if session.thread_id != before:
                return self._begin()
        except AgentError as error:
            session.view.warn(f"lockstitch: {error.message}")
            self._front.put_back(text)
        return DONE

    def _turn(self, prompt: str | None) -> int:
        """One run to its rest; the exit code."""
        session, code = self._talk.session, DONE
        if prompt is not None and (dropped := self._waits()):
            session.view.say(
                f"({dropped['action_requests'][0]['name']} waited for your word, and is dropped)"
            )
        try:
            with presses_as_before():
                code = self.last = session.run(prompt=prompt)
        except AgentError as error:  # the talk goes on: another prompt may fit
            session.view.warn(f"lockstitch: {error.message}")
            self.last = EXIT_USAGE
        except KeyboardInterrupt:  # while being asked: the thread waits, and the next prompt may come
            code = EXIT_INTERRUPTED
        self._late += self._talk.take_untaken()
        if code != DONE:  # nobody knows whether they still fit
            self._front.put_back("\n".join(self._late))
            self._late = []
        if session.person and self._waits():
            session.view.say("An empty line asks again; a new prompt drops what waits.")
        return code

    def _waits(self) -> HumanRequest | None:
        """What the thread asks a person."""
        session = self._talk.session
        view = session.runner.run(session.look()) if session.begun else None
        return view.waiting_for if view else None

    @asynccontextmanager
    async def _beside(self, handle: RunHandle, signals: StopSignals) -> AsyncIterator[None]:
        """Hand over what is typed while one leg of a run goes on."""
        late, self._late = [*self._late, *self._talk.take_untaken()], []
        for text in late:
            handle.say(text)
        self._talk.handle, self._talk.running = handle, True
        try:
            async with self._front.stay(signals, self._take_beside):
                yield
        finally:
            self._talk.running = False
            self._talk.refit()  # what was chosen meanwhile

    async def _take_beside(self, line: str) -> None:
        """A line typed during a run: a slash command, or words for its next plan."""
        view, text = self._talk.session.view, line.strip()
        if not text:
            return
        view.say(f"> {text}")
        try:
            if parse_line(text):
                await obey(self._talk, text)
            elif self._talk.handle and self._talk.handle.say(spoken(text)):
                view.say("  (handed to the next step)")
            else:
                self._late.append(spoken(text))
                view.say("  (begins the next run)")
        except AgentError as error:
            view.warn(f"lockstitch: {error.message}")


def _ended_by_signal(code: int) -> bool:
    return code > EXIT_OF_SIGNAL and code != EXIT_INTERRUPTED
