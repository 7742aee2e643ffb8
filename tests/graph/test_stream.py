"""A streamed reply equals one that was not streamed, and its pieces are told as they come."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages.tool import tool_call_chunk
from tests.clock import Clock
from tests.model_server import ModelServer, RawReply

from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.catalogue import ModelFacts
from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.failure import BrokenStreamError
from lockstitch.graph.models.kept_fields import KEPT
from lockstitch.graph.models.lean_openai import LeanChatOpenAI
from lockstitch.graph.models.port import ChatModelPort
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.graph.models.scenario import Failure, Scenario, Turn, WireCall
from lockstitch.graph.models.stream import CHARS, EVERY_S, Deltas, read_stream
from lockstitch.state.errors import ModelError
from lockstitch.state.events import AgentDelta, AgentNotice, Event

GO = [HumanMessage("go")]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {}}}]
LONG = json.dumps({"path": "ä/" + "x" * 70, "more": "\U0001f600 \ud83d\ude00"})
TURNS = [
    Turn(0, "Only  words,\n in several pieces, ünïcode \U0001f600."),
    Turn(0, "", (WireCall(name="look", arguments=LONG, id="c1"),)),
    Turn(0, "Both.", tuple(WireCall(name="look", arguments=LONG, id=f"c{n}") for n in range(3))),
    Turn(0, "", (WireCall(name="look", arguments='{"path": "cut o', id="c1"),)),
    Turn(0, "", (WireCall(name="look", arguments="nonsense", id="c1"), WireCall(name="a", arguments="[1]"))),
    Turn(0, "", (WireCall(name="look", arguments="", id="c1"), WireCall(name="look", arguments="{}"))),
    Turn(0, "", (WireCall(name="look", arguments='{"n": 1}', id="same"),) * 2),
]


def port(server: ModelServer) -> ChatModelPort:
    model = LeanChatOpenAI(
        model="m", base_url=server.base_url, api_key="none", max_retries=0, stream_usage=True
    )
    return ChatModelPort(model, ModelChoice("openai", "m"))


def router(server: ModelServer, told: list[Event], *, retries: int = 0) -> ModelRouter:
    async def no_sleep(_: float) -> None:
        """The wait is another test's."""

    return ModelRouter(
        [Link(port(server), ModelFacts())],
        tier="balanced",
        retries=retries,
        breaker=Breaker(),
        emit=told.append,
        stream=True,
        sleep=no_sleep,
    )


def serving(*replies: Turn | RawReply) -> ModelServer:
    return ModelServer(Scenario(name="s"), replies=replies)


