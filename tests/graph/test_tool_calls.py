"""However broken the calls of a reply are, what is stored is whole and every call can be answered."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from lockstitch.graph.tool_calls import UNREADABLE_ARGS_CHARS, read_reply

IDS = st.sampled_from([None, "", "a", "b", "call_1"])
NAMES = st.one_of(
    st.sampled_from(["read_file", "", "functions.read_file", "a b", "x" * 199, "\n"]), st.text()
)
GOOD = st.builds(lambda i, n, a: {"id": i, "name": n, "args": a}, IDS, NAMES, st.sampled_from([{}, {"a": 1}]))
BAD = st.builds(
    lambda i, n, a: {"id": i, "name": n, "args": a, "error": None},
    IDS,
    st.one_of(st.none(), NAMES),
    st.one_of(st.none(), st.text()),
)
PROVIDER_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")  # what OpenAI and Anthropic take back


def reply(*calls: Any, invalid: tuple[Any, ...] = (), content: Any = "", **extra: Any) -> AIMessage:
    return AIMessage(
        content, tool_calls=list(calls), invalid_tool_calls=list(invalid), additional_kwargs=extra
    )


def call(id: str | None, name: str = "read_file", **args: Any) -> dict[str, Any]:  # noqa: A002
    return {"id": id, "name": name, "args": args}


def payload(*messages: Any) -> list[dict[str, Any]]:
    """The messages as langchain-openai sends them."""
    model = ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9")  # type: ignore[arg-type]
    sent = model._get_request_payload(list(messages))["messages"]
    return json.loads(json.dumps(sent))  # type: ignore[no-any-return]


@settings(max_examples=100, deadline=None)
@given(st.lists(GOOD, max_size=6), st.lists(BAD, max_size=4))
def test_every_call_is_stored_once_under_an_id_of_its_own(good: list[Any], bad: list[Any]) -> None:
    stored, read = read_reply(reply(*good, invalid=tuple(bad)))
    ids = [one.id for one in read]
    assert len(ids) == len(good) + len(bad) == len(set(ids))
    assert all(ids)
    assert [one["id"] for one in stored.tool_calls] == ids
    assert [one["name"] for one in stored.tool_calls] == [one.tool for one in read]
    assert all(PROVIDER_NAME.fullmatch(one.tool) for one in read)
    assert [bool(one.fault) for one in read] == [False] * len(good) + [True] * len(bad)
    assert stored.invalid_tool_calls == []


@settings(max_examples=25, deadline=None)
@given(st.lists(GOOD, max_size=4), st.lists(BAD, min_size=1, max_size=3))
def test_openai_is_sent_valid_calls_each_with_its_answer(good: list[Any], bad: list[Any]) -> None:
    stored, read = read_reply(reply(*good, invalid=tuple(bad)))
    answers = [ToolMessage("ok", tool_call_id=one.id) for one in read]
    _, asked, *answered = payload(HumanMessage("go"), stored, *answers)
    assert [one["id"] for one in asked["tool_calls"]] == [one["tool_call_id"] for one in answered]
    assert all(isinstance(json.loads(one["function"]["arguments"]), dict) for one in asked["tool_calls"])


def test_a_given_id_is_kept_and_only_its_second_use_replaced() -> None:
    _, read = read_reply(reply(call("a", path="1"), call("a", path="2"), call("b", path="3")))
    assert [read[0].id, read[2].id] == ["a", "b"]
    assert read[1].id not in {"a", "b", ""}
    assert [one.args["path"] for one in read] == ["1", "2", "3"]


def test_missing_arguments_are_none_at_all() -> None:
    broken = reply().model_copy(update={"tool_calls": [{"name": "get_tasks", "args": None, "id": "a"}]})
    _, (one,) = read_reply(broken)
    assert (one.args, one.fault) == ({}, "")


def test_a_name_no_provider_takes_back_is_spelled_with_what_it_may_have() -> None:
    _, read = read_reply(reply(call("a", "functions.read_file"), call("b", ""), call("c", "x" * 199)))
    assert [one.tool for one in read] == ["functions_read_file", "unnamed", "x" * 128]


def test_unreadable_arguments_are_shown_back_in_part() -> None:
    bad = {"id": "a", "name": "write_file", "args": "{path: " + "x" * 1999, "error": "no"}
    stored, (one,) = read_reply(reply(invalid=(bad,)))
    assert "no JSON object: '{path: xxx" in one.fault
    assert len(one.fault) < UNREADABLE_ARGS_CHARS + 100
    assert stored.tool_calls[0]["args"] == {}


def test_a_reply_without_calls_stays_as_it_is() -> None:
    said = reply(content="hello")
    assert read_reply(said) == (said, [])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "a", "name": "read_file", "input": {}},
        {"type": "function_call", "call_id": "a", "name": "read_file", "arguments": "{}"},
        {"type": "tool_call", "id": "a", "name": "read_file", "args": {}},
    ],
)
def test_content_blocks_lose_their_calls_and_keep_the_rest(block: dict[str, Any]) -> None:
    kept: list[Any] = [
        "plain", {"type": "text", "text": "I look."}, {"type": "thinking", "thinking": "hm", "signature": "s"}
    ]  # fmt: skip
    stored, _ = read_reply(reply(call("a"), content=[*kept, block]))
    assert stored.content == kept


def test_the_providers_raw_calls_are_not_kept_beside_ours() -> None:
    raw = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{bad"}}]
    bad = {"id": "a", "name": "f", "args": "{bad", "error": None}
    stored, (one,) = read_reply(reply(invalid=(bad,), tool_calls=raw, refusal=None))
    assert stored.additional_kwargs == {"refusal": None}
    (sent,) = payload(stored)
    assert sent["tool_calls"] == [
        {"type": "function", "id": one.id, "function": {"name": "f", "arguments": "{}"}}
    ]


def test_id_usage_and_metadata_of_the_reply_stay() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    said = AIMessage("", id="m1", tool_calls=[call(None)], usage_metadata=usage, response_metadata={"a": 1})  # type: ignore[arg-type]
    stored, _ = read_reply(said)
    assert (stored.id, stored.usage_metadata, stored.response_metadata) == ("m1", usage, {"a": 1})
    assert said.tool_calls[0]["id"] is None  # the reply itself is not changed
