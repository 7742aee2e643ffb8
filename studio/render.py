"""A run as a person reads it: events become blocks of text, as they come.

Everything an event holds was written by a model, a file or a command: it goes through `make_visible`.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lockstitch.state.events import (
    AgentAnswer,
    AgentCompletion,
    AgentContext,
    AgentDiffPreview,
    AgentErrorEvent,
    AgentNotice,
    AgentReason,
    AgentRequestInputTimeout,
    AgentStart,
    AgentTodos,
    AgentToolComplete,
    AgentToolError,
    AgentToolStart,
    AgentTurnStart,
    AgentUsage,
    Event,
)
from lockstitch.state.reasons import ENDINGS
from lockstitch.studio.blocks import call_text, cost_words, diff_text, is_free, short_text
from lockstitch.studio.terminal import write_line
from lockstitch.studio.visible import make_visible
from lockstitch.studio.writing import Spinner, Writing
from lockstitch.tools.todo import render_todos

INDENT: Final = 5  # columns: a step's number of up to three digits, and two blanks
TOLD_BY_TODOS: Final = frozenset({"create_tasks", "update_task_status"})  # the list itself follows


class View(Protocol):
    """Where the events of a run go."""

    @property
    def streams(self) -> bool:
        """Whether somebody sees a reply while it is written."""

    def rest(self) -> None:
        """Nothing of this run follows for now: take away what stands there for the moment only."""

    def show(self, event: Event) -> None:
        """Show one event.

        Raises:
            BrokenPipeError: nobody reads any more.
        """

    def say(self, text: str) -> None:
        """Tell the person something of ours."""

    def warn(self, text: str) -> None:
        """Tell it on stderr, where a script's owner looks."""


class JsonLines:
    """Events as lines of JSON on stdout, and nothing else there; words go to stderr."""

    streams: Final = False

    def __init__(self, err: Console) -> None:
        self._err = err

    def rest(self) -> None:
        """See View."""

    def show(self, event: Event) -> None:
        """See View."""
        write_line(event.line)
        if isinstance(event, AgentErrorEvent):
            self.warn(f"lockstitch: {event.message}")

    def say(self, text: str) -> None:
        """See View."""
        self.warn(text)

    def warn(self, text: str) -> None:
        """See View."""
        self._err.print(Text(make_visible(text)), soft_wrap=True)


