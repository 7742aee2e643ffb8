"""The control blocks of reason-act-observe, however they come."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from tests.fakes import call, says

from lockstitch.graph.strategies.control_block import (
    BLOCK_CHARS,
    ObserveBlock,
    ReasonBlock,
    parse_observe,
    parse_reason,
)

PLAN = '{"plan": "read a.txt", "tools_to_consider": ["read_file"], "finish": false}'
READ = ReasonBlock(plan="read a.txt", tools_to_consider=("read_file",))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (PLAN, ""),
        (f"I think.\n```json\n{PLAN}\n```", "I think."),
        (f"I think.\n```\n{PLAN}\n```\nThat is all.", "I think.\nThat is all."),
        (f"I think. {PLAN}", "I think."),
        (f"Use {{x}} and {{'y': 1}}.\n{PLAN}", "Use {x} and {'y': 1}."),
        (f"```json\n{PLAN}", ""),
    ],
)
def test_block_is_read_and_cut_out_of_the_text(text: str, rest: str) -> None:
    assert parse_reason(says(text)) == (rest, READ)


def test_last_of_several_blocks_wins() -> None:
    text, block = parse_reason(says('{"plan": "first", "finish": true} no: {"plan": "second"}'))
    assert block == ReasonBlock(plan="second")
    assert text.startswith('{"plan": "first"')


def test_an_object_without_a_known_key_is_no_block() -> None:
    assert parse_reason(says(f'{PLAN} then call it with {{"path": "a"}}'))[1] == READ
    assert parse_reason(says('call it with {"path": "a"}')) == ('call it with {"path": "a"}', None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words",
        '{"plan": "cut off, "finish": tr',
        "{'plan': 'single quotes', 'finish': True}",
        '{"plan": "x", "finish": true,}',
        '[{"finsh": true}]',
        '{"plan":' * 5_000,
        "{" * 5_000,
        '{"plan": ' + "9" * 5_000 + "}",
    ],
)
def test_missing_or_broken_json_is_free_text(text: str) -> None:
    assert parse_reason(says(text)) == (text, None)


def test_a_broken_block_is_not_replaced_by_an_earlier_one() -> None:
    text = 'Before: {"plan": "x", "finish": true}. Now: {"plan": "go on", "finish": fal'
    assert parse_reason(says(text)) == (text, None)


def test_block_at_the_end_of_a_huge_text_is_found() -> None:
    text, block = parse_reason(says("a" * BLOCK_CHARS * 2 + PLAN))
    assert block == READ
    assert len(text) == BLOCK_CHARS * 2


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"finish": "true"}, ReasonBlock(finish=True)),
        ({"finish": "perhaps"}, ReasonBlock()),
        ({"finish": 1}, ReasonBlock()),
        ({"finish": None, "plan": None}, ReasonBlock()),
        ({"plan": ["a", "ä"]}, ReasonBlock(plan='["a", "ä"]')),
        ({"tools_to_consider": "read_file"}, ReasonBlock()),
        ({"tools_to_consider": ["a", 7]}, ReasonBlock(tools_to_consider=("a", "7"))),
        ({"plan": "\ud800x"}, ReasonBlock(plan="?x")),
    ],
)
def test_values_of_a_wrong_kind_do_no_harm(given_: dict[str, object], expected: ReasonBlock) -> None:
    assert parse_reason(says(json.dumps(given_)))[1] == expected
    assert parse_reason(says("", call("agent_decide_next", **given_)))[1] == expected


def test_observe_block_goes_on_unless_it_says_otherwise() -> None:
    assert parse_observe(says('{"observation": "half"}'))[1] == ObserveBlock(observation="half")
    ended = parse_observe(says('{"should_continue": "false", "final_answer": 42}'))[1]
    assert ended == ObserveBlock(should_continue=False, final_answer="42")


def test_call_of_the_internal_tool_wins_over_the_text() -> None:
    reply = says(f"Words. {PLAN}", call("read_file", path="x"), call("agent_decide_next", plan="other"))
    assert parse_reason(reply) == ("Words.", ReasonBlock(plan="other"))


def test_call_of_another_or_empty_tool_leaves_the_text() -> None:
    reply = says(PLAN, call("agent_observe_decide", plan="other"), call("agent_decide_next"))
    assert parse_reason(reply) == ("", READ)


@pytest.mark.parametrize(("args", "block"), [(PLAN + "}}", READ), ("{plan: x", None), (None, None)])
def test_a_call_with_broken_arguments_is_read_as_text(args: str | None, block: ReasonBlock | None) -> None:
    broken = {"name": "agent_decide_next", "args": args, "id": "x", "error": "", "type": "invalid_tool_call"}
    reply = AIMessage("hm", invalid_tool_calls=[broken])  # type: ignore[list-item]
    assert parse_reason(reply) == ("hm", block)


@given(st.text(alphabet='{}[]":,\\`\n aplnfinishtrue\ud800', max_size=200))
def test_no_text_raises_and_all_of_it_can_be_stored(text: str) -> None:
    for parse in (parse_reason, parse_observe):
        rest, _ = parse(AIMessage(text))
        rest.encode("utf-8")
