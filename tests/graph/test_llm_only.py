"""The strategy for models without native tool calling: a fake model that only writes text."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.catalogue import ModelFacts
from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.port import ChatModelPort
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.graph.models.scenario import Scenario
from lockstitch.graph.models.scripted import ScriptedChatModel
from lockstitch.graph.note import is_note
from lockstitch.graph.strategies import registry
from lockstitch.graph.strategies.llm_only import LlmOnly, describe_tools, prompt_with_protocol
from lockstitch.graph.strategies.protocol import Turn
from lockstitch.state.run_state import CallOutcome

TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "description": "Paint a thing.\n\nNot for walls.\n" + "more\n" * 20,
        "parameters": {
            "properties": {
                "what": {"type": "string", "description": "its name"},
                "colour": {"enum": ["red", "blue"], "default": "red"},
                "sizes": {"type": "array", "items": {"type": "integer"}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["what", "sizes"],
        },
    },
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STRATEGIES, "llm-only", LlmOnly())


async def run(bench: Bench, given: Any) -> dict[str, Any]:
    return await bench.run(given, strategy="llm-only")


def turn(model: Any, *messages: Any) -> Turn:
    looked_at = SimpleNamespace(prompt=messages, model=model, tools=[TOOL])  # all that this strategy looks at
    return cast("Turn", looked_at)


def outcome(tool: str, output: str) -> CallOutcome:
    return CallOutcome(id="x", tool=tool, success=True, output=output, time_ms=0.0)


def observations(state: dict[str, Any]) -> list[str]:
    told = [m.text for m in state["messages"][1:] if isinstance(m, HumanMessage)]
    return [text for text in told if text.startswith("Observation of ")]


async def test_a_run_writes_reads_and_answers_in_text(tmp_path: Path) -> None:
    model = FakeModel(
        says('Thought: I write it.\nAction: write_file(path="a.txt", content="""one\n"two"\n""")'),
        says("Action: read_file('a.txt')"),
        says("Thought: It is there.\nAnswer: a.txt holds two lines."),
    )
    bench = Bench(tmp_path, model)
    state = await run(bench, "write a file")
    assert (bench.workspace / "a.txt").read_text() == 'one\n"two"\n'
    assert (state["reason"], state["final_answer"]) == ("answered", "a.txt holds two lines.")
    assert [type(m) for m in state["messages"][:5]] == [
        *(HumanMessage, AIMessage, HumanMessage, AIMessage, HumanMessage)
    ]
    assert observations(state)[1].startswith('Observation of read_file(path="a.txt"): ')
    assert '"two"' in observations(state)[1]
    assert [[c["tool"] for c in r["calls"]] for r in state["steps"]] == [["write_file"], ["read_file"], []]
    assert model.tools == [[], [], []]
    assert not any(m.tool_calls for m in state["messages"] if isinstance(m, AIMessage))


async def test_a_scripted_model_that_is_bound_no_tools_plays_text_turns(tmp_path: Path) -> None:
    scenario = Scenario.model_validate(
        {
            "name": "text",
            "without_tools": "turns",
            "turns": [
                {"say": 'Action: write_file(path="a.txt", content="one")'},
                {"say": 'Action: read_file(path="a.txt")'},
                {"say": "Answer: done"},
            ],
        }
    )
    port = ChatModelPort(ScriptedChatModel(scenario=scenario), ModelChoice("scripted", "text"))
    breaker = Breaker(monotonic=lambda: 0.0)
    router = ModelRouter([Link(port, ModelFacts())], tier="balanced", retries=0, breaker=breaker)

    class Models(FakeModel):
        def open(self, wish: Any, **kind: Any) -> Any:
            return router

    bench = Bench(tmp_path, Models())
    state = await run(bench, "write a file")
    assert (bench.workspace / "a.txt").read_text() == "one"
    assert state["final_answer"] == "done"


async def test_each_prompt_is_the_one_before_plus_an_ending(tmp_path: Path) -> None:
    model = FakeModel(
        says("Action: list_directory()"),
        says("Action: list_directory("),
        says("Action: list_directory()\nObservation: nothing"),
        says(""),
        says("Answer: ok"),
    )
    await run(Bench(tmp_path, model), "look around")
    assert len(model.prompts) == 5
    for earlier, later in zip(model.prompts, model.prompts[1:], strict=False):
        assert later[: len(earlier)] == earlier
        assert later[0] is earlier[0]


async def test_an_unreadable_reply_is_told_and_the_loop_goes_on(tmp_path: Path) -> None:
    unreadable = ["Action: read_file(path=a.txt)", 'Action: read_file("a.txt', "Thought: hm"]
    bench = Bench(tmp_path, FakeModel(*map(says, unreadable), says("Answer: sorry")))
    state = await run(bench, "go")
    assert (state["reason"], state["final_answer"]) == ("answered", "sorry")
    assert len(observations(state)) == 3
    for told, why in zip(
        observations(state), ["must stand in quotes", "never closed", "neither"], strict=True
    ):
        assert told.startswith("Observation of your reply: Error: ")
        assert why in told
        assert 'Action: tool(name="value"' in told


async def test_an_empty_reply_is_asked_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says(" "), says("now")))
    assert (await run(bench, "go"))["final_answer"] == "now"


async def test_calls_before_a_broken_one_are_made_and_both_are_told(tmp_path: Path) -> None:
    reply = 'Action: write_file(path="a", content="x")\nAction: read_file("a'
    bench = Bench(tmp_path, FakeModel(says(reply), says("ok")))
    state = await run(bench, "go")
    assert (bench.workspace / "a").read_text() == "x"
    told = observations(state)[0]
    assert told.startswith('Observation of write_file(path="a", content="x"): ')
    assert "\n\nObservation of your reply: Error: " in told


async def test_unknown_tools_and_wrong_arguments_are_observations(tmp_path: Path) -> None:
    reply = 'Action: read_fil("a")\nAction: read_file(colour="red")\nAction: get_tasks(1, 2)'
    state = await run(Bench(tmp_path, FakeModel(says(reply), says("ok"))), "go")
    unknown, wrong, many = observations(state)[0].split("\n\n")
    assert "Did you mean read_file" in unknown
    assert "colour" in wrong
    assert "get_tasks: it takes 0 arguments" in many
    assert state["reason"] == "answered"


async def test_results_that_the_model_made_up_are_not_kept(tmp_path: Path) -> None:
    model = FakeModel(says("Action: list_directory()\nObservation: secrets.txt\nAnswer: I saw"), says("ok"))
    state = await run(Bench(tmp_path, model), "look")
    assert state["messages"][1].text == "Action: list_directory()"
    assert "secrets.txt" not in observations(state)[0]
    assert state["final_answer"] == "ok"


async def test_a_command_waits_for_a_person_and_its_result_is_an_observation(tmp_path: Path) -> None:
    model = FakeModel(says('Action: run_command(command="echo hi > out.txt")'), says("ok"))
    bench = Bench(tmp_path, model)
    state = await run(bench, "go")
    assert state["phase"] == "waiting"
    state = await run(bench, Command(resume={"decisions": [{"type": "approve"}]}))
    assert (bench.workspace / "out.txt").read_text() == "hi\n"
    assert "Exit code: 0" in observations(state)[0]


async def test_native_calls_of_a_model_that_was_bound_none_are_dropped() -> None:
    raw = says("Answer: 42", call("paint", what="it"))
    raw.additional_kwargs["tool_calls"] = [{"id": "c1"}]
    thought = await LlmOnly().think(turn(FakeModel(raw), HumanMessage("?")))
    assert (thought.answer, thought.calls) == ("42", [])
    assert (thought.reply.tool_calls, thought.reply.additional_kwargs) == ([], {})
    assert thought.reply.usage_metadata == raw.usage_metadata


async def test_results_are_one_message_in_the_order_of_the_calls() -> None:
    reply = AIMessage('Action: paint("a", sizes=[1])\nAction: paint("b")')
    seen = await LlmOnly().observe(
        turn(FakeModel(), reply), [outcome("paint", "first"), outcome("paint", "Error: no")]
    )
    assert [m.text for m in seen.messages] == [
        'Observation of paint(what="a", sizes=[1]): first\n\nObservation of paint(what="b"): Error: no'
    ]
    assert all(isinstance(m, HumanMessage) and is_note(m) for m in seen.messages)


async def test_a_long_call_is_clipped_in_front_of_its_result() -> None:
    reply = AIMessage(f'Action: paint("{"x" * 5_000}")')
    seen = await LlmOnly().observe(turn(FakeModel(), reply), [outcome("paint", "ok")])
    assert len(seen.messages[0].text) < 200
    assert seen.messages[0].text.endswith("…): ok")


async def test_results_that_fit_no_call_of_the_reply_are_told_by_tool() -> None:
    seen = await LlmOnly().observe(turn(FakeModel(), AIMessage("hm")), [outcome("paint", "ok")])
    assert seen.messages[0].text == "Observation of paint(…): ok"


def test_the_protocol_stands_at_the_end_of_the_system_message() -> None:
    prompt = [SystemMessage("You are."), HumanMessage("go")]
    first = prompt_with_protocol(prompt, [TOOL])
    assert first[0].text.startswith("You are.\n\nHow you call tools:")
    assert "\npaint(" in first[0].text
    assert first[1:] == prompt[1:]
    assert prompt_with_protocol(prompt, [TOOL])[0] is first[0]


def test_a_prompt_without_a_system_message_gets_one() -> None:
    made = prompt_with_protocol([HumanMessage("go")], [])
    assert [type(m) for m in made] == [SystemMessage, HumanMessage]
    assert "answer without them" in made[0].text


def test_a_tool_is_described_by_its_arguments_types_and_first_lines() -> None:
    lines = describe_tools([TOOL]).splitlines()
    assert lines[0] == (
        'paint(what: string, colour: "red" or "blue" = "red", sizes: list of integer, '
        "note: string or null = null)"
    )
    assert lines[1:3] == ["  Paint a thing.", "  Not for walls."]
    assert lines[-1] == "  what: its name"
    assert len(lines) < 12
