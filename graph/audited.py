"""What a run leaves in the audit beside the calls its guard makes: questions, and calls that never ran."""

from lockstitch.graph.routing import undecided
from lockstitch.graph.run import Run
from lockstitch.state.audit import Outcome
from lockstitch.state.run_state import PlannedCall, RunState
from lockstitch.tools.trail import Trail


def open_trail(state: RunState, run: Run) -> Trail:
    """The trail of the step under way."""
    return Trail(
        audit=run.parts.audit,
        now=run.parts.now,
        door=run.context.door,
        workspace=state.get("workspace", ""),
        thread_id=run.stamp.thread_id,
        run_id=run.stamp.run_id,
        step=run.step,
    )


async def note_question(state: RunState, update: RunState, run: Run) -> None:
    """Note the call that a person is asked about from here on, if there is one.

    Raises as `Trail` does.
    """
    call = undecided(update.get("calls", [])) if update.get("phase") == "waiting" else None
    if call is not None:
        async with open_trail(state, run) as trail:
            trail.note(call["tool"], call["args"], call_id=call["id"], outcome="asked")


def note_unrun(call: PlannedCall, trail: Trail) -> None:
    """Note a call that policy, a person, or the end of an earlier process kept from running."""
    trail.note(call["tool"], call["args"], call_id=call["id"], outcome=outcome_unrun(call))


def outcome_unrun(call: PlannedCall) -> Outcome:
    """How such a call ended."""
    decision = call.get("decision")
    if call["verdict"] == "refuse" or (call["verdict"] == "ask" and decision is None):
        return "refused"
    if decision and decision["type"] == "reject":
        return "rejected"
    return "answered" if decision and decision["type"] == "respond" else "interrupted"
