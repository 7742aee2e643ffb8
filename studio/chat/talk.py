"""What a talk is about: its session, its figures, and the run under way. Slash commands work on it."""

from dataclasses import dataclass, field
from pathlib import Path

from lockstitch.graph.models.wish import ModelWish
from lockstitch.state.run_state import RunState
from lockstitch.studio.chat.gauge import Gauge
from lockstitch.studio.run_handle import RunHandle
from lockstitch.studio.session import Session


@dataclass
class Talk:
    """One talk.

    Attributes:
        handle: of the leg of a run that is under way, or was the last.
        running: whether it is under way.
        leaving: the person wants to leave.
        worked_in: the folder that the thread works in; None before its first run.
        listed: ids of the threads that were listed last, to be named by their numbers.
    """

    session: Session
    gauge: Gauge
    handle: RunHandle | None = None
    running: bool = False
    leaving: bool = False
    worked_in: str | None = None
    listed: list[str] = field(default_factory=list)

    async def refresh(self) -> RunState:
        """Take the thread's figures anew; its state, empty before its first run."""
        view = await self.session.look()
        state = view.state if view else RunState()
        self.gauge.turn_to(state)
        self.worked_in = state.get("workspace") or None
        return state

    async def look_again(self) -> RunState:
        """As `refresh`, but the figures of a run under way, which come with its events, stay."""
        if not self.running:
            return await self.refresh()
        view = await self.session.look()
        return view.state if view else RunState()

    def refit(self) -> None:
        """Show the session's choices; while a run goes on those it began with stay in sight."""
        if self.running:
            return
        parts, context = self.session.service.parts, self.session.options.context()
        model = parts.models.open(ModelWish(model=context.model, preset=context.preset))
        self.gauge.model, self.gauge.window = model.name, model.window
        self.gauge.strategy = context.strategy or parts.settings.strategy
        self.gauge.mode = context.mode or parts.settings.mode

    @property
    def workspace(self) -> Path:
        """The folder that a new thread of this session works in."""
        return (self.session.options.workspace or self.session.service.parts.folder).expanduser()

    @property
    def root(self) -> Path:
        """The folder that the next run works in, as far as it was looked at."""
        if self.session.options.workspace is None and self.worked_in:
            return Path(self.worked_in)
        return self.workspace

    async def folder(self) -> Path:
        """The folder that the thread works in."""
        view = await self.session.look()
        worked_in = view.state.get("workspace") if view else None
        return (Path(worked_in) if worked_in else self.workspace).resolve()

    @property
    def from_when(self) -> str:
        """Said behind a choice that the run under way does not follow."""
        return ", from the next run on" if self.running else ""

    def say(self, *lines: str) -> None:
        """Tell the person something, line by line."""
        for line in lines:
            self.session.view.say(line)

    def take_untaken(self) -> list[str]:
        """What was typed for the last leg and came too late for it."""
        handle, self.handle = self.handle, None
        return handle.untaken() if handle else []


def open_talk(session: Session) -> Talk:
    """The talk of a session that has not begun."""
    talk = Talk(session, Gauge(model="", strategy="", mode="", window=0))
    talk.refit()
    return talk
