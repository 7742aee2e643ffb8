"""Replies whose content is a list of blocks, as Anthropic and OpenAI (Responses) give it, through the graph.

Thinking and its signature are kept and sent back; calls are sent from `tool_calls` alone; text is shown.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field
from tests.fakes import Bench, FakeModel

from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.catalogue import ModelFacts
from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.kept_fields import KEPT
from lockstitch.graph.models.port import ChatModelPort
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.graph.models.wish import ModelWish

USAGE: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
CALL: Any = {"name": "list_directory", "args": {"path": "."}, "id": "c1", "type": "tool_call"}


class Client(BaseChatModel):
    """A provider's client that answers with these messages; streams them block by block."""

    replies: list[AIMessage]
    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "client"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self.prompts.append(messages)
        return self.replies[len(self.prompts) - 1]

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self._next(messages)
        calls = iter(reply.tool_calls)
        for index, block in enumerate(reply.content):
            assert isinstance(block, dict)
            for piece in in_pieces(block):
                yield chunk([{**piece, "index": index}])
            if block["type"] in ("tool_use", "function_call"):
                call = next(calls)
                head = tool_call_chunk(name=call["name"], id=call["id"], args="", index=index)
                yield chunk([], tool_call_chunks=[head])
                for letter in json.dumps(call["args"]):
                    yield chunk([], tool_call_chunks=[tool_call_chunk(args=letter, index=index)])
        yield chunk([], usage_metadata=reply.usage_metadata, response_metadata={"stop_reason": "end_turn"})


def chunk(content: list[Any], **more: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content, **more))


