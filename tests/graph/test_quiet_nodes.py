"""Nodes without callbacks: what they give, who hears of them, and what LangGraph must still be like."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels import LastValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from lockstitch.graph.builder import build_graph
from lockstitch.graph.parts import build_parts
from lockstitch.graph.quiet_nodes import QuietNode, quieten
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import Settings


class State(TypedDict, total=False):
    count: int
    said: str
    task: str
    thread: str


async def count(state: State) -> State:
    task = asyncio.current_task()
    assert task is not None
    return {"count": state.get("count", 0) + 1, "task": task.get_name()}


async def ask(state: State) -> State:
    get_stream_writer()(state["count"])
    return {"said": interrupt("which?"), "thread": get_config()["configurable"]["thread_id"]}


async def fall(_state: State) -> State:
    raise ValueError("fell")


class Counted(TypedDict, total=False):
    count: int


async def route(state: Counted) -> str:
    return "ask" if state["count"] > 2 else "count"


def built(last: Any = ask) -> CompiledStateGraph[State, None, State, State]:
    graph = StateGraph(State)
    graph.add_node("count", count)
    graph.add_node("ask", last)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", route, ["count", "ask"])
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=InMemorySaver())


def thread(**more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": str(uuid4())}, **more}  # type: ignore[typeddict-item]


class Heard(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_chain_start(self, *_: Any, **told: Any) -> None:
        self.names.append(told["name"])


def test_langgraph_puts_every_node_of_ours_together_as_is_expected_here(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "home")
    graph = build_graph(build_parts(Settings(home=home.path, workspace=tmp_path), home)).compile()
    quiet = {name for name, node in quieten(graph).nodes.items() if isinstance(node.node, QuietNode)}
    assert {"begin", "plan", "approve", "execute", "observe", "finish"} <= quiet


async def test_nodes_write_route_ask_and_stream_as_before() -> None:
    graph, config = quieten(built()), thread()
    streamed = [part async for part in graph.astream({}, config, stream_mode="custom")]
    assert streamed == [3]
    assert (await graph.aget_state(config)).interrupts[0].value == "which?"
    end = await graph.ainvoke(Command(resume="this"), config)
    assert (end["count"], end["said"]) == (3, "this")
    assert end["thread"] == config["configurable"]["thread_id"]


async def test_a_route_copies_the_channels_it_reads_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    stock = LastValue.copy

    def copy(self: LastValue[Any]) -> LastValue[Any]:
        copied.append(self.key)
        return stock(self)

    monkeypatch.setattr(LastValue, "copy", copy)
    await quieten(built()).ainvoke({}, thread())
    assert copied == ["count", "count", "count"]
    copied.clear()
    await built().ainvoke({}, thread())
    assert {"count", "said", "task", "thread"} <= set(copied)  # else LangGraph copies less by now


async def test_a_node_takes_no_task_of_its_own_where_nobody_listens() -> None:
    async def run(graph: CompiledStateGraph[State, None, State, State], config: RunnableConfig) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("the run's")
        async for _ in graph.astream({}, config, stream_mode=[]):
            pass
        return str((await graph.aget_state(config)).values["task"])

    assert await asyncio.create_task(run(quieten(built()), thread())) == "the run's"
    assert await asyncio.create_task(run(built(), thread())) != "the run's"


async def test_who_listens_hears_of_every_node() -> None:
    quiet, stock = Heard(), Heard()
    await quieten(built()).ainvoke({}, thread(callbacks=[quiet]))
    await built().ainvoke({}, thread(callbacks=[stock]))
    assert quiet.names == stock.names
    assert quiet.names.count("count") == 3


async def test_a_failing_node_fails_the_run_and_leaves_no_configuration_behind() -> None:
    with pytest.raises(ValueError, match="fell"):
        await quieten(built(fall)).ainvoke({}, thread())
    assert var_child_runnable_config.get() is None