def events(*deltas: dict[str, Any], finish: str | None = "stop", **last: Any) -> RawReply:
    """A stream of these deltas, as any endpoint may send it."""
    bodies = [{"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    bodies.append({"id": "1", "model": "m", "choices": [{"delta": {}, "finish_reason": finish}], **last})
    lines = "".join(f"data: {json.dumps(body)}\n\n" for body in bodies)
    return RawReply(f"{lines}data: [DONE]\n\n".encode(), content_type="text/event-stream")


async def streamed(reply: RawReply) -> AIMessage:
    with serving(reply) as server:
        return await port(server).call(GO, tools=TOOLS, hear=lambda chunk: None)


def comparable(reply: AIMessage) -> dict[str, Any]:
    fields = reply.model_dump(exclude={"id", "response_metadata"})
    assert type(reply) is AIMessage
    assert str(reply.id).startswith("lc_run")
    return fields | {"finish": reply.response_metadata["finish_reason"]}


@pytest.mark.parametrize("turn", TURNS)
async def test_streamed_or_not_the_reply_is_the_same(turn: Turn) -> None:
    heard: list[AIMessageChunk] = []
    with serving(turn, turn) as server:
        at_once = await port(server).call(GO, tools=TOOLS)
        in_pieces = await port(server).call(GO, tools=TOOLS, hear=heard.append)
    assert comparable(in_pieces) == comparable(at_once)
    assert at_once.usage_metadata is not None
    assert len(heard) > 1


async def test_text_and_arguments_are_told_as_they_come() -> None:
    told: list[Event] = []
    with serving(TURNS[2]) as server:
        reply = await router(server, told).ask(GO, tools=TOOLS)
    deltas = [event for event in told if isinstance(event, AgentDelta)]
    assert "".join(d.content for d in deltas if d.kind == "text") == reply.text == "Both."
    assert "".join(d.content for d in deltas if d.kind == "tool_call") == LONG * 3
    assert {d.tool for d in deltas if d.kind == "tool_call"} == {"look"}


async def test_a_stream_that_breaks_off_is_asked_for_again() -> None:
    told: list[Event] = []
    body = events({"content": "Hel"}).body.split(b"\n\n")[0] + b"\n\n"
    cut = RawReply(body, content_type="text/event-stream", cut=True)
    with serving(cut, events({"content": "x"}, finish=None), TURNS[0]) as server:
        reply = await router(server, told, retries=2).ask(GO)
    assert reply.text == TURNS[0].say
    notices = [event.content.partition(";")[0] for event in told if isinstance(event, AgentNotice)]
    assert notices == ["m: cannot be reached", "m: stream broke off"]


async def test_an_error_within_a_stream_is_one_of_the_endpoint() -> None:
    body = b'data: {"error": {"message": "upstream is busy", "code": 503}}\n\n'
    failing = RawReply(body, content_type="text/event-stream")
    told: list[Event] = []
    with serving(failing, failing) as server, pytest.raises(ModelError, match=r"endpoint failed \(503\)"):
        await router(server, told, retries=1).ask(GO)
    assert [event.content.partition(";")[0] for event in told if isinstance(event, AgentNotice)] == [
        "m: endpoint failed (503)"
    ]


async def test_a_refused_stream_fails_as_a_refused_request() -> None:
    refused = Turn(0, "", fail=Failure(status=400, message="no tools here"))
    with serving(refused) as server, pytest.raises(ModelError, match="no tools here"):
        await router(server, []).ask(GO)


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def call(id_: str | None, arguments: Any, index: int | None, name: str | None = "look") -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, "id": id_, "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    "deltas",
    [
        [call("a", '{"n": 1}', 0), call("b", '{"n": 2}', 1)],
        [call("a", '{"n": 1}', 0), call("b", '{"n": 2}', 0)],  # all with index 0
        [call("a", '{"n": 1}', None), call("b", '{"n": 2}', None)],  # none with an index
        [call("a", {"n": 1}, 0), call("b", {"n": 2}, 1)],  # the object itself
        [call("a", '{"n"', 0), call("a", ": 1}", 0), call("b", '{"n": 2}', 1)],  # the name in each piece
        [call("a", "", 0), call(None, '{"n"', 0, None), call("", ": 1}", 0, ""), call("b", '{"n": 2}', 1)],
    ],
)
async def test_calls_are_told_apart_however_they_come(deltas: Sequence[dict[str, Any]]) -> None:
    reply = await streamed(events(*deltas, finish="tool_calls"))
    assert [(c["id"], c["name"], c["args"]) for c in reply.tool_calls] == [
        ("a", "look", {"n": 1}),
        ("b", "look", {"n": 2}),
    ]


@pytest.mark.parametrize("where", ["last", "each", "choice"])
async def test_tokens_are_counted_once_and_the_end_is_told_once(where: str) -> None:
    head = {"id": "1", "model": "m"}
    usage = {"usage": USAGE}
    said = [{"content": "a"}, {"content": "b"}, {}]
    bodies = [
        {
            **head,
            **(usage if where == "each" else {}),
            "choices": [
                {
                    "delta": delta,
                    "finish_reason": None if delta.get("content") == "a" else "stop",  # told twice
                    **(usage if where == "choice" and not delta else {}),
                }
            ],
        }
        for delta in said
    ]
    bodies.append({**head, "choices": [], **(usage if where == "last" else {})})
    lines = "".join(f"data: {json.dumps(body)}\n\n" for body in bodies)
    reply = await streamed(RawReply(lines.encode(), content_type="text/event-stream"))
    assert reply.usage_metadata is not None
    assert (reply.text, reply.usage_metadata["total_tokens"]) == ("ab", 12)
    assert reply.response_metadata["finish_reason"] == "stop"


async def test_a_character_that_is_cut_in_two_comes_together() -> None:
    told: list[Event] = []
    with serving(events({"content": "a\ud83d"}, {"content": "\ude00b"}, {"content": "\ud83d"})) as server:
        reply = await router(server, told).ask(GO)
    assert reply.text == "a\U0001f600b?"
    assert "".join(event.content for event in told if isinstance(event, AgentDelta)) == "a\U0001f600b?"


def told_of(*chunks: AIMessageChunk, step_s: float = 0) -> list[AgentDelta]:
    told: list[Any] = []
    clock = Clock()
    deltas = Deltas(told.append, monotonic=clock)
    for chunk in chunks:
        deltas.hear(chunk)
        clock.now += step_s
    deltas.flush()
    return told


def test_pieces_that_come_fast_are_told_together() -> None:
    pieces = [AIMessageChunk("x") for _ in range(CHARS + 50)]
    assert [len(event.content) for event in told_of(*pieces)] == [1, CHARS, 49]
    assert len(told_of(*pieces[:9], step_s=EVERY_S * 1.1)) == 9
    assert len(told_of(*pieces[:9], step_s=EVERY_S * 0.6)) == 5


def test_another_kind_or_call_is_told_apart() -> None:
    told = told_of(
        AIMessageChunk("", additional_kwargs={KEPT: {"reasoning": "hm"}}),
        AIMessageChunk("say"),
        AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="a", args="", id="1", index=0)]),
        AIMessageChunk("", tool_call_chunks=[tool_call_chunk(args="{}", index=0)]),
        AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="b", args="{", id="2", index=1)]),
    )
    assert [(event.kind, event.content, event.tool) for event in told] == [
        ("reasoning", "hm", ""),
        ("text", "say", ""),
        ("tool_call", "", "a"),
        ("tool_call", "{}", "a"),
        ("tool_call", "{", "b"),
    ]


