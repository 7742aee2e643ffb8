"""finish: the run's last words and its end. After a step limit the model sums up once, without tools."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from lockstitch.graph.conversation import answers_at_hand, prompt_for, repair_unanswered
from lockstitch.graph.note import notice
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.run import Run
from lockstitch.state.errors import TerminalError
from lockstitch.state.events import AgentAnswer, AgentCompletion, AgentPhase
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import RunState

WELL_ENDED: frozenset[TerminationReason] = frozenset(
    {"answered", "todos_completed", "finished", "step_limit"}
)


async def finish(state: RunState, run: Run) -> RunState:
    """Leave a usable final message, whatever the reason."""
    reason = state.get("reason") or "finished"
    final = await _final_words(state, run, reason)
    phase: AgentPhase = "completed" if reason in WELL_ENDED else "error"
    run.emit(AgentAnswer(content=final))
    run.enter(phase)
    run.emit(AgentCompletion(steps=state.get("step", 0), reason=reason))
    return RunState(
        messages=_messages(state, reason, final),
        final_answer=final,
        reason=reason,
        phase=phase,
        calls=[],
        outcomes=[],
        draft=None,
    )


def _messages(state: RunState, reason: TerminationReason, final: str) -> list[AnyMessage]:
    """What the end adds: answers to calls that an error left open, and last words that no model has said."""
    messages = state.get("messages", [])
    open_calls = repair_unanswered(messages, answers_at_hand(state))
    if reason == "step_limit":
        return [*open_calls, AIMessage(final)]  # type: ignore[list-item]
    said = bool(messages) and final in messages[-1].text  # llm-only stores `Answer: ...`
    return [*open_calls, *([] if said else [notice(final)])]  # type: ignore[list-item]


async def _final_words(state: RunState, run: Run, reason: TerminationReason) -> str:
    if reason == "step_limit":
        return await _sum_up(state, run)
    if state.get("error"):
        return f"The run ended: {state['error']}"
    end = state.get("ending")
    return end["answer"] if end else "The run ended without an answer."


async def _sum_up(state: RunState, run: Run) -> str:
    """One more call of the model without tools; its failure must not hide that the limit was met."""
    limit = state["max_steps"]
    request = HumanMessage(load_prompt("sum_up").format(max_steps=limit))
    prompt = [*prompt_for(state["messages"], workspace=state["workspace"]), request]
    try:
        summary = (await run.model.ask(prompt)).text.strip()
    except TerminalError as error:
        summary = f"(No summary: {error.message})"
    return f"Reached maximum iterations ({limit}).\n\n{summary}"
