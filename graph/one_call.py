"""One call of a step, from its verdict to its result: settled, refused, or run through the guard."""

import asyncio
from functools import partial
from typing import Final

from lockstitch.graph.audited import note_unrun
from lockstitch.graph.conversation import INTERRUPTED
from lockstitch.graph.judging import forbidden_now, is_stale
from lockstitch.graph.run import Run
from lockstitch.graph.step_place import StepPlace
from lockstitch.graph.stitch import finish_begun, tell_cut_off
from lockstitch.state.errors import RecoverableError
from lockstitch.state.events import AgentToolComplete, AgentToolError, AgentToolStart
from lockstitch.state.finished import finished
from lockstitch.state.run_state import PlannedCall
from lockstitch.tools.changes.held_changes import drop_held, keep_held
from lockstitch.tools.permission.judge import Ground
from lockstitch.tools.permission.policy import LAYERED
from lockstitch.tools.result import ToolResult

NEVER_TWICE: Final = frozenset(
    {"command", "network", "unknown"}
)  # effects that nobody can look up afterwards
STALE: Final = (
    "the files changed since the person was asked, so this call would change something else than they were "
    "shown: make it again."
)


async def make_call(call: PlannedCall, run: Run, place: StepPlace) -> ToolResult:
    """Make one call, unless it was made before or may not be; told as events.

    Raises:
        TerminalError: it ended the run.
    """
    if place.journal and (effects := place.begun.get(call["id"])):
        known = await finish_begun(effects, place.journal)
        _report(call, known, run)
        return known
    if "pending" in call:
        settled = await finished(lambda: _settle_held(call, run, place))
        _report(call, settled, run)
        return settled
    spoken = without_running(call)
    if spoken is None and (forbidden := await _forbidden(call, run, place.ground)):
        call = {**call, "verdict": "refuse", "note": forbidden}
        spoken = without_running(call)
    if spoken is None:
        run.emit(AgentToolStart(call_id=call["id"], tool=call["tool"], args=call["args"]))
        spoken = await _once(call, run, place)
    if spoken is None:
        spoken = await _run(call, run, place)
    else:
        note_unrun(call, place.trail)
    if spoken.pending is None:
        _report(call, spoken, run)
    return spoken


def without_running(call: PlannedCall) -> ToolResult | None:
    """The result of a call that policy or a person kept from running; None when it may run."""
    if call["verdict"] == "refuse":
        return ToolResult.failure(call["note"])
    if call["verdict"] != "ask":
        return None
    decision = call.get("decision")
    if decision is None:
        return ToolResult.failure("nobody approved this call")
    if decision["type"] == "reject":
        why = decision.get("message") or "no reason was given"
        return ToolResult.failure(f"the person said no to this call: {why}")
    if decision["type"] == "respond":
        return ToolResult(output=decision.get("message", ""), metadata={"time_ms": 0.0})
    return None


async def _run(call: PlannedCall, run: Run, place: StepPlace) -> ToolResult:
    context = place.context(call, run)
    if "shown" in call and await asyncio.to_thread(is_stale, call, run, context):
        place.trail.note(call["tool"], call["args"], call_id=call["id"], outcome="refused")
        return ToolResult.failure(STALE)
    return await run.parts.guard.run(call["tool"], call["args"], context)


def _settle_held(call: PlannedCall, run: Run, place: StepPlace) -> ToolResult:
    """Keep what the call changed, or throw it away, as a person said."""
    pending, decision = call["pending"], call["decision"]
    if decision["type"] == "approve":
        note = partial(place.trail.note, call["tool"], call["args"], call_id=call["id"])
        try:
            kept = keep_held(pending, call["shown"]["digest"], place.context(call, run))
        except RecoverableError as error:
            note(outcome="error")
            return ToolResult.failure(error.message)
        note(outcome="ok")
        return kept
    drop_held(pending, place.workspace.root)
    note_unrun(call, place.trail)
    why = decision.get("message") or "no reason was given"
    if decision["type"] == "respond":
        return ToolResult(output=why)
    return ToolResult.failure(f"the person said no to what this command changed: {why}\n{pending['told']}")


async def _forbidden(call: PlannedCall, run: Run, ground: Ground) -> str:
    """Why a call must not run after all; empty when it may, which is clear where nobody changed anything."""
    edited = call.get("decision", {}).get("type") == "edit"
    if not (edited or ground.rules.all or call["verdict"] == "try"):
        return ""
    tool = next((tool for tool in run.tools if tool.name == call["tool"]), None)
    if tool is None:
        return ""  # the guard will say so
    return await asyncio.to_thread(forbidden_now, call, tool, ground)


async def _once(call: PlannedCall, run: Run, place: StepPlace) -> ToolResult | None:
    """The word on a call that had begun before the run was cut off; None when it may run.

    File tools may run again: what they had changed the journal knows, and so nothing of it is made twice.
    """
    intents, once = run.parts.intents, run.parts.guard.registry.named(NEVER_TWICE)
    if call["tool"] in LAYERED and run.network == "off" and (place.layers or run.mode == "plan"):
        return None  # cut off before its commit nothing had happened, and in mode plan nothing ever does
    if intents is None or not run.stamp.thread_id or call["tool"] not in once:
        return None
    begin = partial(intents.begin, run.stamp.thread_id, checkpoint_id=run.checkpoint_id, call_id=call["id"])
    if await asyncio.to_thread(begin, now=run.parts.now()):
        return None
    if place.journal is None:
        return ToolResult(success=False, error=INTERRUPTED)
    told = await asyncio.to_thread(tell_cut_off, call, place.workspace, place.journal, run)
    return ToolResult(success=False, error=told)


def _report(call: PlannedCall, result: ToolResult, run: Run) -> None:
    place = {"call_id": call["id"], "tool": call["tool"], "time_ms": result.metadata.get("time_ms", 0.0)}
    if result.success:
        run.emit(AgentToolComplete(**place, result=result.output, data=result.data))
    else:
        run.emit(AgentToolError(**place, message=result.text))
