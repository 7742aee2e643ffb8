"""observe: folds results into the conversation, leaves the step's record, and decides whether to go on."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from lockstitch.graph.conversation import answer_of
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.run import Run
from lockstitch.state.errors import ModelError, SecurityViolationError
from lockstitch.state.events import AgentObserve
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import CallOutcome, PlannedCall, RunState, StepRecord
from lockstitch.state.todos import Todo, TodoList

ESCAPES_ALLOWED = 2  # the third path out of the workspace ends the run
EMPTY_REPLIES_ALLOWED = 2  # in a row; a third has no reason to be better
RECORD_CHARS = 1_000  # of one tool output in a step record; the message holds it all


async def observe(state: RunState, run: Run) -> RunState:
    """The end of a step.

    Raises:
        SecurityViolationError: the thread tried too many paths out of its workspace.
        ModelError: the model keeps answering nothing.
    """
    run.enter("observing")
    calls, outcomes = state.get("calls", []), state.get("outcomes", [])
    reply = state["messages"][-1]
    reason = decide_reason(reply, calls, state.get("todos", []))
    empty = 0 if calls or reason else state.get("empty_replies", 0) + 1
    _check(escapes=state.get("escapes", 0), empty=empty)
    summary = summarize(outcomes, empty=bool(empty))
    if summary:
        run.emit(AgentObserve(content=summary))
    messages: list[AnyMessage] = [answer_of(outcome) for outcome in outcomes]
    if empty:
        messages.append(HumanMessage(load_prompt("empty_reply")))
    return RunState(
        messages=messages,
        steps=[_record(state, summary)],
        calls=[],
        outcomes=[],
        draft=None,
        empty_replies=empty,
        reason=reason,
        phase="observing",
    )


def decide_reason(reply: AnyMessage, calls: list[PlannedCall], todos: list[Todo]) -> TerminationReason | None:
    """Why the run ends after this step; None to go on. Text without a call is the answer."""
    if calls or not isinstance(reply, AIMessage) or not reply.text.strip():
        return None
    return "todos_completed" if TodoList(todos).all_completed else "answered"


def summarize(outcomes: list[CallOutcome], *, empty: bool) -> str:
    """One line a step: which calls went well and which did not."""
    if empty:
        return "the reply was empty; asked again"
    parts = [f"{o['tool']} {'ok' if o['success'] else 'failed'}" for o in outcomes]
    return ", ".join(parts)


def _check(*, escapes: int, empty: int) -> None:
    if escapes > ESCAPES_ALLOWED:
        raise SecurityViolationError(
            f"the run was ended: {escapes} paths out of the workspace were tried. Look at it first."
        )
    if empty > EMPTY_REPLIES_ALLOWED:
        raise ModelError(f"the model answered nothing {empty} times in a row. Try another with --model.")


def _record(state: RunState, summary: str) -> StepRecord:
    draft = state["draft"]
    assert draft is not None
    args = {call["id"]: call["args"] for call in state.get("calls", [])}
    made = [
        {
            "tool": o["tool"],
            "args": args.get(o["id"], {}),
            "success": o["success"],
            "time_ms": o["time_ms"],
            "output": o["output"][:RECORD_CHARS],
        }
        for o in state.get("outcomes", [])
    ]
    return {
        **draft,
        "calls": made,
        "observation": summary,
        "todos": state.get("todos", []),
        "state": "observing",
        "execute_ms": round(sum(o["time_ms"] for o in state.get("outcomes", [])), 3),
    }
