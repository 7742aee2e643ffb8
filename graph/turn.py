"""What a strategy is given in a step, and the count of what its model calls cost."""

from collections.abc import Sequence
from functools import cached_property

from langchain_core.messages import AIMessage, BaseMessage

from lockstitch.graph.conversation import prompt_for
from lockstitch.graph.models.port import ModelPort, ToolSchemas
from lockstitch.graph.models.spent import add_costs, answered_by, spent_of
from lockstitch.graph.models.wish import Phase
from lockstitch.graph.note import since_question
from lockstitch.graph.run import Run
from lockstitch.state.events import AgentUsage
from lockstitch.state.run_state import RunState, StepRecord

RECENT_STEPS = 50  # looked through for the files at hand: as far back as anybody remembers
TURNS: frozenset[Phase] = frozenset({"plan", "observe"})  # calls over the conversation as it stands
FILES_AT_HAND = 20  # a screen of names


class StepTurn:
    """The turn of the step under way, as a strategy looks at it; one that does not look costs nothing."""

    def __init__(self, state: RunState, run: Run, *, phase: Phase = "plan") -> None:
        self._state = state
        self._run = run
        self._phase = phase
        self.todos = state.get("todos", [])
        self.step = run.step
        self.max_steps = state["max_steps"]
        self.one_call = run.parts.settings.one_call
        self.load_prompt = run.load_prompt

    @cached_property
    def prompt(self) -> Sequence[BaseMessage]:
        """See Turn."""
        return shown_prompt(self._state, self._run)

    @cached_property
    def model(self) -> ModelPort:
        """See Turn."""
        return self._run.model(self._phase, after=tools_before(self._state))

    @cached_property
    def tools(self) -> ToolSchemas:
        """See Turn."""
        return [tool.schema for tool in self._run.tools]

    @cached_property
    def question(self) -> str:
        """See Turn."""
        asked = since_question(self._state["messages"])
        return asked[0].text if asked else ""

    @cached_property
    def files(self) -> Sequence[str]:
        """See Turn."""
        return files_at_hand(self._state)


def shown_prompt(state: RunState, run: Run) -> list[BaseMessage]:
    """System prompt and history as the run's model is shown them."""
    return prompt_for(
        state["messages"],
        workspace=state["workspace"],
        extra=run.system_prompt,
        compaction=state.get("compaction"),
    )


def tools_before(state: RunState) -> list[str]:
    """The tools whose results the next call reads: of this step, or of the run's step before it."""
    if state.get("outcomes"):
        return [outcome["tool"] for outcome in state["outcomes"]]
    last = state.get("steps", [])[-1:] if state.get("step") else []
    return [call["tool"] for record in last for call in record["calls"]]


def count_spent(
    replies: Sequence[AIMessage], draft: StepRecord, state: RunState, run: Run, *, phase: Phase = "plan"
) -> RunState:
    """Add what the replies cost to the step's record, and report it; the update of the run's totals."""
    spent = spent_of(replies)
    model = run.model(phase, after=tools_before(state))
    draft["input_tokens"] += spent.input_tokens
    draft["output_tokens"] += spent.output_tokens
    draft["cost_usd"] = add_costs(draft.get("cost_usd"), spent.cost_usd)
    draft["model"] = draft["model"] or answered_by(replies[-1]) or model.name
    draft["tier"] = draft["tier"] or model.tier
    return report_spent(replies, state, run, phase=phase)


def report_spent(replies: Sequence[AIMessage], state: RunState, run: Run, *, phase: Phase) -> RunState:
    """Tell what the replies cost; the update of the run's totals."""
    model = run.model(phase, after=tools_before(state))
    spent, (tokens, cost_usd) = spent_of(replies), thread_totals(state)
    total = RunState(
        input_tokens=state.get("input_tokens", 0) + spent.input_tokens,
        output_tokens=state.get("output_tokens", 0) + spent.output_tokens,
        cost_usd=add_costs(state.get("cost_usd", 0.0), spent.cost_usd),
        thread_tokens=tokens + spent.input_tokens + spent.output_tokens,
        thread_cost_usd=add_costs(cost_usd, spent.cost_usd),
    )
    if phase in TURNS:
        total["context_tokens"] = _context_tokens(replies) or state.get("context_tokens", 0)
    run.emit(
        AgentUsage(
            model=answered_by(replies[-1]) or model.name,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cached_tokens=spent.cached_tokens,
            cost_usd=spent.cost_usd,
            run_input_tokens=total["input_tokens"],
            run_output_tokens=total["output_tokens"],
            run_cost_usd=total["cost_usd"],
            context_tokens=total.get("context_tokens", state.get("context_tokens", 0)),
            context_window=model.window,
            tier=model.tier,
        )
    )
    return total


def thread_totals(state: RunState) -> tuple[int, float | None]:
    """Tokens and cost of a thread: of its steps, its summaries and its last words alike.

    Of a thread that was never counted as a whole, those of its steps.
    """
    steps = state.get("steps", [])
    if "thread_tokens" in state:
        return state["thread_tokens"], state.get("thread_cost_usd")
    cost: float | None = 0.0
    for step in steps:
        cost = add_costs(cost, step.get("cost_usd"))
    return sum(step["input_tokens"] + step["output_tokens"] for step in steps), cost


def _context_tokens(replies: Sequence[AIMessage]) -> int:
    """How long the conversation is, as the last reply's provider counted it; 0 where it did not."""
    usage = replies[-1].usage_metadata
    return usage["input_tokens"] + usage["output_tokens"] if usage else 0


def files_at_hand(state: RunState) -> list[str]:
    """Paths that this thread's last calls named, the latest first, each once."""
    paths = (
        call["args"].get("path")
        for record in reversed(state.get("steps", [])[-RECENT_STEPS:])
        for call in record["calls"]
    )
    return list(dict.fromkeys(path for path in paths if isinstance(path, str)))[:FILES_AT_HAND]
