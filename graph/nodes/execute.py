"""execute: runs the calls of a step, each through the guard.

Reading ones run side by side, changing ones in order.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from lockstitch.graph.audited import note_unrun, open_trail
from lockstitch.graph.conversation import INTERRUPTED
from lockstitch.graph.judging import forbidden_now, is_stale, open_ground
from lockstitch.graph.memory.history import history_of
from lockstitch.graph.nodes.approve import ask_next
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import (
    begun_before,
    find_layers,
    finish_begun,
    open_step_journal,
    tell_cut_off,
)
from lockstitch.state.errors import RecoverableError
from lockstitch.state.events import AgentTodos, AgentToolComplete, AgentToolError, AgentToolStart
from lockstitch.state.journal import Effect
from lockstitch.state.run_state import CallOutcome, PlannedCall, RunState
from lockstitch.state.todos import TodoList
from lockstitch.tools.changes.call_journal import StepJournal
from lockstitch.tools.changes.held_changes import drop_held, keep_held
from lockstitch.tools.commands.finished import finished
from lockstitch.tools.context import ToolContext
from lockstitch.tools.history import HistoryEntry
from lockstitch.tools.permission.judge import Ground
from lockstitch.tools.permission.policy import LAYERED
from lockstitch.tools.registry import Registry
from lockstitch.tools.result import ToolResult
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace

NEVER_TWICE = frozenset({"command", "network", "unknown"})  # effects that nobody can look up afterwards

STALE: Final = (
    "the files changed since the person was asked, so this call would change something else than they were "
    "shown: make it again."
)


@dataclass(frozen=True)
class _Place:
    """Where the calls of one step work."""

    workspace: Workspace
    todos: TodoList
    history: Callable[[], Sequence[HistoryEntry]]
    trail: Trail
    ground: Ground
    journal: StepJournal | None
    begun: dict[str, list[Effect]]  # what its calls had changed when the run was cut off
    layers: Path | None  # our home, where commands run in layers


async def execute(state: RunState, run: Run) -> RunState:
    """Run every call of the step; the outcomes are in the order of the calls.

    Raises:
        TerminalError: a call ended the run.
    """
    run.enter("executing")
    todos = TodoList(state.get("todos", []))
    before = list(todos.items)
    outcomes = list(state.get("outcomes", []))  # of calls made before a person was asked about one
    calls, escapes = state["calls"], 0
    has_commands = _has_commands(calls, run)
    opened = asyncio.to_thread if has_commands else run.parts.quickly
    place = await opened(_open_place, state, run, todos, has_commands)
    try:
        async with place.trail:
            for batch in batches(calls[len(outcomes) :], run.parts.guard.registry):
                results = await _together([_make(call, run, place) for call in batch])
                if held := results[0].pending:
                    asks: PlannedCall = {**batch[0], "pending": held[0], "shown": held[1]}
                    calls = [asks if call is batch[0] else call for call in calls]
                    break
                outcomes += [_outcome(call, result) for call, result in zip(batch, results, strict=True)]
                escapes += sum(bool(result.metadata.get("escape")) for result in results)
    finally:
        place.workspace.close()
    if todos.items != before:
        run.emit(AgentTodos(tasks=todos.items))
    update = RunState(outcomes=outcomes, todos=todos.items, escapes=state.get("escapes", 0) + escapes)
    if place.journal:
        update["files"] = place.journal.head
    if ask_next(calls, run):
        return RunState(**update, calls=calls, phase="waiting")
    return RunState(**update, phase="observing")


def _open_place(state: RunState, run: Run, todos: TodoList, has_commands: bool) -> _Place:  # noqa: FBT001  through a thread
    root = Path(state["workspace"])
    journal = open_step_journal(state, run)
    return _Place(
        journal=journal,
        layers=find_layers(root, run) if journal and _has_layered(state["calls"], run) else None,
        begun=begun_before(journal) if journal else {},
        workspace=Workspace(root, hidden=(run.parts.home.path,)),
        todos=todos,
        history=partial(history_of, state["messages"]),
        trail=open_trail(state, run),
        ground=open_ground(run, state["workspace"], commands=has_commands),
    )


def _has_commands(calls: Sequence[PlannedCall], run: Run) -> bool:
    commands = {tool.name for tool in run.parts.guard.registry.list() if tool.effect == "command"}
    return any(call["tool"] in commands for call in calls)


def _has_layered(calls: Sequence[PlannedCall], run: Run) -> bool:
    return run.mode != "plan" and any(call["tool"] in LAYERED for call in calls)


def batches(calls: Sequence[PlannedCall], registry: Registry) -> Iterator[list[PlannedCall]]:
    """Runs of reading calls together, every other call alone."""
    reading = {tool.name for tool in registry.list() if tool.effect == "read"}
    for together, group in groupby(calls, key=lambda call: call["tool"] in reading):
        if together:
            yield list(group)
        else:
            yield from ([call] for call in group)


async def _together(makes: list[Coroutine[Any, Any, ToolResult]]) -> list[ToolResult]:
    """The results in order. When one call ends the run the others are stopped before that is told."""
    if len(makes) == 1:
        return [await makes[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(make) for make in makes]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


async def _make(call: PlannedCall, run: Run, place: _Place) -> ToolResult:
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


async def _run(call: PlannedCall, run: Run, place: _Place) -> ToolResult:
    context = _context(call, run, place)
    if "shown" in call and await asyncio.to_thread(is_stale, call, run, context):
        place.trail.note(call["tool"], call["args"], call_id=call["id"], outcome="refused")
        return ToolResult.failure(STALE)
    return await run.parts.guard.run(call["tool"], call["args"], context)


def _settle_held(call: PlannedCall, run: Run, place: _Place) -> ToolResult:
    """Keep what the call changed, or throw it away, as a person said."""
    pending, decision = call["pending"], call["decision"]
    if decision["type"] == "approve":
        note = partial(place.trail.note, call["tool"], call["args"], call_id=call["id"])
        try:
            kept = keep_held(pending, call["shown"]["digest"], _context(call, run, place))
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


def _context(call: PlannedCall, run: Run, place: _Place) -> ToolContext:
    decision = call.get("decision")
    journal = place.journal.of_call(call["id"], call["tool"]) if place.journal else None
    return ToolContext(
        workspace=place.workspace.journaled(journal) if journal else place.workspace,
        settings=run.parts.settings,
        spill=run.spill,
        thread_id=run.stamp.thread_id,
        call_id=call["id"],
        tool=call["tool"],
        todos=place.todos,
        emit=run.emit,
        answer=decision.get("message", "") if decision and call["verdict"] == "question" else None,
        history=place.history,
        facts=run.parts.facts,
        find_sandbox=run.parts.find_sandbox,
        journal=journal,
        layers=place.layers,
        scans=None if place.layers or call["tool"] not in LAYERED else run.parts.home.path,
        may_not_change=place.ground.rules.denial(call["tool"]),
        hold=call["verdict"] == "try",
        approved=run.mode == "ask" or call["verdict"] == "ask",
        discard=run.mode == "plan",
        network=run.network,
        processes=run.parts.processes.of(run.process_owner),
        is_denied=place.ground.rules.denial(call["tool"]),
        indexes=run.context.indexes,
        trail=place.trail,
    )


async def _forbidden(call: PlannedCall, run: Run, ground: Ground) -> str:
    """Why a call must not run after all; empty when it may, which is clear where nobody changed anything."""
    edited = call.get("decision", {}).get("type") == "edit"
    if not (edited or ground.rules.all or call["verdict"] == "try"):
        return ""
    tool = next((tool for tool in run.tools if tool.name == call["tool"]), None)
    if tool is None:
        return ""  # the guard will say so
    return await asyncio.to_thread(forbidden_now, call, tool, ground)


async def _once(call: PlannedCall, run: Run, place: _Place) -> ToolResult | None:
    """The word on a call that had begun before the run was cut off; None when it may run.

    File tools may run again: what they had changed the journal knows, and so nothing of it is made twice.
    """
    intents = run.parts.intents
    once = {tool.name for tool in run.parts.guard.registry.list() if tool.effect in NEVER_TWICE}
    if place.layers and call["tool"] in LAYERED and run.network == "off":
        return None  # cut off before its commit, nothing had happened
    if intents is None or not run.stamp.thread_id or call["tool"] not in once:
        return None
    begin = partial(intents.begin, run.stamp.thread_id, checkpoint_id=run.checkpoint_id, call_id=call["id"])
    if await asyncio.to_thread(begin, now=run.parts.now()):
        return None
    if place.journal is None:
        return ToolResult(success=False, error=INTERRUPTED)
    told = await asyncio.to_thread(tell_cut_off, call, place.workspace, place.journal, run)
    return ToolResult(success=False, error=told)


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


def _report(call: PlannedCall, result: ToolResult, run: Run) -> None:
    place = {"call_id": call["id"], "tool": call["tool"], "time_ms": result.metadata.get("time_ms", 0.0)}
    if result.success:
        run.emit(AgentToolComplete(**place, result=result.output, data=result.data))
    else:
        run.emit(AgentToolError(**place, message=result.text))


def _outcome(call: PlannedCall, result: ToolResult) -> CallOutcome:
    return CallOutcome(
        id=call["id"],
        tool=call["tool"],
        success=result.success,
        output=result.text,
        time_ms=result.metadata.get("time_ms", 0.0),
    )
