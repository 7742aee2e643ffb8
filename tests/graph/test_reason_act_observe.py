"""reason-act-observe from a prompt to its end: real tools, a fake model."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.note import is_note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.reason_act_observe import OBSERVED, ReasonActObserve, fill, reworded
from lockstitch.graph.strategies.registry import STRATEGIES

NAME = "reason-act-observe"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, NAME, ReasonActObserve())


def reasons(text: str = "I look.", *, plan: str = "list it", finish: bool = False) -> AIMessage:
    block = json.dumps({"plan": plan, "tools_to_consider": ["list_directory"], "finish": finish})
    return says(f"{text}\n```json\n{block}\n```")


def acts(*calls: dict[str, Any]) -> AIMessage:
    return says("", *(calls or [call("list_directory")]))


def observes(seen: str = "It is empty.", *, goes_on: bool = True, answer: str | None = None) -> AIMessage:
    return says(json.dumps({"observation": seen, "should_continue": goes_on, "final_answer": answer}))


async def ran(tmp_path: Path, model: FakeModel, **settings: Any) -> tuple[Bench, dict[str, Any]]:
    bench = Bench(tmp_path, model, **settings)
    return bench, await bench.run("What is there?", strategy=NAME)


def kinds(state: dict[str, Any]) -> list[str]:
    return [m.type for m in state["messages"]]


async def test_three_calls_a_step_and_the_observation_ends_the_run(tmp_path: Path) -> None:
    model = FakeModel(reasons(), acts(), observes(goes_on=False, answer="Nothing is there."))
    bench, state = await ran(tmp_path, model)
    assert model.tools[0] == ["agent_decide_next"]
    assert "list_directory" in model.tools[1]
    assert "agent_decide_next" not in model.tools[1]
    assert model.tools[2] == ["agent_observe_decide"]
    assert (state["reason"], state["final_answer"]) == ("finished", "Nothing is there.")
    assert [m.text for m in state["messages"]][::3] == ["What is there?", "Nothing is there."]
    assert kinds(state) == ["human", "ai", "tool", "ai"]
    assert state["messages"][1].text == "I look."
    assert (state["input_tokens"], state["steps"][0]["thought"]) == (30, "I look.")
    assert [t for t in bench.types() if t not in ("agent_state", "agent_usage")] == [
        "agent_start",
        "agent_turn_start",
        "agent_reason",
        "agent_tool_start",
        "agent_tool_complete",
        "agent_observe",
        "agent_answer",
        "agent_completion",
    ]


async def test_reasoning_may_finish_with_its_text_or_its_plan(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(reasons("Nothing to do.", finish=True)))
    assert (state["reason"], state["final_answer"], kinds(state)) == (
        "finished",
        "Nothing to do.",
        ["human", "ai"],
    )
    _, state = await ran(tmp_path, FakeModel(reasons("", plan="Say hello.", finish=True)))
    assert state["final_answer"] == "Say hello."


async def test_a_finish_without_words_is_none(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(reasons("", plan="", finish=True), says("Here I am.")))
    assert (state["reason"], state["final_answer"]) == ("answered", "Here I am.")


async def test_the_observation_is_a_note_and_reaches_the_next_reasoning(tmp_path: Path) -> None:
    model = FakeModel(reasons(), acts(), observes("It is {tools}."), reasons("Enough.", plan="", finish=True))
    bench, state = await ran(tmp_path, model)
    noted = state["messages"][3]
    assert (noted.text, is_note(noted)) == (f"{OBSERVED}It is {{tools}}.", True)
    assert kinds(state) == ["human", "ai", "tool", "human", "ai"]
    asked = model.prompts[3][-1].text
    assert "What you observed last: It is {tools}.\n" in asked
    assert "The question: What is there?\n" in asked
    assert "(step 2 of 10)" in asked
    assert "- list_directory: " in asked
    assert [e["content"] for e in bench.of_type("agent_observe")] == ["It is {tools}."]


async def test_every_prompt_begins_with_the_whole_stored_history(tmp_path: Path) -> None:
    cycle = [reasons(), acts(), observes()]
    model = FakeModel(*cycle, *cycle, reasons("End.", finish=True))
    _, state = await ran(tmp_path, model)
    stored = state["messages"]
    for prompt in model.prompts:
        history = prompt[1:-1]  # without the system prompt and what the phase is told
        assert history == stored[: len(history)]
    lengths = [len(prompt) for prompt in model.prompts]
    assert lengths == sorted(lengths)


async def test_internal_tools_carry_the_blocks_and_are_never_stored(tmp_path: Path) -> None:
    raw = {"tool_calls": [{"id": "r", "function": {"name": "agent_decide_next", "arguments": "{}"}}]}
    reasoned = AIMessage(
        "", tool_calls=[call("agent_decide_next", plan="list it", finish=False)], additional_kwargs=raw
    )
    observed = call("agent_observe_decide", observation="x", should_continue=False, final_answer="Empty.")
    model = FakeModel(reasoned, acts(), says("", observed))
    bench, state = await ran(tmp_path, model)
    assert (state["reason"], state["final_answer"]) == ("finished", "Empty.")
    assert [c["name"] for m in state["messages"] if m.type == "ai" for c in m.tool_calls] == [
        "list_directory"
    ]
    assert state["messages"][1].text == "list it"
    assert len(bench.of_type("agent_tool_start")) == 1


async def test_a_finishing_internal_call_is_not_stored_either(tmp_path: Path) -> None:
    raw = {"tool_calls": [{"id": "r", "function": {"name": "agent_decide_next", "arguments": "{}"}}]}
    reasoned = AIMessage(
        "", tool_calls=[call("agent_decide_next", plan="Hello.", finish=True)], additional_kwargs=raw
    )
    _, state = await ran(tmp_path, FakeModel(reasoned))
    last = state["messages"][-1]
    assert (last.text, last.tool_calls, last.additional_kwargs) == ("Hello.", [], {})


async def test_calls_in_a_phase_without_tools_are_not_made(tmp_path: Path) -> None:
    write = call("write_file", path="a", content="b")
    model = FakeModel(says("I write.", write), acts(), says("Seen.", write), reasons("End.", finish=True))
    bench, state = await ran(tmp_path, model)
    assert list(bench.workspace.iterdir()) == []
    assert kinds(state) == ["human", "ai", "tool", "human", "ai"]
    assert [c["name"] for c in state["messages"][1].tool_calls] == ["list_directory"]


async def test_internal_calls_in_the_acting_phase_are_dropped(tmp_path: Path) -> None:
    act = acts(call("agent_decide_next", finish=True), call("list_directory", id="c2"))
    _, state = await ran(tmp_path, FakeModel(reasons(), act, observes(goes_on=False, answer="ok")))
    assert [c["id"] for c in state["messages"][1].tool_calls] == ["c2"]


async def test_one_call_a_step_unless_the_setting_says_more(tmp_path: Path) -> None:
    both = [call("list_directory", id="a"), call("get_tasks", id="b")]
    _, state = await ran(tmp_path, FakeModel(reasons(), acts(*both), observes(goes_on=False, answer="ok")))
    assert kinds(state) == ["human", "ai", "tool", "ai"]
    model = FakeModel(reasons(), acts(*both), observes(goes_on=False, answer="ok"))
    _, state = await ran(tmp_path, model, one_call=False)
    assert kinds(state) == ["human", "ai", "tool", "tool", "ai"]


@pytest.mark.parametrize("broken", ["no block", '{"plan": "x", "finish": tr', "{'finish': True}"])
async def test_a_missing_or_broken_block_is_free_text_and_the_run_goes_on(
    tmp_path: Path, broken: str
) -> None:
    model = FakeModel(says(broken), acts(), says(broken), reasons("End.", finish=True))
    _, state = await ran(tmp_path, model)
    assert broken in model.prompts[1][-1].text
    assert [m.text for m in state["messages"]][1::2] == [broken, OBSERVED + broken]
    assert (state["reason"], len(state["steps"])) == ("finished", 2)


async def test_an_empty_observation_stores_no_note(tmp_path: Path) -> None:
    model = FakeModel(reasons(), acts(), says(""), reasons("End.", finish=True))
    bench, state = await ran(tmp_path, model)
    assert kinds(state) == ["human", "ai", "tool", "ai"]
    assert bench.of_type("agent_observe")[0]["content"] == "list_directory ok"


async def test_an_end_without_words_is_none(tmp_path: Path) -> None:
    model = FakeModel(reasons(), acts(), observes("", goes_on=False), reasons("End.", finish=True))
    _, state = await ran(tmp_path, model)
    assert state["final_answer"] == "End."


async def test_text_without_a_call_in_the_acting_phase_is_the_answer(tmp_path: Path) -> None:
    _, state = await ran(tmp_path, FakeModel(reasons(), says("It is empty.")))
    assert (state["reason"], state["final_answer"]) == ("answered", "It is empty.")
    assert kinds(state) == ["human", "ai"]
    assert state["input_tokens"] == 20


async def test_an_empty_act_is_asked_again(tmp_path: Path) -> None:
    model = FakeModel(reasons(), says(""), reasons(), says("It is empty."))
    _, state = await ran(tmp_path, model)
    assert "The question: What is there?\n" in model.prompts[2][-1].text
    assert state["final_answer"] == "It is empty."


async def test_a_tool_error_is_observed(tmp_path: Path) -> None:
    broken = {"name": "read_file", "args": "{", "id": "x", "error": "bad", "type": "invalid_tool_call"}
    model = FakeModel(
        reasons(),
        acts(call("read_file", path="none")),
        observes("There is no such file."),
        reasons(),
        AIMessage("", invalid_tool_calls=[broken]),  # type: ignore[list-item]
        observes("I wrote bad JSON.", goes_on=False, answer="I cannot."),
    )
    bench, state = await ran(tmp_path, model)
    assert [m.status for m in state["messages"] if m.type == "tool"] == ["error", "error"]
    assert model.prompts[2][-2].type == "tool"
    assert len(bench.of_type("agent_tool_error")) == 2
    assert (state["reason"], state["final_answer"]) == ("finished", "I cannot.")


async def test_step_limit_sums_up(tmp_path: Path) -> None:
    model = FakeModel(reasons(), acts(), observes(), says("All is left."))
    _, state = await ran(tmp_path, model, max_steps=1)
    assert (state["reason"], len(state["steps"])) == ("step_limit", 1)
    assert "All is left." in state["final_answer"]


async def test_a_question_pauses_and_its_answer_is_observed(tmp_path: Path) -> None:
    model = FakeModel(
        reasons(), acts(call("request_input", question="Red?")), observes(goes_on=False, answer="Blue.")
    )
    bench, state = await ran(tmp_path, model)
    assert (state["phase"], len(model.prompts)) == ("waiting", 2)
    state = await bench.run(Command(resume="blue"), strategy=NAME)
    assert (state["messages"][2].text, state["final_answer"]) == ("blue", "Blue.")


async def test_the_next_run_sees_the_answer_and_no_old_observation(tmp_path: Path) -> None:
    end = observes(goes_on=False, answer="Old.")
    model = FakeModel(reasons(), acts(), observes(), reasons(), acts(), end, reasons("New.", finish=True))
    bench, _ = await ran(tmp_path, model)
    await bench.run("And now?", strategy=NAME)
    assert [m.text for m in model.prompts[-1][-3:-1]] == ["Old.", "And now?"]
    assert "What you observed last: nothing yet\n" in model.prompts[-1][-1].text


async def test_prompts_can_be_replaced(tmp_path: Path) -> None:
    own = tmp_path / "prompts"
    own.mkdir()
    for name in ("reason", "act", "observe"):
        (own / f"{name}.md").write_text(f'{name} {{question}} {{unknown}} {{"a": 1}} {{\n')
    model = FakeModel(reasons(), acts(), observes(goes_on=False, answer="ok"))
    await ran(tmp_path, model, prompts=own)
    told = [prompt[-1].text for prompt in model.prompts]
    assert told == [
        f'{name} What is there? {{unknown}} {{"a": 1}} {{' for name in ("reason", "act", "observe")
    ]


@pytest.mark.parametrize("name", ["reason", "act", "observe"])
def test_every_field_of_the_shipped_prompts_is_filled(name: str) -> None:
    fields = dict.fromkeys(("question", "observation", "step", "max_steps", "tools", "files", "plan"), "{x}")
    text = fill(load_prompt(name), fields)
    assert "{question}" not in text
    assert "{x}" in text


def test_thinking_blocks_of_the_acting_reply_are_kept() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    reply = AIMessage([thinking, {"type": "text", "text": "old"}])
    assert reworded(reply, "new", ()).content == [thinking, {"type": "text", "text": "new"}]
