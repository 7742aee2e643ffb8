"""ChatOpenAI at the cost of what is new in a request, and for endpoints that are not quite OpenAI's.

The openai client walks every message of every request against its type hints: 0.12 ms each, 74 ms at 600
messages, for an output equal to its input. Here messages and tools are converted and encoded once. A streamed
request goes out through the client's public `post`, any other by posting.py. The bytes on the wire
are those of the stock model (tests/graph/test_lean_openai.py compares them), but for the fields an endpoint
wants back (kept_fields.py), which the stock model drops.

Messages must not be changed in place once they were sent.
"""

import json
from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from operator import is_
from typing import Any, Final
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import LC_ID_PREFIX, AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_openai import ChatOpenAI
from openai import AsyncStream
from pydantic import PrivateAttr

from lockstitch.graph.models.chunks import ChunkReader
from lockstitch.graph.models.failure import ErrorReplyError
from lockstitch.graph.models.kept_fields import KEPT, TEXTS, fields_of, name_calls, put_back
from lockstitch.graph.models.posting import Endpoint
from lockstitch.graph.models.stream import object_text

CHAT_COMPLETIONS: Final = "/chat/completions"
JSON_HEADERS: Final = {"Content-Type": "application/json"}


class LeanChatOpenAI(ChatOpenAI):
    """ChatOpenAI that encodes each message once. Other APIs than chat completions go the stock way."""

    _sent: tuple[list[BaseMessage], list[bytes]] = PrivateAttr(default=([], []))  # last; with their JSON
    _tools: tuple[object, bytes] = PrivateAttr(default=(None, b""))  # the list last sent, and its JSON
    _address: Endpoint | None = PrivateAttr(default=None)

    async def ainvoke(
        self,
        input: LanguageModelInput,  # noqa: A002  LangChain's signature
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """The reply. Where nobody listens LangChain's callbacks are left out, which walk every message."""
        given = ensure_config(config).get("callbacks")
        listeners = AsyncCallbackManager.configure(given, self.callbacks, self.verbose).handlers
        if listeners or self.streaming or not isinstance(input, list):
            return await super().ainvoke(input, config, stop=stop, **kwargs)
        return reply_of(await self._agenerate(input, stop=stop, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = self._request(messages, stop, kwargs)
        if request is None:
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        if self._address is None:
            self._address = Endpoint(self.root_async_client, CHAT_COMPLETIONS)
        reply = readable(await self._address.post(**request))
        if isinstance(reply, dict) and reply.get("error"):
            raise ErrorReplyError(reply["error"], key=self.root_async_client.api_key)
        result = self._create_chat_result(reply)
        for choice, generation in zip(reply["choices"], result.generations, strict=True):
            if kept := fields_of(choice["message"], endpoint=self._endpoint):
                generation.message.additional_kwargs[KEPT] = kept
        return result

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        *,
        stream_usage: bool | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self._should_stream_usage(stream_usage, **kwargs):
            kwargs["stream_options"] = {"include_usage": True}
        request = self._request(messages, stop, {**kwargs, "stream": True})
        if request is None:
            async for chunk in super()._astream(
                messages, stop, run_manager, stream_usage=stream_usage, **kwargs
            ):
                yield chunk
            return
        stream = await self.root_async_client.post(
            CHAT_COMPLETIONS,
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[dict[str, Any]],
            content=request["content"],
            options={"headers": request["headers"], "params": request["params"]},
        )
        reader = ChunkReader()
        async with stream:
            async for event in stream:
                if delta := reader.read(event):
                    yield self._chunk(delta)
        yield self._last_chunk(reader)

    def _request(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Content, headers and parameters; None for another API, and for replies that are parsed."""
        sent, bodies = self._sent
        same = sum(takewhile(bool, map(is_, sent, messages)))  # mostly all: a conversation grows at its end
        fresh = messages[same:]
        rest = super()._get_request_payload(fresh, stop=stop, **options)
        converted = rest.pop("messages", None)
        if converted is None or "response_format" in rest:
            return None
        bodies = [*bodies[:same], *map(self._encode, converted, fresh)]
        self._sent = (list(messages), bodies)
        extra = {**(rest.pop("extra_body", None) or {})}
        return {
            "headers": {**JSON_HEADERS, **(rest.pop("extra_headers", None) or {})},
            "params": rest.pop("extra_query", None) or {},
            "content": splice(bodies, self._encode_tools(rest), rest | extra),
        }

    @property
    def _endpoint(self) -> str:
        """The host, by which one endpoint's own fields are told from another's."""
        return str(self.root_async_client.base_url.host)

    def _chunk(self, delta: dict[str, Any]) -> ChatGenerationChunk:
        event = {"choices": [{"index": 0, "delta": delta}]}
        chunk = self._convert_chunk_to_generation_chunk(event, AIMessageChunk, None)
        assert chunk is not None  # which only a missing delta would give
        if kept := {name: delta[name] for name in TEXTS if name in delta}:
            chunk.message.additional_kwargs[KEPT] = kept
        return chunk

    def _last_chunk(self, reader: ChunkReader) -> ChatGenerationChunk:
        event, kept = reader.last(endpoint=self._endpoint)
        chunk = self._convert_chunk_to_generation_chunk(event, AIMessageChunk, None)
        assert isinstance(chunk, ChatGenerationChunk)
        assert isinstance(chunk.message, AIMessageChunk)
        chunk.message.chunk_position = "last"
        if kept:
            chunk.message.additional_kwargs[KEPT] = kept
        return chunk

    def _encode_tools(self, rest: dict[str, Any]) -> bytes:
        """The tools, taken out of the rest, of which they are the most: the same list each time."""
        tools = rest.pop("tools", None)
        if tools is not self._tools[0]:
            self._tools = (tools, encode(tools))
        return self._tools[1] if tools else b""

    def _encode(self, converted: dict[str, Any], message: BaseMessage) -> bytes:
        put_back(converted, message, endpoint=self._endpoint)
        return encode(converted)


def reply_of(result: ChatResult) -> AIMessage:
    """The message of a result as `BaseChatModel.ainvoke` gives it, with its own id."""
    (generation,) = result.generations
    reply = generation.message
    assert isinstance(reply, AIMessage)
    reply.id = reply.id or f"{LC_ID_PREFIX}-{uuid4()}-0"
    reply.response_metadata = {
        **(result.llm_output or {}),
        **(generation.generation_info or {}),
        **reply.response_metadata,
    }
    return reply


def readable(reply: Any) -> Any:
    """The reply with every call's arguments as text: some servers send the object itself, or a list.

    LangChain takes an object for arguments, and refuses the whole reply for anything else; as text that is
    no object such a call is an invalid one, which the model is told.
    """
    for choice in reply.get("choices") or [] if isinstance(reply, dict) else []:
        calls = (choice.get("message") or {}).get("tool_calls") or []
        name_calls(calls)
        for call in calls:
            function = call.get("function") or {}
            given = function.get("arguments")
            text = given if isinstance(given, str) else json.dumps(given or {})
            function["arguments"] = object_text(text)
    return reply


def splice(messages: Sequence[bytes], tools: bytes, rest: dict[str, Any]) -> bytes:
    """The JSON of a request from its encoded messages, its encoded tools and everything else."""
    return b"".join(
        (
            *(b'{"messages":[', b",".join(messages), b"],"),
            *((b'"tools":', tools, b",") if tools else ()),
            encode(rest)[1:],
        )
    )


def encode(value: Any) -> bytes:
    """JSON as the openai client writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