def in_pieces(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The block as a stream brings it: what it says letter by letter, its signature at the end."""
    [said] = {"text", "thinking"} & block.keys() or {""}
    if not said:
        return [block]
    rest = {name: value for name, value in block.items() if name not in (said, "type")}
    letters = [{"type": block["type"], said: letter} for letter in block[said]]
    return [*letters, {"type": block["type"], **rest}] if rest else letters


class Styled(FakeModel):
    """A source of models that stands before the client as the real one does."""

    def __init__(self, client: Client, *, stream: bool) -> None:
        super().__init__()
        self.client = client
        self.stream = stream

    def open(self, wish: ModelWish, **kind: Any) -> Any:
        return ModelRouter(
            [Link(ChatModelPort(self.client, ModelChoice("anthropic", "m")), ModelFacts())],
            tier="balanced",
            retries=0,
            breaker=Breaker(),
            emit=kind.get("emit"),
            stream=self.stream,
        )


def anthropic(text: str, *calls: Any, thinking: str = "Let me see.") -> AIMessage:
    used = [{"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in calls]
    blocks = [{"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"}]
    blocks += [{"type": "text", "text": text}] if text else []
    return AIMessage([*blocks, *used], tool_calls=list(calls), usage_metadata=USAGE)


def responses(text: str, *calls: Any, thinking: str = "Let me see.") -> AIMessage:
    used = [
        {
            "type": "function_call",
            "id": "fc1",
            "call_id": c["id"],
            "name": c["name"],
            "arguments": json.dumps(c["args"]),
        }
        for c in calls
    ]
    summary = [{"type": "summary_text", "text": thinking, "index": 0}]
    blocks: list[Any] = [{"type": "reasoning", "id": "rs1", "summary": summary, "encrypted_content": "ZW5j"}]
    blocks += [{"type": "text", "text": text, "id": "msg1"}] if text else []
    return AIMessage([*blocks, *used], tool_calls=list(calls), usage_metadata=USAGE)


STYLES = pytest.mark.parametrize("style", [anthropic, responses])
STREAMED = pytest.mark.parametrize("stream", [False, True])


def kept_blocks(message: BaseMessage) -> list[Any]:
    """The thinking of a message, without the places that a stream gives its blocks."""
    found = [b for b in message.content if isinstance(b, dict) and b["type"] in ("thinking", "reasoning")]
    return [{name: value for name, value in block.items() if name != "index"} for block in found]


def check_sent_back(prompt: list[BaseMessage], original: AIMessage) -> None:
    """The prompt holds the calling reply: thinking as it came, the call once, its result behind it."""
    at = next(n for n, message in enumerate(prompt) if isinstance(message, AIMessage))
    sent = prompt[at]
    assert isinstance(sent, AIMessage)
    assert kept_blocks(sent) == kept_blocks(original)
    assert [(call["name"], call["args"], call["id"]) for call in sent.tool_calls] == [
        ("list_directory", {"path": "."}, "c1")
    ]
    kinds = [block["type"] for block in sent.content if isinstance(block, dict)]
    assert not {"tool_use", "function_call"} & set(kinds)
    answer = prompt[at + 1]
    assert isinstance(answer, ToolMessage)
    assert answer.tool_call_id == "c1"


@STYLES
@STREAMED
async def test_react(tmp_path: Path, style: Any, stream: bool) -> None:
    client = Client(replies=[style("I look.", CALL), style("Nothing is there.")])
    bench = Bench(tmp_path, Styled(client, stream=stream))
    state = await bench.run("What is there?")
    assert (state["reason"], state["final_answer"]) == ("answered", "Nothing is there.")
    assert [event["content"] for event in bench.of_type("agent_reason")] == ["I look.", "Nothing is there."]
    check_sent_back(client.prompts[1], client.replies[0])
    if stream:
        told = [(event["kind"], event["content"]) for event in bench.of_type("agent_delta")]
        assert "".join(text for kind, text in told if kind == "text") == "I look.Nothing is there."
        assert "".join(text for kind, text in told if kind == "tool_call") == '{"path": "."}'
        assert "".join(text for kind, text in told if kind == "reasoning") == "Let me see." * 2


@STYLES
@STREAMED
async def test_reason_act_observe(tmp_path: Path, style: Any, stream: bool) -> None:
    plan = json.dumps({"plan": "list it", "tools_to_consider": [], "finish": False})
    seen = json.dumps({"observation": "empty", "should_continue": True, "final_answer": None})
    done = json.dumps({"observation": "empty", "should_continue": False, "final_answer": "Nothing."})
    again: Any = {**CALL, "id": "c2"}
    client = Client(
        replies=[
            style(f"I look.\n{plan}"),
            style("", CALL, thinking="Acting."),
            style(seen),
            style(f"Again.\n{plan}"),
            style("", again),
            style(done),
        ]
    )
    bench = Bench(tmp_path, Styled(client, stream=stream))
    state = await bench.run("What is there?", strategy="reason-act-observe")
    assert (state["reason"], state["final_answer"]) == ("finished", "Nothing.")
    check_sent_back(client.prompts[2], client.replies[1])
    check_sent_back(client.prompts[3], client.replies[1])
    assert [event["content"] for event in bench.of_type("agent_reason")] == ["I look.", "Again."]


@pytest.mark.parametrize("strategy", ["react", "reason-act-observe"])
async def test_an_endpoints_own_fields_outlive_the_strategy(tmp_path: Path, strategy: str) -> None:
    kept = {"endpoint": "e", "reasoning_content": "Let me see.", "extra_content": {"c1": {"a": 1}}}
    acts = AIMessage("", tool_calls=[CALL], additional_kwargs={KEPT: kept}, usage_metadata=USAGE)
    plan = AIMessage(json.dumps({"plan": "list it", "tools_to_consider": [], "finish": False}))
    done = json.dumps({"observation": "empty", "should_continue": False, "final_answer": "Nothing."})
    replies = [acts, AIMessage(done)]
    client = Client(replies=replies if strategy == "react" else [plan, *replies])
    state = await Bench(tmp_path, Styled(client, stream=False)).run("What is there?", strategy=strategy)
    stored = next(m for m in state["messages"] if isinstance(m, AIMessage) and m.tool_calls)
    assert stored.additional_kwargs[KEPT] == kept
    assert stored in client.prompts[-1]
