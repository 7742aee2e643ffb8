"""The calls of a step: which run side by side, what a person's word does, and what one failure ends."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.builder import build_graph
from lockstitch.graph.nodes.execute import batches
from lockstitch.graph.one_call import without_running
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.run_state import PlannedCall
from lockstitch.tools.catalog import BUILT_IN
from lockstitch.tools.context import CallContext
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.registry import Registry

SAID_NO = "Error: the person said no to this call"


def planned(name: str, verdict: Any = "run", **more: Any) -> PlannedCall:
    return PlannedCall(id=name, tool=name, args={}, verdict=verdict, note="because", **more)  # type: ignore[typeddict-item]


def with_tools(bench: Bench, *own: BaseTool) -> Bench:
    guard = Guard(Registry([*BUILT_IN, *own]), RateLimit(0, monotonic=lambda: 0.0))
    bench.parts = replace(bench.parts, guard=guard)
    bench.graph = build_graph(bench.parts).compile(checkpointer=bench.saver)
    return bench


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", []),
        ("read_file grep_files", [["read_file", "grep_files"]]),
        ("write_file edit_file", [["write_file"], ["edit_file"]]),
        ("read_file write_file grep_files", [["read_file"], ["write_file"], ["grep_files"]]),
        ("nonsense read_file", [["nonsense"], ["read_file"]]),
        ("create_tasks get_tasks", [["create_tasks"], ["get_tasks"]]),
    ],
)
def test_reading_calls_run_together_and_others_alone_in_order(names: str, expected: list[list[str]]) -> None:
    made = batches([planned(name) for name in names.split()], Registry(BUILT_IN))
    assert [[one["tool"] for one in batch] for batch in made] == expected


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (planned("t"), None),
        (planned("t", "question"), None),
        (planned("t", "refuse"), "Error: because"),
        (planned("t", "ask"), "Error: nobody approved this call"),
        (planned("t", "ask", decision={"type": "approve"}), None),
        (planned("t", "ask", decision={"type": "edit", "args": {}}), None),
        (planned("t", "ask", decision={"type": "reject", "message": "risky"}), f"{SAID_NO}: risky"),
        (planned("t", "ask", decision={"type": "reject"}), f"{SAID_NO}: no reason was given"),
        (planned("t", "ask", decision={"type": "respond", "message": "by hand"}), "by hand"),
    ],
)  # fmt: skip
def test_a_call_runs_only_by_policys_or_a_persons_word(one: PlannedCall, text: str | None) -> None:
    spoken = without_running(one)
    assert (spoken.text if spoken else None) == text


async def test_reading_calls_overlap(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool(extras={"effect": "read"})
    async def meet(call: CallContext) -> str:
        """Wait for the other one."""
        await both.wait()
        return "met"

    bench = Bench(tmp_path, FakeModel(says("", call("meet", id="a"), call("meet", id="b")), says("ok")))
    state = await with_tools(bench, meet).run("go")
    assert [m.text for m in state["messages"] if isinstance(m, ToolMessage)] == ["met", "met"]


async def test_a_call_that_ends_the_run_stops_those_beside_it_first(tmp_path: Path) -> None:
    ended: list[str] = []

    @tool(extras={"effect": "read"})
    async def breaks() -> str:
        """Meet a full disk."""
        await asyncio.sleep(0)
        raise SystemFaultError("the disk is full")

    @tool(extras={"effect": "read"})
    async def lingers() -> str:
        """Never end by itself."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("lingers")
        return ""

    bench = Bench(tmp_path, FakeModel(says("", call("lingers", id="a"), call("breaks", id="b"))))
    state = await with_tools(bench, breaks, lingers).run("go")
    assert (state["reason"], state["error"]) == ("system_error", "the disk is full")
    assert ended == ["lingers"]


async def test_more_calls_than_a_reply_may_hold_are_refused_and_answered(tmp_path: Path) -> None:
    calls = [call("get_tasks", id=f"c{n}") for n in range(66)]
    bench = Bench(tmp_path, FakeModel(says("", *calls), says("ok")))
    state = await bench.run("go")
    status = [m.status for m in state["messages"] if isinstance(m, ToolMessage)]
    assert status == ["success"] * 64 + ["error"] * 2


async def test_each_call_is_reported_with_its_beginning_and_its_end(tmp_path: Path) -> None:
    replies = says("", call("get_tasks", id="a"), call("read_file", id="b", path="absent")), says("ok")
    bench = Bench(tmp_path, FakeModel(*replies))
    await bench.run("go")
    assert [e["call_id"] for e in bench.of_type("agent_tool_start")] == ["a", "b"]
    assert [e["call_id"] for e in bench.of_type("agent_tool_complete")] == ["a"]
    assert [e["call_id"] for e in bench.of_type("agent_tool_error")] == ["b"]


async def test_a_step_leaves_its_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("I look.", call("create_tasks", tasks=["a"])), says("ok")))
    first, last = (await bench.run("go"))["steps"]
    assert (first["number"], first["prompt"], first["thought"]) == (1, "go", "I look.")
    assert (first["observation"], first["todos"][0]["content"]) == ("create_tasks ok", "a")
    (made,) = first["calls"]
    assert (made["tool"], made["args"], made["success"]) == ("create_tasks", {"tasks": ["a"]}, True)
    assert (first["input_tokens"], first["output_tokens"], first["model"]) == (10, 2, "fake")
    assert (last["thought"], last["calls"]) == ("ok", [])


async def test_a_call_of_a_tool_that_is_gone_is_told_and_not_raised(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("", call("run_command", command="true")), says("ok")))
    await bench.run("go")
    del bench.parts.guard.registry._tools["run_command"]
    state = await bench.run(Command(resume=True))
    assert "there is no tool" in state["messages"][2].text
