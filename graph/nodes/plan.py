"""plan: the model thinks, and picks tools or answers. Checks the run's limits first; runs no tool."""

import asyncio
from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from lockstitch.graph.budget import check_price
from lockstitch.graph.conversation import new_part
from lockstitch.graph.judging import judge_call, open_ground, show_asked
from lockstitch.graph.limits import met_limit
from lockstitch.graph.nodes.approve import announce_pause, ask_next
from lockstitch.graph.room import make_room
from lockstitch.graph.run import Run
from lockstitch.graph.tool_calls import ReadCall
from lockstitch.graph.turn import StepTurn, count_spent, tools_before
from lockstitch.state.errors import ContextOverflowError, ToolValidationError
from lockstitch.state.events import AgentReason, AgentTurnStart
from lockstitch.state.run_state import Pause, PlannedCall, RunEnd, RunState, StepRecord
from lockstitch.tools.changes.rehearsal import REHEARSED
from lockstitch.tools.permission.judge import Ground
from lockstitch.tools.registry import RegisteredTool

RECORD_CHARS = 2_000  # of prompt and thought in a step record; the whole text is in the messages
CALLS_A_STEP = 64  # more calls in one reply than this are refused


async def plan(state: RunState, run: Run) -> RunState:
    """One turn of the model, or a limit that is met.

    Raises:
        ModelError: the model cannot be reached or refused.
    """
    pause = met_limit(state)
    if pause is not None:
        return rest_at(pause, run)
    run.step = state["step"] + 1
    run.emit(AgentTurnStart())
    run.enter("planning")
    typed = run.typed_since(state)
    shown = RunState({**state, "messages": [*state["messages"], *typed]})
    room = await make_room(shown, run)
    try:
        return await _turn(RunState({**shown, **room}), run, typed, room)
    except ContextOverflowError:
        more = await make_room(RunState({**shown, **room}), run, burst=True)
        if not more.get("compaction"):
            raise
        return await _turn(RunState({**shown, **room, **more}), run, typed, RunState({**room, **more}))


def rest_at(pause: Pause, run: Run) -> RunState:
    """Ask whether to go on where somebody can be asked; a clean end where not."""
    if not (run.client and run.client.answers):
        return RunState(reason=pause["reason"])
    announce_pause(pause, run)
    return RunState(pause=pause, phase="waiting")


async def _turn(state: RunState, run: Run, typed: Sequence[AnyMessage], room: RunState) -> RunState:
    """The model's turn on a conversation that ends with what a person typed meanwhile.

    Raises:
        ContextOverflowError: the conversation is longer than the model can read.
    """
    if state.get("cost_limit_usd"):  # another model may be asked now than when the run began
        check_price(run.model("plan", after=tools_before(state)))
    draft = _open_record(state, run)
    began = run.parts.monotonic()
    thought = await run.thinking.think(StepTurn(state, run))
    draft["plan_ms"] = round((run.parts.monotonic() - began) * 1000, 3)
    draft["thought"] = thought.reply.text[:RECORD_CHARS]
    if thought.reply.text:
        run.emit(AgentReason(content=thought.reply.text))
    spent = count_spent(thought.replies or [thought.reply], draft, state, run)
    calls = await _judge_all(thought.calls, state, run) if thought.calls else []
    update = RunState(
        messages=[*typed, *thought.before, thought.reply],
        step=run.step,
        calls=calls,
        outcomes=[],
        draft=draft,
        ending=None if thought.answer is None else RunEnd(answer=thought.answer, reason=thought.reason),
        phase="waiting" if ask_next(calls, run) else "executing",
    )
    return RunState({**room, **spent, **update})


def _open_record(state: RunState, run: Run) -> StepRecord:
    """The record of a step that begins; `observe` closes it."""
    return StepRecord(
        number=run.step,
        prompt="\n".join(message.text for message in new_part(state["messages"]))[:RECORD_CHARS],
        thought="",
        calls=[],
        observation="",
        todos=[],
        state="planning",
        model="",
        tier="",
        started_at=run.parts.now(),
        plan_ms=0.0,
        execute_ms=0.0,
        input_tokens=0,
        output_tokens=0,
        cost_usd=0.0,
    )


async def _judge_all(calls: Sequence[ReadCall], state: RunState, run: Run) -> list[PlannedCall]:
    """The calls with their verdicts. A command may be long to read, and the first one looks for a sandbox."""
    tools = {tool.name: tool for tool in run.tools}
    commands = any(call.tool in tools and tools[call.tool].effect == "command" for call in calls)

    def work() -> list[PlannedCall]:
        ground = open_ground(run, state["workspace"], commands=commands)
        return [_judged(call, tools.get(call.tool), run, ground, place=n) for n, call in enumerate(calls)]

    judged = await (asyncio.to_thread(work) if commands else run.parts.quickly(work))
    asked = (tools[call["tool"]].effect for call in judged if call["verdict"] == "ask")
    if not REHEARSED.isdisjoint(asked):
        return await asyncio.to_thread(show_asked, judged, run, state["workspace"])
    return judged


def _judged(
    call: ReadCall, tool: RegisteredTool | None, run: Run, ground: Ground, *, place: int
) -> PlannedCall:
    """The call with policy's verdict; what cannot be made at all is refused with the reason."""
    planned = PlannedCall(id=call.id, tool=call.tool, args=call.args, verdict="refuse", note=call.fault)
    if call.fault:
        return planned
    if place >= CALLS_A_STEP:
        return {**planned, "note": f"a reply may hold {CALLS_A_STEP} calls; make the rest in the next one"}
    if tool is None:
        return {**planned, "note": _unknown(call.tool, run)}
    return judge_call(planned, tool, ground)


def _unknown(name: str, run: Run) -> str:
    try:
        run.parts.guard.registry.get(name)
    except ToolValidationError as error:
        return error.message
    return f"the tool {name!r} is switched off for this run"
