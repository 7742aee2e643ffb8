"""What ties the files to a step: its journal, and what of the step an earlier process had begun to make."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from langchain_core.messages import ToolMessage

from lockstitch.graph.conversation import INTERRUPTED
from lockstitch.graph.run import Run
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.events import AgentNotice
from lockstitch.state.home import explain_refusal
from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.run_state import PlannedCall, RunState
from lockstitch.state.tree_change import Change
from lockstitch.tools.changes.call_journal import Recovered, StepJournal, describe_changes, recover
from lockstitch.tools.changes.scanned import found_after_kill, note_scanned
from lockstitch.tools.paths import shown
from lockstitch.tools.permission.policy import LAYERED
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

CHANGING: Final = frozenset({"edit", "delete", "command"})  # effects of tools that change files


def open_step_journal(state: RunState, run: Run) -> StepJournal | None:
    """The journal of the step under way; None where it changes no file, or nothing is kept of the run."""
    journal, thread_id = run.parts.journal, run.stamp.thread_id
    tools = run.parts.guard.registry.named(CHANGING)
    if journal is None or not thread_id or not any(call["tool"] in tools for call in state["calls"]):
        return None
    return StepJournal(
        journal=journal,
        thread_id=thread_id,
        checkpoint_id=run.checkpoint_id,
        workspace=Path(state["workspace"]),
        head=journal.position(thread_id),
        now=run.parts.now,
    )


def begun_before(step: StepJournal) -> dict[str, list[Effect]]:
    """What the calls of this step had changed, or were about to, when the run was cut off; by call id.

    What a rewind took back since does not count: the step is made anew.
    """
    begun: dict[str, list[Effect]] = {}
    found = step.journal.of_step(step.thread_id, step.checkpoint_id)
    in_force = set(_since_rewind(step)) if found else set[str]()
    for effect in found:
        if effect.status == "sealed" or effect.id in in_force:
            begun.setdefault(effect.call_id, []).append(effect)
    return begun


def _since_rewind(step: StepJournal) -> Iterator[str]:
    """The effects that the files have and no later rewind may have touched, the newest first."""
    for effect_id in step.journal.lineage(step.head):
        if step.journal.effect(effect_id).kind == "rewind":
            return
        yield effect_id


async def finish_begun(effects: Sequence[Effect], step: StepJournal) -> ToolResult:
    """Bring what a call had begun to its end, and tell what it came to.

    Raises:
        SystemFaultError: it cannot be finished; nothing else is done.
    """
    recovered = await asyncio.to_thread(finish_all, effects, step.journal)
    step.head = effects[-1].id
    left = [conflict.path for one in recovered for conflict in one.conflicts]
    changes = [change for effect in effects for change in effect.changes]
    told = effects[-1].result or told_after(changes)
    if left:
        told += f"\n[left as they are, since somebody else changed them: {', '.join(map(shown, left))}]"
    return ToolResult(output=told, data={"recovered": True}, metadata={"time_ms": 0.0})


def finish_all(effects: Sequence[Effect], journal: Journal) -> list[Recovered]:
    """Finish those that are sealed; the others are done."""
    sealed = [effect for effect in effects if effect.status == "sealed"]
    try:
        return recover(journal, sealed)
    except OSError as error:
        raise SystemFaultError(
            f"what the thread was changing when it was cut off cannot be finished: its folder "
            f"{explain_refusal(error)}. Mend that and resume."
        ) from error


def recover_thread(run: Run) -> list[Recovered]:
    """Finish what the thread was changing when it was cut off. Waits for the disk.

    Raises:
        SystemFaultError: it cannot be finished; nothing else is done.
    """
    journal = run.parts.journal
    return finish_all(journal.unfinished(run.stamp.thread_id), journal) if journal else []


def position(run: Run) -> RunState:
    """The update that names the effect the files have now; nothing where no journal is kept."""
    journal, thread_id = run.parts.journal, run.stamp.thread_id
    return RunState(files=journal.position(thread_id)) if journal and thread_id else RunState()


def made_meanwhile(state: RunState, run: Run) -> dict[str, ToolMessage]:
    """The answers to calls of a cut-off step that were made, though no checkpoint knows of it; by call id."""
    journal, files = run.parts.journal, state.get("files", BEGINNING)
    if journal is None or (head := journal.position(run.stamp.thread_id)) == files:
        return {}
    line = [*journal.lineage(head), BEGINNING]
    newer = line[: line.index(files)] if files in line else []
    effects = [effect for effect_id in newer if (effect := journal.effect(effect_id)).call_id]
    return {effect.call_id: _answer(effect) for effect in reversed(effects)}


def _answer(effect: Effect) -> ToolMessage:
    told = effect.result or told_after(effect.changes)
    return ToolMessage(told, tool_call_id=effect.call_id, name=effect.tool)


def told_after(changes: Sequence[Change]) -> str:
    """What the model is told of changes whose own words were lost with the process that made them."""
    return f"Done before the run was cut off: {describe_changes(changes)}."


def tell_cut_off(call: PlannedCall, workspace: Workspace, step: StepJournal, run: Run) -> str:
    """What the model is told of a call whose outcome nobody knows; what changed is noted in the journal.

    Waits for the disk.
    """
    if call["tool"] not in LAYERED:
        return INTERRUPTED
    effects = found_after_kill(workspace, run.parts.home.path, step.journal.objects)
    if effects is None:
        return INTERRUPTED
    told = f"{INTERRUPTED} Changed since it began: {describe_changes(effects.real) or 'nothing'}."
    note_scanned(effects, step.of_call(call["id"], call["tool"]), result=told)
    return told


def find_layers(workspace: Path, run: Run) -> Path | None:
    """Our home, where commands over the workspace run in layers; None where they cannot, said once a run.

    Waits for the disk, and for the first look at the sandbox.
    """
    layers, sandbox, run_id = run.parts.layers, run.parts.sandbox, run.stamp.run_id
    if news := layers.news(workspace, sandbox, run_id=run_id):
        words = "Commands write straight into the workspace here, so what one changed when it was cut off is"
        run.emit(AgentNotice(content=f"{words} not known: {news}."))
    return None if layers.trouble(workspace, sandbox, run_id=run_id) else layers.home