@pytest.mark.parametrize(
    "chunk",
    [
        AIMessageChunk([{"type": "thinking", "thinking": "hm", "index": 0}]),  # Anthropic
        AIMessageChunk(
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]
        ),  # OpenAI
        AIMessageChunk([{"type": "reasoning", "reasoning": "hm"}]),  # LangChain's own
        AIMessageChunk("", additional_kwargs={"reasoning_content": "hm"}),  # langchain-deepseek and others
        AIMessageChunk("", additional_kwargs={KEPT: {"reasoning_content": "hm", "reasoning": "hm"}}),
    ],
)
def test_thinking_is_told_wherever_it_is(chunk: AIMessageChunk) -> None:
    assert [(event.kind, event.content) for event in told_of(chunk)] == [("reasoning", "hm")]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=40)), st.floats(0, EVERY_S))
def test_every_piece_can_be_sent_and_nothing_is_lost(pieces: list[str], step_s: float) -> None:
    told = told_of(*map(AIMessageChunk, pieces), step_s=step_s)
    text = "".join(event.content for event in told)
    text.encode()
    paired = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert text == paired.encode(errors="replace").decode()


async def test_nothing_at_all_is_a_broken_stream() -> None:
    async def nothing() -> AsyncIterator[AIMessage]:
        for chunk in ():
            yield chunk

    with pytest.raises(BrokenStreamError):
        await read_stream(nothing(), hear=lambda chunk: None)
