"""approve: asks a person about one call, or whether a run at a limit may go on, and keeps the answer.

A node of its own, since an interrupted node runs again from its top.
"""

import asyncio
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.types import interrupt

from lockstitch.graph.fork_files import (
    Parted,
    describe_parted,
    find_parted,
    keep,
    question_of,
    take_along,
)
from lockstitch.graph.limits import describe_pause, raised
from lockstitch.graph.routing import undecided
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import position
from lockstitch.state.events import AgentApprovalRequest, AgentCompletion, AgentRequestInput
from lockstitch.state.file_summary import FileSummary
from lockstitch.state.interrupts import (
    APPROVAL_DECISIONS,
    GO_ON,
    RESTORE,
    RESTORE_DECISIONS,
    UNREADABLE,
    GoOn,
    allowed_for,
    approval_request,
    digest_of,
    limit_request,
    question_request,
    read_answer,
    read_approval,
    read_go_on,
    restore_request,
)
from lockstitch.state.run_state import Pause, PlannedCall, RunState
from lockstitch.tools.changes.call_journal import letter_of
from lockstitch.tools.paths import shown


async def approve(state: RunState, run: Run) -> RunState:
    """Wait for the word on the first call that needs one, then ask the next question or go on."""
    pause = state.get("pause")
    if pause is not None and pause["limit"] == RESTORE:
        return await _after_fork(state, run)
    if pause is not None:
        request = limit_request(pause, action_id=pause_id(pause, run), description=describe_pause(pause))
        return after_pause(state, pause, read_go_on(interrupt(request)))
    calls = state["calls"]
    call = undecided(calls)
    assert call is not None
    asks = call["verdict"] == "question"
    reply: Any = interrupt(question_request(call) if asks else approval_request(call))
    decision = read_answer(reply) if asks else read_approval(reply, digest=digest_of(call))
    if decision.get("always") and (rule := call.get("rule")):
        await asyncio.to_thread(run.parts.rules.allow, rule)
    if decision["type"] == "edit" and "pending" in call:
        decision = UNREADABLE
    decided: PlannedCall = {**call, "decision": decision}
    if decision["type"] == "edit":
        decided["args"] = decision.get("args", {})
    rest = [decided if c["id"] == call["id"] else c for c in calls]
    return RunState(calls=rest, phase="waiting" if ask_next(rest, run) else "executing")


async def _after_fork(state: RunState, run: Run) -> RunState:
    """Take the files to the step that the run goes on from, or leave them, as a person says."""
    parted = await asyncio.to_thread(find_parted, state, run)
    if parted is None:  # answered, made, and cut off before that was stored
        return RunState(pause=None, phase="planning", **await run.parts.quickly(position, run))
    decision = read_approval(interrupt(restore_request(_restore_id(run), describe_parted(parted))))
    if decision["type"] == "approve":
        update = await asyncio.to_thread(take_along, parted, state, run)
    else:
        update = keep(parted, run)
    return RunState(**update, pause=None, phase="planning")


def ask_to_restore(parted: Parted, run: Run) -> RunState:
    """Have a person asked whether the files come along; by the node before the one that waits."""
    run.enter("waiting")
    run.emit(
        AgentApprovalRequest(
            action_id=_restore_id(run),
            tool=RESTORE,
            args={},
            reason=describe_parted(parted),
            allowed_decisions=list(RESTORE_DECISIONS),
            changes=[FileSummary(path=shown(c.path), change=letter_of(c)) for c in parted.changes],
            total=len(parted.changes),
        )
    )
    run.emit(AgentCompletion(steps=run.step, reason="waiting"))
    return RunState(pause=question_of(parted), phase="waiting")


def _restore_id(run: Run) -> str:
    return f"{RESTORE}-{run.stamp.run_id[:8]}"


def after_pause(state: RunState, pause: Pause, word: GoOn) -> RunState:
    """Go on under the raised limit, replaying nothing; or end with a summary."""
    if not word.go_on:
        return RunState(pause=None, reason=pause["reason"], sum_up=True, phase="planning")
    said: list[AnyMessage] = [HumanMessage(word.message)] if word.message else []
    return RunState(
        **raised(state, pause, word.more),
        messages=said,
        pause=None,
        compact_asked=word.compact,
        phase="planning",
    )


def announce_pause(pause: Pause, run: Run) -> None:
    """Say that the run waits for a word on its limit; by the node before the one that waits."""
    run.enter("waiting")
    run.emit(
        AgentApprovalRequest(
            action_id=pause_id(pause, run),
            tool=GO_ON,
            args={"limit": pause["limit"], "at": pause["at"], "more": pause["more"], "compact": False},
            reason=describe_pause(pause),
            allowed_decisions=list(APPROVAL_DECISIONS),
        )
    )
    run.emit(AgentCompletion(steps=run.step, reason="waiting"))


def pause_id(pause: Pause, run: Run) -> str:
    """The id of a pause's question: one a run, limit and step."""
    return f"{pause['limit']}-{run.stamp.run_id[:8]}-{run.step}"


def ask_next(calls: list[PlannedCall], run: Run) -> bool:
    """Announce the next call that waits for a person; False when none does.

    Called by the node *before* the one that waits: events of an interrupted node would be sent twice.
    """
    call = undecided(calls)
    if call is None:
        return False
    run.enter("waiting")
    seen = call.get("shown")
    if call["verdict"] == "question":
        run.emit(AgentRequestInput(action_id=call["id"], question=str(call["args"].get("question", ""))))
    else:
        run.emit(
            AgentApprovalRequest(
                action_id=call["id"],
                tool=call["tool"],
                args=call["args"],
                reason=call["note"],
                allowed_decisions=list(allowed_for(call)),
                digest=digest_of(call),
                rule=call.get("rule"),
                changes=[FileSummary(**change) for change in seen["changes"]] if seen else [],
                total=seen["total"] if seen else 0,
                diff=seen["diff"] if seen else "",
            )
        )
    run.emit(AgentCompletion(steps=run.step, reason="waiting"))
    return True
