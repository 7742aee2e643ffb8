"""What the model is shown, and the repair of a conversation that was cut off."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from lockstitch.graph.conversation import (
    INTERRUPTED,
    answers_at_hand,
    new_part,
    prompt_for,
    repair_unanswered,
)
from lockstitch.state.run_state import merge_messages


def human(text: str) -> HumanMessage:
    return HumanMessage(text, id=f"h-{text}")


def asks(*ids: str) -> AIMessage:
    calls = [{"name": "read_file", "args": {}, "id": one} for one in ids]
    return AIMessage("", id="ai-" + "".join(ids), tool_calls=calls)


def says(text: str) -> AIMessage:
    return AIMessage(text, id=f"ai-{text}")


def answer(to: str) -> ToolMessage:
    return ToolMessage("done", tool_call_id=to, id=f"t-{to}")


def repaired(messages: list[AnyMessage]) -> list[AnyMessage]:
    return merge_messages(messages, [repair_unanswered(messages, {})])


def shape(messages: list[AnyMessage]) -> list[str]:
    """`h1`, `a` and `+b` for an answer to b, `!b` for the one that the repair gave."""
    made = {"human": lambda m: m.text, "ai": lambda m: m.id[3:], "system": lambda m: "system"}
    return [
        f"{'!' if m.text == INTERRUPTED else '+'}{m.tool_call_id}"
        if isinstance(m, ToolMessage)
        else made[m.type](m)
        for m in messages
    ]


def assert_answered_in_place(messages: list[AnyMessage]) -> None:
    """After each message with calls come the answers to all of them, and answers come nowhere else."""
    open_ids: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in open_ids
            open_ids.discard(message.tool_call_id)
            continue
        assert not open_ids
        if isinstance(message, AIMessage):
            open_ids = {call["id"] for call in message.tool_calls}
    assert not open_ids


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [human("h1")],
        [human("h1"), says("a")],
        [human("h1"), asks("c"), answer("c")],
        [human("h1"), asks("c"), answer("c"), says("a"), human("h2")],
    ],
)
def test_where_nothing_is_open_nothing_is_written(messages: list[AnyMessage]) -> None:
    assert repair_unanswered(messages, {}) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([human("h1"), asks("c")], "h1 c !c"),
        ([human("h1"), asks("c", "d")], "h1 cd !c !d"),
        ([human("h1"), asks("c", "d"), answer("c")], "h1 cd +c !d"),
        ([human("h1"), asks("c", "d"), answer("d")], "h1 cd +d !c"),
        ([human("h1"), asks("c"), human("h2")], "h1 c !c h2"),
        ([human("h1"), asks("c", "d"), answer("c"), human("h2"), human("h3")], "h1 cd +c !d h2 h3"),
        ([human("h1"), asks("c"), human("h2"), human("h3")], "h1 c !c h2 h3"),
        ([human("h1"), asks("c"), says("stopped"), human("h2")], "h1 c !c stopped h2"),
        ([human("h1"), asks("b"), answer("b"), asks("c"), human("h2")], "h1 b +b c !c h2"),
    ],
)
def test_an_open_call_is_answered_in_its_place(messages: list[AnyMessage], expected: str) -> None:
    after = repaired(messages)
    assert shape(after) == expected.split()
    assert_answered_in_place(after)


def test_the_answer_says_that_the_result_is_unknown() -> None:
    (made,) = repair_unanswered([human("h1"), asks("c")], {})
    assert isinstance(made, ToolMessage)
    assert (made.status, made.name, made.text) == ("error", "read_file", INTERRUPTED)


def test_a_call_without_arguments_yet_is_shown_to_no_model_twice() -> None:
    once = repaired([human("h1"), asks("c"), human("h2")])
    assert [m.id for m in once].count("h-h2") == 1


@st.composite
def cut_off(draw: st.DrawFn) -> list[AnyMessage]:
    """Whole steps, then a last one of which only some calls were answered, then words of the person."""
    messages: list[AnyMessage] = [human("h0")]
    for step in range(draw(st.integers(0, 3))):
        ids = [f"s{step}c{n}" for n in range(draw(st.integers(0, 3)))]
        messages += [asks(*ids) if ids else says(f"s{step}"), *(answer(one) for one in ids)]
    ids = [f"last{n}" for n in range(draw(st.integers(1, 4)))]
    done = draw(st.lists(st.sampled_from(ids), unique=True))
    late = [human(f"late{n}") for n in range(draw(st.integers(0, 3)))]
    return [*messages, asks(*ids), *(answer(one) for one in done), *late]


@settings(max_examples=100, deadline=None)
@given(cut_off())
def test_any_cut_off_conversation_is_repaired_once_and_for_all(messages: list[AnyMessage]) -> None:
    after = repaired(messages)
    assert_answered_in_place(after)
    assert repair_unanswered(after, {}) == []
    assert [m for m in after if m in messages and not isinstance(m, ToolMessage)] == [
        m for m in messages if not isinstance(m, ToolMessage)
    ]
    assert {m.id for m in messages} <= {m.id for m in after}


def test_new_is_what_came_since_the_model_last_spoke() -> None:
    history = [human("h1"), asks("c"), answer("c"), human("h2")]
    assert shape(new_part(history)) == ["+c", "h2"]
    assert shape(new_part([human("h1")])) == ["h1"]
    assert new_part([human("h1"), says("a")]) == []


def test_a_prompt_is_the_one_before_plus_an_ending() -> None:
    history: list[AnyMessage] = [human("h1"), asks("c")]
    short, long = prompt_for(history, workspace="/w"), prompt_for([*history, answer("c")], workspace="/w")
    assert isinstance(short[0], SystemMessage)
    assert "/w" in short[0].text
    assert long[: len(short)] == short


def test_a_folder_with_braces_in_its_name_is_shown_as_it_is() -> None:
    assert "/w/{x}" in prompt_for([], workspace="/w/{x}")[0].text


def test_a_result_at_hand_answers_the_call_that_was_cut_off() -> None:
    outcome = {"id": "c", "tool": "t", "success": True, "output": "it was made", "time_ms": 1.0}
    (made,) = repair_unanswered([human("h1"), asks("c")], answers_at_hand({"outcomes": [outcome]}))  # type: ignore[typeddict-item, list-item]
    assert (made.text, made.status) == ("it was made", "success")  # type: ignore[union-attr]


def test_a_call_that_nobody_approved_is_told_as_never_made() -> None:
    waits = {"id": "c", "tool": "t", "args": {}, "verdict": "ask", "note": ""}
    (made,) = repair_unanswered([human("h1"), asks("c")], answers_at_hand({"calls": [waits]}))  # type: ignore[typeddict-item, list-item]
    assert "was not made" in str(made.content)
