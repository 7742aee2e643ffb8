"""What a run is doing at this moment, in one line: for a spinner that is gone when the block itself comes."""

import time
from collections.abc import Callable
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lockstitch.state.events import (
    AgentAnswer,
    AgentDelta,
    AgentReason,
    AgentStart,
    AgentToolComplete,
    AgentToolError,
    AgentToolProgress,
    AgentToolStart,
    AgentTurnStart,
    AgentUsage,
    Event,
)
from lockstitch.studio.visible import make_visible

FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_A_SECOND: Final = 8
TAIL_CHARS: Final = 400  # of what is being written: more than any line of a terminal shows
WAITING: Final = "waiting for the model"
_DOING: Final = {"text": "writing", "reasoning": "thinking"}


class Writing:
    """The moment of a run; hears its events and says it in words. Who shows them is another's business."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._piece: tuple[str, str]  # kind and tool of what is being written
        self._tail: str
        self._chars: int
        self._turn_to(WAITING)

    def hear(self, event: Event) -> None:
        """Follow the run."""
        match event:
            case AgentDelta():
                self._grow(event)
            case AgentToolStart():
                self._turn_to(f"running {make_visible(event.tool)}")
            case AgentToolProgress():
                self._tail = event.content.strip()[-TAIL_CHARS:].rpartition("\n")[2]
            case (
                AgentStart()
                | AgentTurnStart()
                | AgentToolComplete()
                | AgentToolError()
                | AgentReason()  # from here on the reply is whole, and its own block says it
                | AgentUsage()
                | AgentAnswer()
            ):
                self._turn_to(WAITING)
            case _:
                pass

    def rest(self) -> None:
        """The run rests, and the line is empty."""
        self._turn_to("")

    def line(self, width: int) -> str:
        """Spinner, seconds, and the end of what is being written, in at most `width` columns."""
        if not self._doing:
            return ""
        passed = self._monotonic() - self._since
        frame = FRAMES[int(passed * FRAMES_A_SECOND) % len(FRAMES)]
        size = f" … {self._chars:,} characters" if self._piece[0] == "tool_call" else ""
        head = f"{frame} {passed:.0f} s · {self._doing}{size}"
        tail = make_visible(self._tail).replace("\n", " ").replace("\t", " ").strip()
        room = width - cell_len(head) - len(" · ")
        while tail and cell_len(tail) > room:
            tail = tail[max(1, len(tail) - room) :] if room > 0 else ""
        return f"{head} · {tail}" if tail else set_cell_size(head, min(width, cell_len(head)))

    def _grow(self, event: AgentDelta) -> None:
        piece = (event.kind, event.tool or self._piece[1])
        if piece != self._piece:
            self._turn_to(_DOING.get(event.kind) or f"writing {make_visible(piece[1])}")
            self._piece = piece
        self._chars += len(event.content)
        if event.kind != "tool_call":  # half a JSON text says nothing to people, its length does
            self._tail = (self._tail + event.content)[-TAIL_CHARS:]

    def _turn_to(self, doing: str) -> None:
        self._doing = doing
        self._piece = ("", "")
        self._tail = ""
        self._chars = 0
        self._since = self._monotonic()


class Spinner(Writing):
    """Draws the moment as the last line of a terminal, below the blocks; nowhere else."""

    def __init__(self, out: Console) -> None:
        super().__init__()
        self._out = out
        self._live: Live | None = None

    def hear(self, event: Event) -> None:
        """See Writing; the line stands there from the first event on."""
        super().hear(event)
        if self._live is None and self._out.is_terminal and not self._out.is_dumb_terminal:
            self._live = Live(
                get_renderable=lambda: Text(self.line(self._out.width - 1), "dim", overflow="crop"),
                console=self._out,
                refresh_per_second=FRAMES_A_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def rest(self) -> None:
        """Take the line away."""
        super().rest()
        live, self._live = self._live, None
        if live:
            live.stop()
