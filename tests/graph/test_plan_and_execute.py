"""plan-and-execute from a prompt to its end: real tools, a fake model."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.plan_and_execute import (
    WHY_ANSWERED,
    WHY_FAILED,
    WHY_GIVEN_UP,
    PlanAndExecute,
    gives_up,
)
from lockstitch.graph.strategies.registry import STRATEGIES

PLAN = load_prompt("plan_tasks")
NAME = "plan-and-execute"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, NAME, PlanAndExecute())


def plans(*tasks: str) -> AIMessage:
    return says("", call("create_tasks", tasks=list(tasks)))


def done(task_id: str) -> AIMessage:
    return says("", call("update_task_status", task_id=task_id, status="completed"))


def fails() -> AIMessage:
    return says("", call("read_file", path="none"))


async def ran(tmp_path: Path, model: FakeModel, **context: Any) -> tuple[Bench, dict[str, Any]]:
    bench = Bench(tmp_path, model)
    return bench, await bench.run("build it", strategy=NAME, **context)


def notes(state: dict[str, Any]) -> list[str]:
    return [m.text for m in state["messages"][1:] if m.type == "human"]


def grow(model: FakeModel) -> bool:
    pairs = zip(model.prompts, model.prompts[1:], strict=False)
    return all(later[: len(earlier)] == earlier for earlier, later in pairs)


async def test_the_list_comes_first_and_then_item_by_item(tmp_path: Path) -> None:
    model = FakeModel(plans("one", "two"), done("1"), done("2"), says("All done."))
    bench, state = await ran(tmp_path, model)
    assert model.tools[0] == ["create_tasks"]
    assert "read_file" in model.tools[1]
    assert model.must_call == [True, False, False, False]
    told = notes(state)
    assert told[0] == PLAN
    assert [text.splitlines()[0] for text in told[1:]] == [
        "Work on item 1 now: one",
        "Work on item 2 now: two",
    ]
    assert (state["reason"], state["final_answer"]) == ("todos_completed", "All done.")
    assert [m.type for m in state["messages"]] == ["human", *["human", "ai", "tool"] * 3, "ai"]
    assert grow(model)
    assert [t for t in bench.types() if t not in ("agent_state", "agent_usage")] == [
        "agent_start",
        *["agent_turn_start", "agent_tool_start", "agent_tool_complete", "agent_todos", "agent_observe"] * 3,
        *["agent_turn_start", "agent_reason", "agent_answer", "agent_completion"],
    ]


async def test_an_item_is_named_once_while_it_stays_the_same(tmp_path: Path) -> None:
    look = call("list_directory")
    model = FakeModel(plans("one"), says("", look), says("", look), done("1"), says("ok"))
    _, state = await ran(tmp_path, model)
    assert len(notes(state)) == 2


async def test_the_item_in_progress_comes_before_an_earlier_open_one(tmp_path: Path) -> None:
    begin = says("", call("update_task_status", task_id="2", status="in_progress"))
    model = FakeModel(plans("one", "two"), begin, says("", call("get_tasks")), says("sum"))
    _, state = await ran(tmp_path, model, max_steps=3)
    assert ["item 1" in notes(state)[1], "item 2" in notes(state)[-1]] == [True, True]


async def test_a_refused_plan_leaves_no_trace_and_it_goes_on_as_react(tmp_path: Path) -> None:
    model = FakeModel(says("No list needed."), says("", call("list_directory")), says("Empty."))
    _, state = await ran(tmp_path, model)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert model.prompts[1] == model.prompts[0][:-1]
    assert "read_file" in model.tools[1]
    assert state["steps"][0]["input_tokens"] == 20
    assert state["reason"] == "answered"


async def test_an_answer_in_place_of_a_plan_ends_the_run(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(says("Hello."), says("Hello!")))
    assert (state["reason"], state["final_answer"]) == ("answered", "Hello!")


async def test_without_the_list_tools_it_is_react(tmp_path: Path) -> None:
    model = FakeModel(says("fine"))
    _, state = await ran(tmp_path, model, tools=["read_file", "create_tasks"])
    assert (state["final_answer"], model.must_call) == ("fine", [False])


async def test_two_failing_steps_in_a_row_ask_for_a_new_plan(tmp_path: Path) -> None:
    model = FakeModel(
        plans("one", "two"),
        done("1"),
        fails(),
        fails(),
        plans("one", "other"),
        fails(),
        says("x"),
        says("end"),
    )
    _, state = await ran(tmp_path, model)
    told = [text for text in notes(state) if text.startswith(WHY_FAILED)]
    assert len(told) == 1
    assert "Open items:\n- 2. two\nCompleted, to be kept:\n- 1. one\n" in told[0]
    assert model.prompts[4][-1].text == told[0]
    assert "create_tasks" in model.tools[4]
    assert model.prompts[5][-1].text.startswith("Work on item 1 now: one")
    assert grow(model)


async def test_one_failing_step_or_two_apart_ask_for_none(tmp_path: Path) -> None:
    look = says("", call("list_directory"))
    model = FakeModel(plans("one"), fails(), look, fails(), done("1"), says("ok"))
    _, state = await ran(tmp_path, model)
    assert len(notes(state)) == 2
    assert state["reason"] == "todos_completed"


async def test_failures_count_anew_after_a_directive_to_plan_again(tmp_path: Path) -> None:
    model = FakeModel(plans("one"), fails(), fails(), fails(), done("1"), says("ok"))
    _, state = await ran(tmp_path, model)
    assert sum(text.startswith(WHY_FAILED) for text in notes(state)) == 1


async def test_an_answer_to_a_directive_to_plan_again_is_final(tmp_path: Path) -> None:
    model = FakeModel(plans("one"), fails(), fails(), says("It cannot be done."))
    _, state = await ran(tmp_path, model)
    assert (state["reason"], state["final_answer"]) == ("answered", "It cannot be done.")


async def test_an_item_given_up_in_text_is_planned_again_in_the_same_step(tmp_path: Path) -> None:
    lost = says("Tried.\n**ITEM FAILED:** no compiler")
    model = FakeModel(plans("one"), lost, plans("other"), done("1"), says("ok"))
    _, state = await ran(tmp_path, model)
    assert model.prompts[2][-1].text.startswith(WHY_GIVEN_UP)
    assert [len(state["steps"]), state["steps"][1]["input_tokens"]] == [4, 20]
    assert [m.type for m in state["messages"]][4:9] == ["human", "ai", "human", "ai", "tool"]
    assert "Work on item 1 now: other" in notes(state)[-1]
    assert grow(model)


async def test_an_item_given_up_beside_a_call_is_planned_again_in_the_next_step(tmp_path: Path) -> None:
    lost = says("ITEM FAILED: no compiler", call("get_tasks"))
    model = FakeModel(plans("one"), lost, plans("other"), done("1"), says("ok"))
    _, state = await ran(tmp_path, model)
    assert [text.startswith(WHY_GIVEN_UP) for text in notes(state)] == [False, False, True, False]
    assert state["reason"] == "todos_completed"


async def test_an_answer_with_open_items_is_questioned_once(tmp_path: Path) -> None:
    model = FakeModel(plans("one"), says("Done."), says("I leave it open."))
    _, state = await ran(tmp_path, model)
    assert notes(state)[-1].startswith(WHY_ANSWERED)
    assert [m.text for m in state["messages"]][-3::2] == ["Done.", "I leave it open."]
    assert (state["reason"], state["final_answer"]) == ("answered", "I leave it open.")


async def test_the_same_open_items_are_not_questioned_twice(tmp_path: Path) -> None:
    model = FakeModel(plans("one"), says("Done."), says("", call("get_tasks")), says("Really done."))
    _, state = await ran(tmp_path, model)
    assert (state["reason"], state["final_answer"]) == ("answered", "Really done.")


async def test_an_empty_reply_while_items_are_open_is_no_answer(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(plans("one"), says(""), done("1"), says("ok")))
    assert load_prompt("empty_reply") in notes(state)
    assert state["reason"] == "todos_completed"


async def test_broken_calls_are_answered_and_the_run_goes_on(tmp_path: Path) -> None:
    broken = {"name": "create_tasks", "args": "[", "id": "x", "error": "bad", "type": "invalid_tool_call"}
    wrong = says("", call("create_tasks", tasks=7))
    model = FakeModel(AIMessage("", invalid_tool_calls=[broken]), wrong, plans("one"), done("1"), says("ok"))  # type: ignore[list-item]
    _, state = await ran(tmp_path, model)
    assert [m.status for m in state["messages"] if m.type == "tool"] == [
        "error",
        "error",
        "success",
        "success",
    ]
    assert state["reason"] == "todos_completed"


async def test_step_limit_sums_up(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(plans("one"), fails(), says("One is left.")), max_steps=2)
    assert state["reason"] == "step_limit"
    assert "One is left." in state["final_answer"]


async def test_a_question_pauses_and_the_item_stays(tmp_path: Path) -> None:
    ask = says("", call("request_input", question="Red?"))
    model = FakeModel(plans("one"), ask, done("1"), says("blue it is"))
    bench, state = await ran(tmp_path, model)
    assert state["phase"] == "waiting"
    state = await bench.run(Command(resume="blue"), strategy=NAME)
    assert state["reason"] == "todos_completed"
    assert len(notes(state)) == 2


async def test_the_next_run_goes_on_with_open_items(tmp_path: Path) -> None:
    model = FakeModel(plans("one"), says("sum"), done("1"), says("ok"))
    bench, _ = await ran(tmp_path, model, max_steps=1)
    state = await bench.run("go on", strategy=NAME)
    assert model.must_call == [True, False, False, False]
    assert notes(state)[-1].startswith("Work on item 1 now: one")
    assert state["reason"] == "todos_completed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ITEM FAILED: x", True),
        ("a\n- **ITEM FAILED:** x", True),
        ("write `ITEM FAILED:` to give up", False),
        ("", False),
    ],
)
def test_giving_up_is_a_line_that_begins_so(text: str, expected: bool) -> None:
    assert gives_up(says(text)) is expected
