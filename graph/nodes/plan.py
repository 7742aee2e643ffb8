"""plan: the model thinks, and picks tools or answers. Checks the step limit first; runs no tool."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from lockstitch.graph.conversation import new_part, prompt_for
from lockstitch.graph.nodes.approve import ask_next
from lockstitch.graph.run import Run
from lockstitch.graph.strategies.registry import choose_strategy
from lockstitch.graph.tool_calls import ReadCall, read_reply
from lockstitch.state.errors import ToolValidationError
from lockstitch.state.events import AgentReason, AgentTurnStart, AgentUsage
from lockstitch.state.run_state import PlannedCall, RunState, StepRecord
from lockstitch.tools.policy import judge
from lockstitch.tools.registry import RegisteredTool

RECORD_CHARS = 2_000  # of prompt and thought in a step record; the whole text is in the messages
CALLS_A_STEP = 64  # more calls in one reply than this are refused


async def plan(state: RunState, run: Run) -> RunState:
    """One turn of the model, or the end of the steps.

    Raises:
        ModelError: the model cannot be reached or refused.
    """
    if state["step"] >= state["max_steps"]:
        return RunState(reason="step_limit")
    run.step = state["step"] + 1
    run.emit(AgentTurnStart())
    run.enter("planning")
    draft = _open_record(state, run)
    began = run.parts.monotonic()
    tools = run.parts.guard.registry.select(run.context.tools)
    reply, read = read_reply(await _think(state, run, tools))
    draft["plan_ms"] = round((run.parts.monotonic() - began) * 1000, 3)
    _note_reply(reply, draft, state, run)
    calls = [_judged(call, tools, run, place=n) for n, call in enumerate(read)]
    return RunState(
        messages=[reply],
        step=run.step,
        calls=calls,
        outcomes=[],
        draft=draft,
        input_tokens=state["input_tokens"] + draft["input_tokens"],
        output_tokens=state["output_tokens"] + draft["output_tokens"],
        phase="waiting" if ask_next(calls, run) else "executing",
    )


async def _think(state: RunState, run: Run, tools: Sequence[RegisteredTool]) -> AIMessage:
    model = run.parts.models.open(run.context.model, temperature=run.context.temperature)
    prompt = prompt_for(state["messages"], workspace=state["workspace"])
    return await choose_strategy(run.strategy).think(prompt, model, tools=[t.schema for t in tools])


def _open_record(state: RunState, run: Run) -> StepRecord:
    """The record of a step that begins; `observe` closes it."""
    model = run.parts.models.open(run.context.model, temperature=run.context.temperature)
    return StepRecord(
        number=run.step,
        prompt="\n".join(message.text for message in new_part(state["messages"]))[:RECORD_CHARS],
        thought="",
        calls=[],
        observation="",
        todos=[],
        state="planning",
        model=model.name,
        tier="balanced",
        started_at=run.parts.now(),
        plan_ms=0.0,
        execute_ms=0.0,
        input_tokens=0,
        output_tokens=0,
    )


def _note_reply(reply: AIMessage, draft: StepRecord, state: RunState, run: Run) -> None:
    """Put thought and tokens into the record, and report both."""
    draft["thought"] = reply.text[:RECORD_CHARS]
    if reply.text:
        run.emit(AgentReason(content=reply.text))
    if usage := reply.usage_metadata:
        draft["input_tokens"], draft["output_tokens"] = usage["input_tokens"], usage["output_tokens"]
    run.emit(
        AgentUsage(
            model=draft["model"],
            input_tokens=draft["input_tokens"],
            output_tokens=draft["output_tokens"],
            run_input_tokens=state["input_tokens"] + draft["input_tokens"],
            run_output_tokens=state["output_tokens"] + draft["output_tokens"],
        )
    )


def _judged(call: ReadCall, tools: Sequence[RegisteredTool], run: Run, *, place: int) -> PlannedCall:
    """The call with policy's verdict; what cannot be made at all is refused with the reason."""
    planned = PlannedCall(id=call.id, tool=call.tool, args=call.args, verdict="refuse", note=call.fault)
    if call.fault:
        return planned
    if place >= CALLS_A_STEP:
        return {**planned, "note": f"a reply may hold {CALLS_A_STEP} calls; make the rest in the next one"}
    found = next((tool for tool in tools if tool.name == call.tool), None)
    if found is None:
        return {**planned, "note": _unknown(call.tool, run)}
    verdict, note = judge(
        found.effect, mode=run.mode, unsandboxed_commands=run.parts.settings.unsandboxed_commands
    )
    return {**planned, "verdict": verdict, "note": note}


def _unknown(name: str, run: Run) -> str:
    try:
        run.parts.guard.registry.get(name)
    except ToolValidationError as error:
        return error.message
    return f"the tool {name!r} is switched off for this run"
