"""ChatOpenAI at the cost of what is new in a request.

The openai client walks every message of every request against its type hints: 0.12 ms each, 74 ms at 600
messages, for an output equal to its input. Here a message is converted and encoded once, and the request
goes out through the client's public `post`, with its retries, its authentication and its errors. The
bytes on the wire are those of the stock model (tests/graph/test_lean_openai.py compares them).

Messages must not be changed in place once they were sent.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

CHAT_COMPLETIONS: Final = "/chat/completions"
JSON_HEADERS: Final = {"Content-Type": "application/json"}


class LeanChatOpenAI(ChatOpenAI):
    """ChatOpenAI that encodes each message once. Other APIs than chat completions go the stock way."""

    # id of a message -> the message (so that the id stays its own) and its JSON, for those last sent
    _encoded: dict[int, tuple[BaseMessage, bytes]] = PrivateAttr(default_factory=dict)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        rest = super()._get_request_payload([], stop=stop, **kwargs)
        if rest.pop("messages", None) is None or "response_format" in rest:  # the Responses API, or parsing
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        extra = {**(rest.pop("extra_body", None) or {})}
        options = {
            "headers": {**JSON_HEADERS, **(rest.pop("extra_headers", None) or {})},
            "params": rest.pop("extra_query", None) or {},
        }
        body = splice(self._encode_all(messages), rest | extra)
        reply = await self.root_async_client.post(
            CHAT_COMPLETIONS, content=body, cast_to=object, options=options
        )
        return self._create_chat_result(readable(reply))

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """For streams: the messages go into `extra_body`, which the client merges without a walk."""
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "messages" in payload and "response_format" not in payload:
            payload["extra_body"] = {**(payload.get("extra_body") or {}), "messages": payload["messages"]}
            payload["messages"] = []
        return payload

    def _encode_all(self, messages: Sequence[BaseMessage]) -> list[bytes]:
        known = self._encoded  # looked up once: pydantic makes each look at a private attribute a call
        kept = [known.get(id(message)) or (message, self._encode(message)) for message in messages]
        self._encoded = {id(message): (message, body) for message, body in kept}
        return [body for _, body in kept]

    def _encode(self, message: BaseMessage) -> bytes:
        (converted,) = super()._get_request_payload([message])["messages"]
        return encode(converted)


def readable(reply: Any) -> Any:
    """The reply with every call's arguments as text: some servers send the object itself, or a list.

    LangChain takes an object for arguments, and refuses the whole reply for anything else; as text that is
    no object such a call is an invalid one, which the model is told.
    """
    for choice in reply.get("choices") or [] if isinstance(reply, dict) else []:
        for call in (choice.get("message") or {}).get("tool_calls") or []:
            function = call.get("function") or {}
            given = function.get("arguments")
            text = given if isinstance(given, str) else json.dumps(given or {})
            function["arguments"] = text if text.lstrip().startswith("{") else f"no object: {text}"
    return reply


def splice(messages: Sequence[bytes], rest: dict[str, Any]) -> bytes:
    """The JSON of a request from its encoded messages and everything else."""
    return b'{"messages":[' + b",".join(messages) + b"]," + encode(rest)[1:]


def encode(value: Any) -> bytes:
    """JSON as the openai client writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
