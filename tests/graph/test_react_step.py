"""One step for a client that runs the tools: what a reply means, and what the model is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import SystemMessage
from tests.fakes import FakeModel, says

from lockstitch.graph.react_step import (
    CUT,
    Asked,
    ClientTurn,
    Step,
    ToolCall,
    described_tools,
    react_step,
    read_step,
)
from lockstitch.graph.strategies.text_values import render_call

TOOLS = "- read_file(path: string, limit=500)\n  reads a file\n- list_directory(path)\n"


def asked(*turns: ClientTurn, **changes: object) -> Asked:
    given: dict[str, object] = {"tools": TOOLS, "context": "", "steps_left": 3, "prompt_tokens": 10_000}
    return Asked(history=turns or [ClientTurn(role="user", content="Go.")], **(given | changes))  # type: ignore[arg-type]


def step_of(text: str) -> Step:
    return read_step(text, described_tools(TOOLS))


def test_an_action_is_proposed_with_the_models_own_text_for_it() -> None:
    step = step_of('Thought: I look.\nAction: read_file(path="a.py",\n  limit=20)\n')
    assert step.thought == "I look."
    assert step.action == ToolCall(
        tool="read_file", args={"path": "a.py", "limit": 20}, raw='read_file(path="a.py",\n  limit=20)'
    )
    assert step.answer is None


def test_an_argument_without_a_name_finds_it_in_the_clients_description() -> None:
    assert step_of('Action: read_file("a.py", 20)').action.args == {"path": "a.py", "limit": 20}


def test_a_tool_that_is_not_described_can_be_named_all_the_same() -> None:
    assert step_of('Action: deploy(target="prod")').action.tool == "deploy"


def test_of_several_actions_the_first_is_proposed() -> None:
    step = step_of('Action: list_directory(path=".")\nAction: read_file(path="a.py")')
    assert step.action.tool == "list_directory"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Thought: Easy.\nAnswer: It is done.", "It is done."),
        ("It is done.", "It is done."),
        ("Action: read_file(path=", "Action: read_file(path="),
        ('Action: read_file("a", "b", "c")', 'Action: read_file("a", "b", "c")'),
        ("Thought: hm", "Thought: hm"),
    ],
)
def test_what_cannot_be_read_as_an_action_is_an_answer(text: str, answer: str) -> None:
    step = step_of(text)
    assert (step.action, step.answer) == (None, answer)


@given(st.text(max_size=200))
def test_no_reply_is_neither_action_nor_answer(text: str) -> None:
    step = step_of(text)
    assert (step.action is None) != (step.answer is None)


@given(st.dictionaries(st.sampled_from(["path", "limit"]), st.integers() | st.text(), min_size=1))
def test_an_action_is_read_as_it_was_written(args: dict[str, object]) -> None:
    written = render_call("read_file", args)
    assert step_of(f"Action: {written}").action == ToolCall(tool="read_file", args=args, raw=written)


async def test_the_model_is_told_tools_context_and_the_conversation_in_order() -> None:
    model = FakeModel(says("Done."))
    call = ToolCall(tool="read_file", args={"path": "a.py"})
    turns = (
        ClientTurn(role="user", content="Go."),
        ClientTurn(role="assistant", content="I look.", call=call),
        ClientTurn(role="tool_observation", content="x = 1"),
    )
    await react_step(asked(*turns, context="A Python project."), model)
    (prompt,) = model.prompts
    assert isinstance(prompt[0], SystemMessage)
    assert TOOLS.strip() in prompt[0].text
    assert "Replies left: 3" in prompt[0].text
    assert [message.text for message in prompt[1:]] == [
        "A Python project.",
        "Go.",
        'I look.\nAction: read_file(path="a.py")',
        'Observation of read_file(path="a.py"): x = 1',
    ]
    assert model.tools == [[]]


async def test_a_conversation_that_is_too_long_loses_its_beginning_and_says_so() -> None:
    model = FakeModel(says("Done."))
    turns = [ClientTurn(role="user", content=f"{n} " + "x" * 1000) for n in range(20)]
    await react_step(asked(*turns, prompt_tokens=1500), model)
    texts = [message.text for message in model.prompts[0][1:]]
    assert texts[0] == CUT
    assert texts[-1] == turns[-1].content
    assert len(texts) < len(turns)


async def test_the_last_turn_is_always_told() -> None:
    model = FakeModel(says("Done."))
    await react_step(asked(ClientTurn(role="user", content="x" * 1000), prompt_tokens=1), model)
    assert model.prompts[0][-1].text == "x" * 1000
