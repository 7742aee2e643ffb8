"""tool-first from a prompt to its end: real tools, a fake model."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.note import is_note, note, since_question
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.graph.strategies.tool_first import ToolFirst

TOLD = load_prompt("tool_first")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "tool-first", ToolFirst())


async def ran(tmp_path: Path, model: FakeModel, **context: Any) -> tuple[Bench, dict[str, Any]]:
    bench = Bench(tmp_path, model)
    return bench, await bench.run("look", strategy="tool-first", **context)


async def test_only_the_first_step_of_a_run_must_call_a_tool(tmp_path: Path) -> None:
    model = FakeModel(says("", call("list_directory")), says("Empty."))
    bench, state = await ran(tmp_path, model)
    assert model.must_call == [True, False]
    assert (state["reason"], state["final_answer"]) == ("answered", "Empty.")
    assert [type(m) for m in state["messages"]] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert bench.types() == [
        "agent_start",
        "agent_turn_start",
        "agent_state",
        "agent_usage",
        "agent_state",
        "agent_tool_start",
        "agent_tool_complete",
        "agent_state",
        "agent_observe",
        "agent_turn_start",
        "agent_state",
        "agent_reason",
        "agent_usage",
        "agent_state",
        "agent_answer",
        "agent_state",
        "agent_completion",
    ]


async def test_text_is_told_once_and_the_run_goes_on(tmp_path: Path) -> None:
    model = FakeModel(says("I know it."), says("", call("list_directory")), says("Empty."))
    _, state = await ran(tmp_path, model)
    assert [m.text for m in state["messages"]][1:3] == ["I know it.", TOLD]
    assert [m.type for m in state["messages"]] == ["human", "ai", "human", "ai", "tool", "ai"]
    assert is_note(state["messages"][2])
    assert model.must_call == [True, True, False]
    assert state["messages"][2] == model.prompts[1][-1]
    for earlier, later in zip(model.prompts, model.prompts[1:], strict=False):
        assert later[: len(earlier)] == earlier
    assert state["steps"][0]["input_tokens"] == 20


async def test_text_again_is_the_answer(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(says("I know it."), says("I do.")))
    assert (state["reason"], state["final_answer"], len(state["steps"])) == ("answered", "I do.", 1)


async def test_an_empty_first_reply_is_told_and_not_stored(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(says(" "), says("", call("list_directory")), says("ok")))
    assert [m.type for m in state["messages"]] == ["human", "human", "ai", "tool", "ai"]


async def test_a_broken_call_is_a_call(tmp_path: Path) -> None:
    broken = {"name": "read_file", "args": "{", "id": "x", "error": "bad", "type": "invalid_tool_call"}
    model = FakeModel(AIMessage("", invalid_tool_calls=[broken]), says("sorry"))  # type: ignore[list-item]
    _, state = await ran(tmp_path, model)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]


async def test_a_failing_first_call_counts(tmp_path: Path) -> None:
    model = FakeModel(says("", call("read_file", path="none")), says("There is none."))
    _, state = await ran(tmp_path, model)
    assert state["messages"][2].status == "error"
    assert (state["reason"], model.must_call) == ("answered", [True, False])


async def test_without_tools_it_is_react(tmp_path: Path) -> None:
    model = FakeModel(says("hello"))
    _, state = await ran(tmp_path, model, tools=[])
    assert (state["final_answer"], model.must_call) == ("hello", [False])


async def test_step_limit_sums_up(tmp_path: Path) -> None:
    model = FakeModel(says("x"), says("", call("list_directory")), says("All is left."))
    _, state = await ran(tmp_path, model, max_steps=1)
    assert (state["reason"], len(state["steps"])) == ("step_limit", 1)


async def test_a_question_may_be_the_first_call(tmp_path: Path) -> None:
    model = FakeModel(says("", call("request_input", question="Red?")), says("blue it is"))
    bench, state = await ran(tmp_path, model)
    assert state["phase"] == "waiting"
    state = await bench.run(Command(resume="blue"), strategy="tool-first")
    assert (state["messages"][2].text, state["reason"]) == ("blue", "answered")


async def test_each_run_of_a_thread_must_call_again(tmp_path: Path) -> None:
    model = FakeModel(
        says("", call("list_directory")), says("a"), says("", call("list_directory")), says("b")
    )
    bench, _ = await ran(tmp_path, model)
    await bench.run("again", strategy="tool-first")
    assert model.must_call == [True, False, True, False]


def test_a_note_does_not_pass_for_the_persons_message() -> None:
    asked = HumanMessage("do it")
    rest = [AIMessage("hm"), note(load_prompt("empty_reply"))]
    assert since_question([HumanMessage("old"), asked, *rest]) == [asked, *rest]
    assert since_question(rest) == []
