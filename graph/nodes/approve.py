"""approve: asks a person about one call and keeps the answer.

A node of its own, since an interrupted node runs again from its top.
"""

from typing import Any

from langgraph.types import interrupt

from lockstitch.graph.routing import undecided
from lockstitch.graph.run import Run
from lockstitch.state.events import AgentApprovalRequest, AgentCompletion, AgentRequestInput
from lockstitch.state.interrupts import (
    APPROVAL_DECISIONS,
    approval_request,
    question_request,
    read_answer,
    read_approval,
)
from lockstitch.state.run_state import PlannedCall, RunState


async def approve(state: RunState, run: Run) -> RunState:
    """Wait for the word on the first call that needs one, then ask the next question or go on."""
    calls = state["calls"]
    call = undecided(calls)
    assert call is not None
    asks = call["verdict"] == "question"
    reply: Any = interrupt(question_request(call) if asks else approval_request(call))
    decision = read_answer(reply) if asks else read_approval(reply)
    decided: PlannedCall = {**call, "decision": decision}
    if decision["type"] == "edit":
        decided["args"] = decision.get("args", {})
    rest = [decided if c["id"] == call["id"] else c for c in calls]
    return RunState(calls=rest, phase="waiting" if ask_next(rest, run) else "executing")


def ask_next(calls: list[PlannedCall], run: Run) -> bool:
    """Announce the next call that waits for a person; False when none does.

    Called by the node *before* the one that waits: events of an interrupted node would be sent twice.
    """
    call = undecided(calls)
    if call is None:
        return False
    run.enter("waiting")
    if call["verdict"] == "question":
        run.emit(AgentRequestInput(action_id=call["id"], question=str(call["args"].get("question", ""))))
    else:
        run.emit(
            AgentApprovalRequest(
                action_id=call["id"],
                tool=call["tool"],
                args=call["args"],
                reason=call["note"],
                allowed_decisions=list(APPROVAL_DECISIONS),
            )
        )
    run.emit(AgentCompletion(steps=run.step, reason="waiting"))
    return True
