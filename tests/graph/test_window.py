"""How full the window is: estimates, the decision, the figures for people."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from lockstitch.graph.memory.window import (
    chars_of,
    estimate_tokens,
    new_chars,
    prompt_tokens,
    should_compact,
)
from lockstitch.graph.note import notice

CALL = {"name": "t", "args": {"path": "a"}, "id": "c"}
HISTORY = [HumanMessage("go"), AIMessage("abc", tool_calls=[CALL]), ToolMessage("x" * 30, tool_call_id="c")]


@pytest.mark.parametrize(("chars", "tokens"), [(0, 0), (1, 1), (3, 1), (4, 2)])
def test_tokens_are_rather_too_many(chars: int, tokens: int) -> None:
    assert estimate_tokens(chars) == tokens


@pytest.mark.parametrize(
    ("context", "chars", "due"), [(800, 0, False), (800, 1, True), (0, 2_400, False), (0, 2_401, True)]
)
def test_the_share_of_the_window_may_be_reached_and_not_passed(context: int, chars: int, due: bool) -> None:
    assert should_compact(context, chars, 1_000, 0.8) is due


def test_texts_other_content_and_arguments_are_counted_and_notices_are_not() -> None:
    assert chars_of(HISTORY[1:2]) == len("abc") + len('{"path": "a"}')
    assert chars_of([notice("for people")]) == 0
    assert chars_of([HumanMessage([{"type": "text", "text": "abc"}])]) > 3


def test_only_what_came_since_the_last_reply_is_estimated() -> None:
    assert new_chars(HISTORY) == 30
    assert prompt_tokens(500, HISTORY) == 510


def test_where_nothing_was_counted_everything_is_estimated() -> None:
    assert prompt_tokens(0, HISTORY) == estimate_tokens(chars_of(HISTORY))
