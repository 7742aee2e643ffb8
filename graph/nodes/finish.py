"""finish: the run's last words and its end. At a limit the model sums up once, without tools."""

from langchain_core.messages import AIMessage, AnyMessage

from lockstitch.graph.conversation import answers_at_hand, repair_unanswered
from lockstitch.graph.limits import describe_end, met_limit
from lockstitch.graph.note import note, notice
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import position
from lockstitch.graph.turn import report_spent, shown_prompt
from lockstitch.state.errors import TerminalError
from lockstitch.state.events import AgentAnswer, AgentCompletion, AgentPhase
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import RunState

WELL_ENDED: frozenset[TerminationReason] = frozenset(
    {"answered", "todos_completed", "finished", "step_limit"}
)
LIMITS: frozenset[TerminationReason] = frozenset({"step_limit", "cost_limit", "time_limit"})
LAST_STEPS = 10  # told at an end where no model sums up: ten lines


async def finish(state: RunState, run: Run) -> RunState:
    """Leave a usable final message, whatever the reason."""
    reason = state.get("reason") or "finished"
    summary = await _sum_up(state, run) if _is_summed_up(state, reason) else None
    final = _final_words(state, reason, summary)
    phase: AgentPhase = "completed" if reason in WELL_ENDED else "error"
    totals = report_spent([summary], state, run, phase="sum_up") if summary else RunState()
    await run.parts.processes.end_run(run.process_owner)
    run.emit(AgentAnswer(content=final))
    run.enter(phase)
    run.emit(AgentCompletion(steps=state.get("step", 0), reason=reason))
    return RunState(
        **totals,
        **await run.parts.quickly(position, run),
        messages=_messages(state, final, summary),
        final_answer=final,
        reason=reason,
        phase=phase,
        calls=[],
        outcomes=[],
        draft=None,
        pause=None,
        sum_up=False,
    )


def _is_summed_up(state: RunState, reason: TerminationReason) -> bool:
    """At the step limit, and where a person asked for it; at other limits the model would go past them."""
    return reason == "step_limit" or bool(state.get("sum_up"))


def _messages(state: RunState, final: str, summary: AIMessage | None) -> list[AnyMessage]:
    """What the end adds: answers to calls that an error left open, and last words that no model has said."""
    messages = state.get("messages", [])
    open_calls = repair_unanswered(messages, answers_at_hand(state))
    if summary is not None and summary.text:
        return [*open_calls, AIMessage(final)]  # type: ignore[list-item]
    said = bool(messages) and final in messages[-1].text  # llm-only stores `Answer: ...`
    return [*open_calls, *([] if said else [notice(final)])]  # type: ignore[list-item]


def _final_words(state: RunState, reason: TerminationReason, summary: AIMessage | None) -> str:
    if reason in LIMITS or summary is not None:
        words = summary.text.strip() if summary else last_steps(state)
        pause = met_limit(state)
        head = describe_end(pause) if pause else "The run was stopped."
        return f"{head}\n\n{words}".strip()
    if state.get("error"):
        return f"The run ended: {state['error']}"
    end = state.get("ending")
    return end["answer"] if end else "The run ended without an answer."


def last_steps(state: RunState) -> str:
    """The run's last steps, a line each, for an end at which no model is asked to sum up."""
    records = state.get("steps", [])[-min(state.get("step", 0), LAST_STEPS) :] if state.get("step") else []
    lines = [f"{record['number']}. {record['observation']}" for record in records if record["observation"]]
    return "\n".join(["Its last steps:", *lines]) if lines else ""


async def _sum_up(state: RunState, run: Run) -> AIMessage:
    """One more call of the model without tools; its failure must not hide that the limit was met."""
    request = note(load_prompt("sum_up").format(steps=state.get("step", 0)))
    prompt = shown_prompt(state, run)
    try:
        return await run.model("sum_up").ask([*prompt, request])
    except TerminalError as error:
        return AIMessage(f"(No summary: {error.message})\n{last_steps(state)}".strip())
