"""The lean model sends what the stock model sends, and encodes each message once."""

import json
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from tests.model_server import ModelServer, RawReply

from lockstitch.graph.models.failure import ErrorReplyError
from lockstitch.graph.models.kept_fields import fields_of
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
    HumanMessage([{"type": "image", "source_type": "url", "url": "https://example.org/a.png"}]),
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


class Listener(AsyncCallbackHandler):
    """Hears what LangChain tells of a call."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_chat_model_start(self, serialized: Any, messages: Any, **_: Any) -> None:
        self.heard.append("start")

    async def on_llm_end(self, response: Any, **_: Any) -> None:
        self.heard.append("end")


async def test_a_reply_is_the_same_whether_somebody_listens_or_not() -> None:
    with ModelServer(SCENARIO) as server:
        stock, lean = models(server.base_url)
        listener = Listener()
        heard = await lean.bind_tools(TOOLS).ainvoke(CONVERSATION, {"callbacks": [listener]})
        unheard = await lean.bind_tools(TOOLS).ainvoke(CONVERSATION)
        theirs = await stock.bind_tools(TOOLS).ainvoke(CONVERSATION)
    assert listener.heard == ["start", "end"]
    ids = {str(reply.id) for reply in (heard, unheard, theirs)}
    assert len(ids) == 3
    assert all(id.startswith("lc_run-") for id in ids)  # noqa: A001
    varying = {"id": "", "response_metadata": {}, "additional_kwargs": {}, "tool_calls": []}
    assert unheard.model_copy(update=varying) == heard.model_copy(update=varying)
    given = [set(reply.response_metadata) for reply in (heard, unheard)]
    assert given[0] == given[1]
    assert unheard.response_metadata["finish_reason"] == theirs.response_metadata["finish_reason"]


async def test_each_message_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[BaseMessage] = []
    stock = LeanChatOpenAI._encode
    monkeypatch.setattr(
        LeanChatOpenAI, "_encode", lambda self, c, m: (encoded.append(m), stock(self, c, m))[1]
    )
    with ModelServer(SCENARIO) as server:
        model = models(server.base_url)[1]
        for length in range(1, len(CONVERSATION) + 1):
            await model.ainvoke(CONVERSATION[:length])
    assert [id(m) for m in encoded] == [id(m) for m in CONVERSATION]


async def test_a_conversation_whose_beginning_was_replaced_is_sent_as_it_is_now() -> None:
    folded = [CONVERSATION[0], HumanMessage("what came before, in short"), *CONVERSATION[2:]]
    with ModelServer(SCENARIO, keep_bodies=True) as server:
        for model in models(server.base_url):
            for conversation in (CONVERSATION, folded, folded[:2], folded):
                await model.ainvoke(conversation)
        bodies = [body["messages"] for body in server.bodies]
    assert bodies[:4] == bodies[4:]


async def test_messages_no_longer_sent_are_forgotten() -> None:
    with ModelServer(SCENARIO) as server:
        model = models(server.base_url)[1]
        await model.ainvoke(CONVERSATION)
        await model.ainvoke(CONVERSATION[:2])
    assert isinstance(model, LeanChatOpenAI)
    assert [len(part) for part in model._sent] == [2, 2]


async def test_another_set_of_tools_is_encoded_anew() -> None:
    other = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "name": "write_file"}}]  # type: ignore[dict-item]
    with ModelServer(SCENARIO, keep_bodies=True) as server:
        model = models(server.base_url)[1]
        for tools in (TOOLS, other, TOOLS):
            await model.bind_tools(tools).ainvoke(CONVERSATION[:2])
        await model.ainvoke(CONVERSATION[:2])
    named = [[tool["function"]["name"] for tool in body.get("tools", [])] for body in server.bodies]
    assert named == [["read_file"], ["write_file"], ["read_file"], []]


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


DETAILS = [
    {"type": "reasoning.text", "text": "first this", "index": 0, "format": "f1", "signature": None},
    {"type": "reasoning.encrypted", "data": "c2lnbmVk", "index": 1, "format": "f1", "id": "r1"},
]
SIGNED = {"google": {"thought_signature": "c2ln"}}
WANTED_BACK: list[dict[str, Any]] = [
    {"reasoning_content": "I think\nand think."},
    {"reasoning": "I think."},
    {"reasoning": "first this", "reasoning_details": DETAILS},
    {"extra_content": SIGNED},
]


def served(fields: dict[str, Any], *, streamed: bool) -> RawReply:
    """One call, with an endpoint's own fields in the message or in the call."""
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
    own = {name: value for name, value in fields.items() if name != "extra_content"}
    call |= {name: value for name, value in fields.items() if name == "extra_content"}
    message = {"role": "assistant", "content": "I look.", **own, "tool_calls": [call]}
    head = {"id": "1", "model": "m"}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return RawReply(json.dumps({**head, "choices": [choice]}).encode())
    deltas = [*pieces(own), {"content": "I look."}, {"tool_calls": [{**call, "index": 0}]}]
    events = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return RawReply(f"{lines}data: [DONE]\n\n".encode(), content_type="text/event-stream")


