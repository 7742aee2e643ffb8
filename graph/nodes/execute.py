"""execute: runs the calls of a step, each through the guard.

Reading ones run side by side, changing ones in order.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from itertools import groupby
from typing import Any

from lockstitch.graph.nodes.approve import ask_next
from lockstitch.graph.one_call import make_call
from lockstitch.graph.run import Run
from lockstitch.graph.step_place import open_place
from lockstitch.state.events import AgentTodos
from lockstitch.state.run_state import CallOutcome, PlannedCall, RunState
from lockstitch.state.todos import TodoList
from lockstitch.tools.registry import Registry
from lockstitch.tools.result import ToolResult


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
    place = await opened(open_place, state, run, todos, has_commands)
    try:
        async with place.trail:
            for batch in batches(calls[len(outcomes) :], run.parts.guard.registry):
                results = await _together([make_call(call, run, place) for call in batch])
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


def _has_commands(calls: Sequence[PlannedCall], run: Run) -> bool:
    commands = run.parts.guard.registry.named({"command"})
    return any(call["tool"] in commands for call in calls)


def batches(calls: Sequence[PlannedCall], registry: Registry) -> Iterator[list[PlannedCall]]:
    """Runs of reading calls together, every other call alone."""
    reading = registry.named({"read"})
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


def _outcome(call: PlannedCall, result: ToolResult) -> CallOutcome:
    return CallOutcome(
        id=call["id"],
        tool=call["tool"],
        success=result.success,
        output=result.text,
        time_ms=result.metadata.get("time_ms", 0.0),
    )
