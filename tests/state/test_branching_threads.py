"""Random threads that branch: our saver holds what the stock one does, and maintenance changes no state."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from lockstitch.state.checkpointer import ThreadSaver, open_checkpointer
from lockstitch.state.errors import UsageError
from lockstitch.state.run_state import RunInput, RunState, append_records, merge_messages

OLD = Path(__file__).with_name("uncompressed_threads.db")  # written before rows were compressed
THREAD, COPY = "thread", "copy"
EXAMPLES = 8  # each opens files and runs whole graphs
# A run of some steps; an update at the newest checkpoint or an older one; a run on from an older one.
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(1, 4)),
        st.tuples(st.just("update"), st.integers(0, 12)),
        st.tuples(st.just("fork"), st.integers(1, 12)),
    ),
    min_size=1,
    max_size=6,
)


class State(TypedDict, total=False):
    """Delta channels whose copies come often, each at its own time, and channels that are stored whole."""

    messages: Annotated[list[Any], DeltaChannel(merge_messages, snapshot_frequency=5)]
    steps: Annotated[list[Any], DeltaChannel(append_records, snapshot_frequency=3)]
    step: int
    max_steps: int
    outcomes: list[str]
    traces: list[str]  # the last few, as a window that moves


def graph_on(saver: Any) -> Any:
    """plan and observe in turn, as the product's loop."""

    async def plan(state: State) -> State:
        number = state.get("step", 0) + 1
        return State(step=number, outcomes=[f"result {number}"], messages=[AIMessage(f"plan {number}")])

    async def observe(state: State) -> State:
        traces = [*state.get("traces", []), f"trace {state['step']}"][-4:]
        return State(
            steps=[state["step"]], messages=[AIMessage(state["outcomes"][0])], traces=traces, outcomes=[]
        )

    async def route(state: State) -> str:
        return "plan" if state["step"] < state["max_steps"] else END

    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("observe", observe)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "observe")
    graph.add_conditional_edges("observe", route, ["plan", END])
    return graph.compile(checkpointer=saver)


def at(thread_id: str, run_id: str = "") -> RunnableConfig:
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    return {**config, "metadata": {"run_id": run_id}} if run_id else config


async def history(graph: Any, thread_id: str = THREAD) -> list[Any]:
    return [snapshot async for snapshot in graph.aget_state_history(at(thread_id))]


async def play(saver: Any, moves: list[tuple[str, int]], thread_id: str = THREAD) -> None:
    """Make the moves; each has a run id of its own, its number."""
    graph = graph_on(saver)
    for n, (move, number) in enumerate(moves):
        past = await history(graph, thread_id)
        given_steps = (past[0].values.get("step", 0) if past else 0) + number
        chosen = past[min(number, len(past) - 1)].config if past else at(thread_id)
        if move == "run":
            given = State(messages=[HumanMessage(f"go {n}")], max_steps=given_steps)
            await graph.ainvoke(given, at(thread_id, f"run {n}"), durability="sync")
        elif move == "update":
            update = State(messages=[HumanMessage(f"said {n}")], steps=[-n], step=n, max_steps=n)
            await graph.aupdate_state(chosen, update, as_node="observe")
        elif past:
            await graph.ainvoke(None, {**chosen, "metadata": {"run_id": f"run {n}"}}, durability="sync")


def said(values: dict[str, Any]) -> dict[str, Any]:
    """The state without ids, which are another each time."""
    return {**values, "messages": [message.text for message in values.get("messages", [])]}


async def all_states(saver: Any, thread_id: str = THREAD) -> list[Any]:
    return [(said(one.values), one.next) for one in await history(graph_on(saver), thread_id)]


async def state_of(saver: Any, thread_id: str = THREAD) -> Any:
    snapshot = await graph_on(saver).aget_state(at(thread_id))
    return said(snapshot.values), snapshot.next


