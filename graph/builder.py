"""The graph's nodes and edges, and nothing else. The same skeleton serves every strategy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from lockstitch.graph import routing
from lockstitch.graph.audited import note_question
from lockstitch.graph.nodes.approve import approve
from lockstitch.graph.nodes.begin import begin
from lockstitch.graph.nodes.execute import execute
from lockstitch.graph.nodes.finish import finish
from lockstitch.graph.nodes.observe import observe
from lockstitch.graph.nodes.plan import CALLS_A_STEP, plan
from lockstitch.graph.parts import Parts
from lockstitch.graph.record import RECORDED_PHASES, thread_row
from lockstitch.graph.routing import Route
from lockstitch.graph.run import Run, check_context, open_run
from lockstitch.state.errors import TerminalError
from lockstitch.state.events import AgentErrorEvent
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunInput, RunState

Verb = Callable[[RunState, Run], Awaitable[RunState]]
Builder = StateGraph[RunState, RunContext, RunInput, RunState]

# Supersteps of one step: plan, execute, observe, and an approval for each call that asks.
SUPERSTEPS_A_STEP = 3


def build_graph(parts: Parts) -> Builder:
    """`begin -> plan -> (approve) -> execute -> observe -> plan ... -> finish`, uncompiled."""
    graph: Builder = StateGraph(RunState, context_schema=RunContext, input_schema=RunInput)
    for verb in (begin, plan, approve, execute, observe, finish):
        graph.add_node(verb.__name__, _node(verb, parts))
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", Route(routing.route_after_begin))
    graph.add_conditional_edges("plan", Route(routing.route_after_plan))
    graph.add_conditional_edges("approve", Route(routing.route_after_approve))
    graph.add_conditional_edges("execute", Route(routing.route_after_execute))
    graph.add_conditional_edges("observe", Route(routing.route_after_observe))
    graph.add_edge("finish", END)
    return graph


def recursion_limit(max_steps: int) -> int:
    """Supersteps enough for every step to ask about every call: LangGraph's own limit never speaks."""
    return 8 + max_steps * (SUPERSTEPS_A_STEP + CALLS_A_STEP)


def _node(verb: Verb, parts: Parts) -> Any:
    """The verb as a LangGraph node: opens the run, turns a terminal error into the run's reason to end."""

    async def node(state: RunState, runtime: Runtime[RunContext]) -> RunState:
        run = open_run(parts, state, runtime)
        try:
            if verb is not finish:  # the end must come, whatever the client sent
                run.context = check_context(run.context)
            update = await verb(state, run)
            await note_question(state, update, run)
        except TerminalError as error:
            run.emit(AgentErrorEvent(message=error.message))
            update = RunState(reason=error.reason, error=error.message, phase="error", step=run.step)
        except asyncio.CancelledError:
            await asyncio.shield(parts.processes.end_run(run.process_owner))
            raise
        update = RunState(**update, last_seq=run.stamp.seq)
        await _keep_index(state, update, run)
        return update

    return node


async def _keep_index(state: RunState, update: RunState, run: Run) -> None:
    """Tell the thread index when a run begins, waits or ends, so that lists are true at every door."""
    phase = update.get("phase")
    if run.parts.threads is None or not run.stamp.thread_id or phase == state.get("phase"):
        return
    if phase in RECORDED_PHASES:
        merged = RunState({**state, **update, "messages": state.get("messages", [])})  # no bare writes
        row = thread_row(merged, run)
        await asyncio.to_thread(run.parts.threads.record, row)
