"""The checkpoint that ties a thread's conversation to the files it has after a move."""

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.turn import thread_totals
from lockstitch.state.run_state import RunState
from lockstitch.state.tree_change import Change
from lockstitch.studio.timeline import MOVE, Move
from lockstitch.tools.changes.call_journal import describe_changes

Graph = CompiledStateGraph[Any, Any, Any, Any]

NOTES = {"files": "files_taken_back", "conversation": "conversation_taken_back"}


async def tie(graph: Graph, move: Move, target: StateSnapshot, update: RunState) -> RunState:
    """Begin a branch at the target's checkpoint; it becomes the thread's newest, and the old one stays.

    Returns the state there. One checkpoint, so it is made or not.
    """
    place: Any = {"configurable": dict(target.config["configurable"]), "metadata": {MOVE: move.to_json()}}
    config: RunnableConfig = await graph.aupdate_state(place, update, as_node="finish")
    return cast("RunState", (await graph.aget_state(config)).values)


def update_of(
    move: Move, head: StateSnapshot, target: StateSnapshot, *, files: str, changes: Sequence[Change]
) -> RunState:
    """What differs from the target's state: where the thread rests, and what goes on counting.

    Events keep their numbers, and paths out of the workspace, tokens and money stay spent. The workspace
    stays the one the thread has now.
    """
    now = cast("RunState", head.values)
    tokens, cost_usd = thread_totals(now)
    update = RunState(
        **resting(target),
        files=files,
        last_seq=now.get("last_seq", 0),
        escapes=now.get("escapes", 0),
        thread_tokens=tokens,
        thread_cost_usd=cost_usd,
    )
    if "workspace" in now:
        update["workspace"] = now["workspace"]
    if move.what in NOTES and changes:
        update["messages"] = notes_of(move.what, move.step, changes)
    return update


def notes_of(what: str, step: int, changes: Sequence[Change]) -> list[AnyMessage]:
    """What the model is told at its next turn, where files and conversation part."""
    words = load_prompt(NOTES[what]).format(step=step, changes=describe_changes(changes))
    return [note(words)]


def goes_on(snapshot: StateSnapshot) -> bool:
    """Whether a run was cut off there, or waits, and so is not over.

    Not by `next` alone: a task is not in it whose writes were kept when a kill came before their checkpoint.
    """
    return bool(snapshot.next) or any(task.name != "finish" for task in snapshot.tasks)


def resting(target: StateSnapshot) -> RunState:
    """How a thread stands that goes on from there: as its run ended, stopped in its middle, or not begun."""
    asked = RunState(pause=None, sum_up=False, compact_asked=False, draft=None)
    if not goes_on(target):
        return asked
    if target.metadata and target.metadata.get("source") == "input" and target.parent_config is None:
        return RunState(**asked, phase="idle", reason=None, final_answer="", error="")
    return RunState(**asked, phase="cancelled", reason="cancelled", final_answer="", error="")