@asynccontextmanager
async def both() -> AsyncIterator[tuple[ThreadSaver, AsyncSqliteSaver]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "threads.db"
        async with (
            open_checkpointer(path, in_loop=True) as ours,
            AsyncSqliteSaver.from_conn_string(f"{folder}/stock.db") as stock,
        ):
            yield ours, stock


@settings(max_examples=EXAMPLES, deadline=None)
@given(MOVES)
def test_every_state_of_a_branching_thread_is_that_of_the_stock_saver(moves: list[tuple[str, int]]) -> None:
    async def check() -> None:
        async with both() as (ours, stock):
            await play(ours, moves)
            await play(stock, moves)
            assert await all_states(ours) == await all_states(stock)
            await ours.aunpack([THREAD])
            assert await all_states(ours) == await all_states(stock)

    asyncio.run(check())


@settings(max_examples=EXAMPLES, deadline=None)
@given(MOVES, MOVES)
def test_pruned_thread_has_the_same_state_and_goes_on_as_one_that_was_not(
    moves: list[tuple[str, int]], further: list[tuple[str, int]]
) -> None:
    further = [("run", number) for _, number in further]  # the past it could branch from is gone

    async def check() -> None:
        async with both() as (ours, stock):
            await play(ours, moves)
            await play(stock, moves)
            await ours.aprune([THREAD])
            assert await state_of(ours) == await state_of(stock)
            await play(ours, further)
            await play(stock, further)
            assert await state_of(ours) == await state_of(stock)

    asyncio.run(check())


@settings(max_examples=EXAMPLES, deadline=None)
@given(MOVES, MOVES)
def test_copy_and_thread_go_on_without_each_other(
    moves: list[tuple[str, int]], further: list[tuple[str, int]]
) -> None:
    async def check() -> None:
        async with both() as (ours, stock):
            await play(ours, moves)
            await play(stock, moves)
            before = await all_states(ours)
            await ours.acopy_thread(THREAD, COPY)
            assert await all_states(ours, COPY) == before
            await play(ours, further, COPY)
            assert await all_states(ours) == before
            await play(stock, further)
            assert await all_states(ours, COPY) == await all_states(stock)
            await ours.adelete_thread(THREAD)
            assert await all_states(ours, COPY) == await all_states(stock)

    asyncio.run(check())


@settings(max_examples=EXAMPLES, deadline=None)
@given(MOVES, st.integers(1, 4), st.integers(1, 4))
def test_thread_whose_last_run_was_rolled_back_goes_on_as_if_it_had_never_been(
    moves: list[tuple[str, int]], rolled_back: int, further: int
) -> None:
    async def check() -> None:
        async with both() as (ours, stock):
            await play(ours, moves)
            await play(stock, moves)
            given = State(messages=[HumanMessage("never said")], max_steps=100 + rolled_back, step=100)
            await graph_on(ours).ainvoke(given, at(THREAD, "the last"), durability="sync")
            await ours.adelete_for_runs(["the last"])
            assert await all_states(ours) == await all_states(stock)
            await play(ours, [("run", further)])
            await play(stock, [("run", further)])
            assert await state_of(ours) == await state_of(stock)

    asyncio.run(check())


async def test_run_that_went_on_from_a_cut_off_one_leaves_nothing_of_its_own_when_rolled_back(
    tmp_path: Path,
) -> None:
    async with open_checkpointer(tmp_path / "threads.db") as saver:
        graph, given = graph_on(saver), State(messages=[HumanMessage("go")], max_steps=2)
        await graph.ainvoke(given, at(THREAD, "cut off"), interrupt_before=["observe"], durability="sync")
        before = await all_states(saver)
        await graph.ainvoke(None, at(THREAD, "goes on"), durability="sync")
        end = await state_of(saver)
        await saver.adrop_over()
        await saver.adelete_for_runs(["goes on"])
        assert await all_states(saver) == before
        await graph.ainvoke(None, at(THREAD, "goes on again"), durability="sync")
        assert await state_of(saver) == end


async def test_run_that_others_stand_on_stays(tmp_path: Path) -> None:
    async with open_checkpointer(tmp_path / "threads.db") as saver:
        await play(saver, [("run", 2), ("run", 2)])
        before = await all_states(saver)
        try:
            await saver.adelete_for_runs(["run 0"])
        except UsageError:
            assert await all_states(saver) == before
        else:
            raise AssertionError("the first run was deleted from below the second")


def asking(saver: Any, *, steps: int) -> Any:
    """The real state; after its steps it asks a person."""

    async def talk(state: RunState) -> RunState:
        number = state.get("step", 0) + 1
        return RunState(step=number, messages=[AIMessage(f"step {number}")])

    async def ask(state: RunState) -> RunState:
        return RunState(final_answer=interrupt({"question": "really?"}))

    async def route(state: RunState) -> str:
        return "talk" if state["step"] < steps else "ask"

    graph = StateGraph(RunState, input_schema=RunInput)
    graph.add_node("talk", talk)
    graph.add_node("ask", ask)
    graph.add_edge(START, "talk")
    graph.add_conditional_edges("talk", route, ["talk", "ask"])
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


async def test_waiting_approval_survives_prune_copy_and_unpack(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    async with open_checkpointer(path) as saver:
        await asking(saver, steps=3).ainvoke(
            {"messages": [HumanMessage("go")]}, at(THREAD), durability="sync"
        )
        await saver.aprune([THREAD])
        await saver.acopy_thread(THREAD, COPY)
        await saver.aunpack([COPY])
    async with open_checkpointer(path) as saver:
        for thread_id in (THREAD, COPY):
            graph = asking(saver, steps=3)
            assert (await graph.aget_state(at(thread_id))).interrupts[0].value == {"question": "really?"}
            ended = await graph.ainvoke(Command(resume="yes"), at(thread_id), durability="sync")
            assert ended["final_answer"] == "yes"
            assert [message.text for message in ended["messages"]] == ["go", "step 1", "step 2", "step 3"]


async def test_thread_from_before_rows_were_compressed_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    shutil.copy(OLD, path)
    words = ["go", *(f"step {n}" for n in range(1, 7))]
    async with open_checkpointer(path) as saver:
        graph = asking(saver, steps=6)
        old = await history(graph, "old")
        assert [len(one.values.get("messages", [])) for one in old] == [7, 6, 5, 4, 3, 2, 1, 0]
        assert (await graph.aget_state(at("old"))).interrupts[0].value == {"question": "really?"}
        ended = await graph.ainvoke(Command(resume="yes"), at("old"), durability="sync")
        assert ended["final_answer"] == "yes"
        await saver.aprune(["old"])
        kept = (await graph.aget_state(at("old"))).values
        assert [message.text for message in kept["messages"]] == words
        assert [record["number"] for record in kept["steps"]] == [1, 2, 3, 4, 5, 6]
