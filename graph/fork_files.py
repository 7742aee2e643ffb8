"""A run that starts from another checkpoint than the files on disk belong to, as after a fork in Studio.

By setting the files are taken to the checkpoint's, or kept, or a person is asked. What somebody else changed
is never overwritten: then they stay, and both the person and the model are told.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.run import Run
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.events import AgentNotice
from lockstitch.state.heads import changes_between
from lockstitch.state.home import explain_refusal
from lockstitch.state.interrupts import RESTORE
from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.run_state import Pause, RunState
from lockstitch.state.tree_change import Change
from lockstitch.tools.changes.call_journal import describe_changes
from lockstitch.tools.changes.outlook import Outlook, look_ahead
from lockstitch.tools.changes.restore import open_root, restore
from lockstitch.tools.paths import shown

SAID_MAX: Final = 5  # paths that stand in the way, by name


@dataclass(frozen=True)
class Parted:
    """Files on disk that are not the checkpoint's.

    Attributes:
        changes: that lead from the files on disk to the checkpoint's.
        position: the effect that the files have.
    """

    changes: tuple[Change, ...]
    position: str


def find_parted(state: RunState, run: Run, *, finished: Collection[str] = ()) -> Parted | None:
    """How the files differ from the checkpoint's; None where they do not. Waits for the disk.

    What a step that was cut off had made by then is no difference: that step goes on, or is answered. Nor are
    the effects in `finished`, by id, which it had sealed and nobody could bring to their end before.
    """
    journal, thread_id = run.parts.journal, run.stamp.thread_id
    if journal is None or not thread_id or "files" not in state:
        return None
    position, files = journal.position(thread_id), state["files"]
    if position == BEGINNING and files != BEGINNING:  # a copy of a thread: it stands where that one does
        position = journal.position(journal.effect(files).thread_id)
        journal.place(thread_id, position)
    if position == files or _is_of_cut_off_step(state, journal, position, finished):
        return None
    return Parted(tuple(changes_between(journal, position, files)), position)


def question_of(parted: Parted) -> Pause:
    """The pause of a run that asks whether to take the files along."""
    return Pause(reason="cancelled", limit=RESTORE, at=0, more=len(parted.changes))


def describe_parted(parted: Parted) -> str:
    """What a person is asked, in a sentence."""
    return (
        "The conversation goes on from another step than the files are of. Take these files to that step: "
        f"{describe_changes(parted.changes)}?"
    )


def take_along(parted: Parted, state: RunState, run: Run) -> RunState:
    """Take the files to the checkpoint's; where somebody else changed one, all stay, and it is told.

    Raises:
        SystemFaultError: the disk fails; the files are as they were, or will be finished later.
    """
    journal = run.parts.journal
    assert journal is not None
    workspace = run.parts.folder_of(state)
    with open_root(workspace) as root:
        outlook = _outlook(root, parted)
        if outlook.conflicts:
            paths = ", ".join(shown(conflict.path) for conflict in outlook.conflicts[:SAID_MAX])
            return keep(parted, run, f", since somebody else changed {paths}")
        if not outlook.ready:
            return RunState(files=parted.position)
        effect = _effect(parted, outlook, run, workspace)
        restore(journal, effect, root)
    run.emit(
        AgentNotice(
            content=f"The files were taken to the step it goes on from: {describe_changes(effect.changes)}."
        )
    )
    return RunState(files=effect.id)


def keep(parted: Parted, run: Run, why: str = "") -> RunState:
    """Leave the files as they are; person and model are told."""
    changes = describe_changes(parted.changes)
    run.emit(AgentNotice(content=f"The files stayed as later steps left them{why}: {changes}."))
    told: list[AnyMessage] = [note(load_prompt("files_are_newer").format(changes=changes, why=why))]
    return RunState(files=parted.position, messages=told)


def _is_of_cut_off_step(state: RunState, journal: Journal, position: str, finished: Collection[str]) -> bool:
    """Whether all that the files have beyond the checkpoint's is of open calls, or in `finished`."""
    line = [*journal.lineage(position), BEGINNING]
    if state["files"] not in line:
        return False
    newer = [journal.effect(effect_id) for effect_id in line[: line.index(state["files"])]]
    calls = _open_calls(state)
    return all(
        effect.kind != "rewind" and (effect.call_id in calls or effect.id in finished) for effect in newer
    )


def _open_calls(state: RunState) -> set[str]:
    messages = state.get("messages", [])
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    callers = (message for message in reversed(messages) if isinstance(message, AIMessage))
    last = next(callers, None)
    return {str(call["id"]) for call in last.tool_calls} - answered if last else set()


def _outlook(root: int, parted: Parted) -> Outlook:
    try:
        return look_ahead(root, parted.changes)
    except OSError as error:
        raise SystemFaultError(
            f"the thread's files cannot be read: its folder {explain_refusal(error)}."
        ) from error


def _effect(parted: Parted, outlook: Outlook, run: Run, workspace: Path) -> Effect:
    return Effect(
        id=new_effect_id(),
        thread_id=run.stamp.thread_id,
        parent=parted.position,
        checkpoint_id=run.checkpoint_id,
        call_id="",
        tool="fork",
        kind="rewind",
        at=run.parts.now(),
        workspace=str(workspace),
        changes=outlook.ready,
    )