class LiveView:
    """Numbered steps on `out`, errors that end the run on `err`."""

    def __init__(
        self,
        out: Console,
        err: Console,
        *,
        writing: Writing | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`writing` is given by whoever shows it elsewhere; else it is drawn below the blocks."""
        self._out = out
        self._err = err
        self._monotonic = monotonic
        self._writing = writing or Spinner(out)
        self._forget()

    def _forget(self) -> None:
        self._step = 0
        self._mark = ""  # the step's number, until its first line is written
        self._thought = ""  # held until it is known not to be the answer
        self._calls: dict[str, str] = {}  # the lines of this step's calls
        self._running: set[str] = set()
        self._open_call = ""  # the call whose line was written last
        self._with_diff: set[str] = set()
        self._tokens = (0, 0)
        self._cost = ""
        self._began = self._monotonic()
        self._worked_s = 0.0  # without the time a person took to answer
        self._resting = False
        self._error = ""

    @property
    def streams(self) -> bool:
        """See View."""
        return self._out.is_terminal and not self._out.is_dumb_terminal

    def rest(self) -> None:
        """See View."""
        self._writing.rest()

    def say(self, text: str) -> None:
        """See View."""
        self._out.print(Text(make_visible(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        """See View."""
        self._err.print(Text(make_visible(text)), soft_wrap=True)

    def show(self, event: Event) -> None:
        """See View."""
        self._place(event)
        if isinstance(event, AgentErrorEvent | AgentCompletion):
            self._writing.rest()
        else:
            self._writing.hear(event)
        match event:
            case AgentStart():
                self._forget()
                self._header(event)
            case AgentTurnStart():
                self._out.print()
                self._open_call, self._calls = "", {}
            case AgentReason():
                self._thought = event.content.strip()
            case AgentToolStart() | AgentToolComplete() | AgentToolError() | AgentDiffPreview():
                self._show_thought()
                self._show_call(event)
            case AgentTodos():
                self._row(Text(make_visible(render_todos(event.tasks))))
            case AgentContext() | AgentNotice():
                self._row(Text(make_visible(event.content), "dim"))
            case AgentUsage():
                self._tokens = (event.run_input_tokens, event.run_output_tokens)
                self._cost = "" if is_free(event.model) else cost_words(event.run_cost_usd)
            case AgentAnswer() | AgentErrorEvent() | AgentRequestInputTimeout() | AgentCompletion():
                self._show_end(event)
            case _:  # phases, progress, observations and requests are told by the lines around them
                pass

    def _place(self, event: Event) -> None:
        """Note that work goes on, and in which step."""
        if isinstance(event, AgentTurnStart):
            self._show_thought()  # an answer that was not the end: a person had said something meanwhile
        if self._resting:
            self._began, self._resting = self._monotonic(), False
        if event.step != self._step:  # also the step that goes on after a person's answer
            self._step, self._mark = event.step, str(event.step)

    def _header(self, event: AgentStart) -> None:
        grid = Table.grid(padding=(0, 2))
        steps = "1 step" if event.max_steps == 1 else f"{event.max_steps} steps"
        model = f"{event.model}, {event.strategy}, mode {event.mode}, at most {steps}"
        for name, value in (("model", model), ("workspace", event.workspace), ("thread", event.thread_id)):
            grid.add_row(Text(name, "bold"), Text(make_visible(value), overflow="fold"))
        self._out.print(grid)

    def _show_thought(self) -> None:
        thought, self._thought = self._thought, ""
        if thought:
            self._row(Text(make_visible(thought)))

    def _show_call(
        self, event: AgentToolStart | AgentToolComplete | AgentToolError | AgentDiffPreview
    ) -> None:
        match event:
            case AgentToolStart():
                self._calls[event.call_id] = call_text(event.tool, event.args)
                if not self._running:  # of calls that run side by side each is told with its result
                    self._call_line(event)
                self._running.add(event.call_id)
            case AgentDiffPreview():
                self._with_diff.add(event.call_id)
                self._row(diff_text(event))
            case AgentToolComplete():
                self._call_line(event)
                lines = event.result.strip("\n").split("\n")
                if event.tool not in TOLD_BY_TODOS:
                    self._row(short_text(lines[:1] if event.call_id in self._with_diff else lines, "dim"))
            case AgentToolError():
                self._call_line(event)
                self._row(short_text(event.message.split("\n"), "red"))

    def _call_line(self, event: AgentToolStart | AgentToolComplete | AgentToolError) -> None:
        """Write which call the next lines are about, unless the last line did."""
        self._running.discard(event.call_id)
        if self._open_call != event.call_id:
            self._open_call = event.call_id
            text = self._calls.get(event.call_id, make_visible(event.tool))
            self._row(Text(text, "bold", overflow="fold"))

    def _show_end(
        self, event: AgentAnswer | AgentErrorEvent | AgentRequestInputTimeout | AgentCompletion
    ) -> None:
        match event:
            case AgentErrorEvent():
                self._show_thought()
                self._error = event.message
                self._err.print(Text(f"lockstitch: {make_visible(event.message)}", "red"), soft_wrap=True)
            case AgentAnswer():
                self._thought = "" if self._thought == event.content.strip() else self._thought
                self._show_thought()
                if not (self._error and self._error in event.content):
                    from lockstitch.studio.markdown import Answer

                    self._out.print(Rule(style="dim"))
                    self._out.print(Answer(event.content))
            case AgentRequestInputTimeout():
                self.say(f"Nobody answered within {event.timeout_s:.0f} s; the thread stays waiting.")
            case AgentCompletion():
                self._show_thought()
                self._worked_s += self._monotonic() - self._began
                self._resting = True
                if event.reason != "waiting":
                    self._totals(event)

    def _totals(self, event: AgentCompletion) -> None:
        figures = [event.reason, "1 step" if event.steps == 1 else f"{event.steps} steps"]
        figures += [f"{self._tokens[0]:,} tokens in, {self._tokens[1]:,} out"] if any(self._tokens) else []
        figures += [self._cost] if self._cost else []
        self._out.print(Rule(style="dim"))
        self._out.print(Text(" · ".join((*figures, f"{self._worked_s:.1f} s"))))
        if ENDINGS[event.reason].exit_code:
            self._out.print(Text(f"{ENDINGS[event.reason].meaning}."))

    def _row(self, body: Text) -> None:
        """A block beside the step's number, which stands at the first line only."""
        for line in body.wrap(self._out, max(self._out.width - INDENT, INDENT)):
            mark = (f"{self._mark:>{INDENT - 2}}  ", "bold cyan")
            self._out.print(Text.assemble(mark, line), soft_wrap=True)
            self._mark = ""
