"""The lean model sends what the stock model sends, and encodes each message once."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from tests.model_server import ModelServer

from lockstitch.graph.models.lean_openai import LeanChatOpenAI, readable
from lockstitch.graph.models.scenario import Scenario

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Lies «liest» mit.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
CALL = {"name": "read_file", "args": {"path": "ü/ж.py"}, "id": "c1", "type": "tool_call"}
CONVERSATION: list[BaseMessage] = [
    SystemMessage("You work.  \n"),
    HumanMessage('Line "one"\n\ttwo \u2028 \U0001f600'),
    AIMessage("", tool_calls=[CALL]),  # type: ignore[list-item]
    ToolMessage("12\ttext", tool_call_id="c1", name="read_file", status="error"),
    AIMessage([{"type": "text", "text": "blocks"}]),
    HumanMessage([{"type": "text", "text": "more"}], name="ann"),
]
SCENARIO = Scenario(
    name="s",
    turns=({"say": "first", "calls": [{"tool": "read_file", "args": {"path": "a"}}]},) * 9,  # type: ignore[arg-type]
)


def models(url: str, **options: Any) -> list[ChatOpenAI]:
    given = {"model": "m", "base_url": url, "api_key": "none", "max_retries": 0, **options}
    return [ChatOpenAI(**given), LeanChatOpenAI(**given)]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"max_tokens": 9},
        {"model": "o3-mini"},
        {"extra_body": {"own": {"deep": [1, None]}}},
    ],
)
async def test_the_request_is_equal_to_the_stock_models(streaming: bool, options: dict[str, Any]) -> None:
    with ModelServer(SCENARIO, keep_bodies=True) as server:
        bound = [m.bind_tools(TOOLS) for m in models(server.base_url, streaming=streaming, **options)]
        replies = [await model.ainvoke(CONVERSATION, stop=["END"]) for model in bound]
        stock, lean = server.bodies
    assert lean == stock
    assert lean["messages"]
    assert [(r.text, r.tool_calls[0]["args"], r.usage_metadata) for r in replies[:1]] == [
        (r.text, r.tool_calls[0]["args"], r.usage_metadata) for r in replies[1:]
    ]


async def test_each_message_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[BaseMessage] = []
    stock = LeanChatOpenAI._encode
    monkeypatch.setattr(LeanChatOpenAI, "_encode", lambda self, m: (encoded.append(m), stock(self, m))[1])
    with ModelServer(SCENARIO) as server:
        model = models(server.base_url)[1]
        for length in range(1, len(CONVERSATION) + 1):
            await model.ainvoke(CONVERSATION[:length])
    assert [id(m) for m in encoded] == [id(m) for m in CONVERSATION]


async def test_messages_no_longer_sent_are_forgotten() -> None:
    with ModelServer(SCENARIO) as server:
        model = models(server.base_url)[1]
        await model.ainvoke(CONVERSATION)
        await model.ainvoke(CONVERSATION[:2])
    assert isinstance(model, LeanChatOpenAI)
    assert len(model._encoded) == 2


async def test_the_clients_own_retries_still_work() -> None:
    flaky = Scenario(name="s", turns=({"say": "ok", "fail": {"status": 429, "times": 2}},))  # type: ignore[arg-type]
    with ModelServer(flaky, keep_bodies=True) as server:
        model = models(server.base_url, max_retries=2)[1]
        assert (await model.bind_tools(TOOLS).ainvoke(CONVERSATION[:2])).text == "ok"
        assert server.requests == 3
        assert json.dumps(server.bodies[0]) == json.dumps(server.bodies[2])


@pytest.mark.parametrize("given", [[1, 2], {"path": "a"}, None, "[1]", "7"])
async def test_arguments_that_are_no_text_do_not_cost_the_reply(given: Any) -> None:
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": given}}],
    }
    reply = readable({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    made = LeanChatOpenAI(model="m", api_key="none")._create_chat_result(reply).generations[0].message
    assert isinstance(made, AIMessage)
    wanted = {"path": "a"} if isinstance(given, dict) else {}
    assert [call["args"] for call in made.tool_calls] in ([wanted], [])
    assert len(made.tool_calls) + len(made.invalid_tool_calls) == 1
