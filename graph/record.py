"""The row of a run in the index of threads."""

from langchain_core.messages import HumanMessage

from lockstitch.graph.run import Run
from lockstitch.state.events import AgentPhase
from lockstitch.state.run_state import RunState
from lockstitch.state.threads import ThreadRow

# A run begins with `planning`; the others are those in which nothing moves until somebody acts.
RECORDED_PHASES: frozenset[AgentPhase] = frozenset({"planning", "waiting", "completed", "error", "cancelled"})
TITLE_CHARS = 80  # fits a line of a terminal beside id, time and state


def thread_row(state: RunState, run: Run) -> ThreadRow:
    """What a list of threads shows of this one."""
    now = run.parts.now()
    return ThreadRow(
        thread_id=run.stamp.thread_id,
        title=title_of(state),
        workspace=state.get("workspace", ""),
        model=run.context.model or run.parts.settings.model or "",
        strategy=run.strategy,
        mode=run.mode,
        door=run.context.door,
        created_at=now,
        updated_at=now,
        steps=len(state.get("steps", [])),
        phase=state.get("phase", "idle"),
        reason=state.get("reason"),
    )


def title_of(state: RunState) -> str:
    """The first line of the first thing the person said."""
    first = next((m.text for m in state.get("messages", []) if isinstance(m, HumanMessage)), "")
    return first.strip().partition("\n")[0][:TITLE_CHARS]