def pieces(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields as a stream brings them: a few characters at a time."""
    found: list[dict[str, Any]] = []
    for name, value in fields.items():
        if isinstance(value, str):
            found += [{name: value[at : at + 3]} for at in range(0, len(value), 3)]
            continue
        for detail in value:
            [grows] = {"text", "data"} & detail.keys()
            parts = [detail[grows][at : at + 3] for at in range(0, len(detail[grows]), 3)]
            found += [{name: [{**detail, grows: part}]} for part in parts]
    return found


@pytest.mark.parametrize("fields", WANTED_BACK)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_an_endpoint_wants_back_is_kept_and_sent_back(
    fields: dict[str, Any], streamed: bool
) -> None:
    with ModelServer(SCENARIO, replies=[served(fields, streamed=streamed)] * 2, keep_bodies=True) as server:
        model = models(server.base_url, streaming=streamed)[1].bind_tools(TOOLS)
        reply = await model.ainvoke(CONVERSATION[:2])
        stored = AIMessage.model_validate_json(reply.model_dump_json())
        answer = ToolMessage("12", tool_call_id="c1")
        await model.ainvoke([*CONVERSATION[:2], stored, answer])
        sent = server.bodies[1]["messages"][2]
    back = {name: sent[name] for name in fields if name in sent}
    back |= {name: value for name, value in sent["tool_calls"][0].items() if name == "extra_content"}
    assert back == fields
    assert (sent["content"], sent["tool_calls"][0]["id"]) == ("I look.", "c1")


async def test_they_are_not_sent_to_another_endpoint() -> None:
    stranger = "http://localhost:{}/v1"  # another name of the same host
    with ModelServer(
        SCENARIO, replies=[served(WANTED_BACK[2], streamed=False)] * 2, keep_bodies=True
    ) as server:
        first = models(server.base_url)[1].bind_tools(TOOLS)
        other = models(stranger.format(server.port))[1].bind_tools(TOOLS)
        reply = await first.ainvoke(CONVERSATION[:2])
        await other.ainvoke([*CONVERSATION[:2], reply, ToolMessage("12", tool_call_id="c1")])
    assert server.bodies[1]["messages"][2].keys() == {"role", "content", "tool_calls"}


async def test_a_call_without_an_id_gets_one_to_keep_its_extra_content_by() -> None:
    reply = readable({"choices": [{"message": {"tool_calls": [{"function": {}, "extra_content": SIGNED}]}}]})
    [call] = reply["choices"][0]["message"]["tool_calls"]
    assert fields_of({"tool_calls": [call]}, endpoint="e")["extra_content"] == {call["id"]: SIGNED}


async def test_an_error_in_a_reply_of_status_200_is_an_error() -> None:
    body = json.dumps({"error": {"message": "upstream is busy", "code": 502}}).encode()
    with ModelServer(SCENARIO, replies=[RawReply(body)]) as server, pytest.raises(ErrorReplyError) as caught:
        await models(server.base_url)[1].ainvoke(CONVERSATION[:2])
    assert caught.value.body == {"message": "upstream is busy", "code": 502}
