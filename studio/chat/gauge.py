"""What the toolbar shows: model, strategy, mode, how full the context is, what the thread has cost."""

from typing import Final

from lockstitch.graph.models.spent import add_costs
from lockstitch.graph.turn import thread_totals
from lockstitch.state.events import AgentStart, AgentUsage, Event
from lockstitch.state.run_state import RunState
from lockstitch.studio.blocks import cost_words, is_free
from lockstitch.studio.visible import make_visible

ID_CHARS: Final = 8  # of a thread's id: enough to tell one's own threads apart
KILO: Final = 1000  # tokens: windows are told as 128k


class Gauge:
    """Figures of one thread: those of its steps so far, then those of the events that follow."""

    def __init__(self, *, model: str, strategy: str, mode: str, window: int) -> None:
        self.model = model
        self.strategy = strategy
        self.mode = mode
        self.window = window
        self.turn_to(RunState())

    def turn_to(self, state: RunState) -> None:
        """Take the figures from a thread as it stands."""
        self.context_tokens = state.get("context_tokens", 0)
        self.tokens, self.cost_usd = thread_totals(state)
        paid = any(not is_free(step["model"]) for step in state.get("steps", []))
        self.paid = paid or self.cost_usd != 0

    def hear(self, event: Event) -> None:
        """Follow a run of the thread."""
        match event:
            case AgentStart():
                self.model, self.strategy, self.mode = event.model, event.strategy, event.mode
            case AgentUsage():
                self.tokens += event.input_tokens + event.output_tokens
                self.context_tokens = event.context_tokens
                self.window = event.context_window or self.window
                if not is_free(event.model):
                    self.cost_usd, self.paid = add_costs(self.cost_usd, event.cost_usd), True
            case _:
                pass

    @property
    def context(self) -> str:
        """How full the context is: `ctx 38 % of 128k`; without a known window its tokens alone."""
        if not self.window:
            return f"ctx {self.context_tokens:,} tokens"
        window = f"{self.window / KILO:.0f}k" if self.window >= KILO else f"{self.window}"
        return f"ctx {self.context_tokens / self.window:.0%} of {window}".replace("%", " %")

    @property
    def cost(self) -> str:
        """What the thread has cost; nothing as long as only scripted models answered."""
        return cost_words(self.cost_usd) if self.paid else ""

    def line(self, thread_id: str) -> str:
        """All of it, safe to print."""
        model = self.model.rpartition("/")[2] if is_free(self.model) else self.model  # a file needs no folder
        # the most wanted first: a narrow terminal shows the beginning alone
        figures = (model, self.mode, self.context, self.cost, self.strategy, thread_id[:ID_CHARS])
        return " · ".join(make_visible(figure).replace("\n", " ") for figure in figures if figure)
