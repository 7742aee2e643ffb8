"""The scripted chat model: answers from a scenario file, with no AI at work and no network.

Shipped code: the demo, the tests and a first look without a key run on it. It fails with LangChain's own
provider-neutral error classes, the ones that langchain-openai maps the OpenAI client's errors to.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
    OutputParserException,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, field_validator

from lockstitch.graph.models.scenario import (
    Failure,
    FailureLedger,
    Heard,
    Scenario,
    Turn,
    WireCall,
    estimate_tokens,
    load_scenario,
    turn_for,
)

_ARGUMENT_PIECE_CHARS = 32  # short enough that most calls arrive in several pieces, as providers send them
_WORD = re.compile(r"\s*\S+\s*")
_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "ai": "assistant",
    "tool": "tool",
}
_ERRORS: dict[int, type[ModelError]] = {
    401: ModelAuthenticationError,
    403: ModelPermissionDeniedError,
    404: ModelNotFoundError,
    408: ModelTimeoutError,
    429: ModelRateLimitError,
}


class ScriptedChatModel(BaseChatModel):
    """A chat model that replays `scenario`, given as an object or as the path of its file.

    Attributes:
        calls: requests so far, failed ones too.
        delay_s: waited before each reply, added to the turn's own delay.
    """

    scenario: Scenario
    calls: int = 0
    delay_s: float = Field(default=0, ge=0)
    _failures: FailureLedger = PrivateAttr(default_factory=FailureLedger)

    @field_validator("scenario", mode="before")
    @classmethod
    def _from_file(cls, value: Any) -> Any:
        return load_scenario(Path(value)) if isinstance(value, str | Path) else value

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model_name(self) -> str:
        """The name in step records and usage: `scripted:` and the scenario's name."""
        return f"scripted:{self.scenario.name}"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002  the scenario has chosen already
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Make the scenario's calls possible; the schemas are built as for a real model, then not read."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  LangChain's signature, here and below
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        turn = self._due(messages, kwargs)
        time.sleep(self.delay_s + turn.delay_s)
        self._fail_if_due(turn)
        return ChatResult(generations=[ChatGeneration(message=self._message(turn, messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        turn = self._due(messages, kwargs)
        await asyncio.sleep(self.delay_s + turn.delay_s)
        self._fail_if_due(turn)
        return ChatResult(generations=[ChatGeneration(message=self._message(turn, messages))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = self._due(messages, kwargs)
        await asyncio.sleep(self.delay_s + turn.delay_s)
        self._fail_if_due(turn)
        for piece in self._pieces(turn, messages):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager and chunk.text:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _due(self, messages: Sequence[BaseMessage], options: dict[str, Any]) -> Turn:
        self.calls += 1
        return turn_for(self.scenario, map(_heard, messages), has_tools=bool(options.get("tools")))

    def _fail_if_due(self, turn: Turn) -> None:
        failure = self._failures.due(turn)
        if failure is not None:
            raise error_of(failure)

    def _message(self, turn: Turn, messages: Sequence[BaseMessage]) -> AIMessage:
        calls, invalid = _parse_calls(turn.calls)
        return AIMessage(
            content=turn.say,
            tool_calls=calls,
            invalid_tool_calls=invalid,
            usage_metadata=_usage(turn, messages),
            response_metadata=self._metadata(turn),
        )

    def _pieces(self, turn: Turn, messages: Sequence[BaseMessage]) -> Iterator[AIMessageChunk]:
        for word in _WORD.findall(turn.say):
            yield AIMessageChunk(content=word)
        for index, call in enumerate(turn.calls):
            yield AIMessageChunk(
                content="",
                tool_call_chunks=[tool_call_chunk(name=call.name, args="", id=call.id, index=index)],
            )
            for start in range(0, len(call.arguments), _ARGUMENT_PIECE_CHARS):
                piece = call.arguments[start : start + _ARGUMENT_PIECE_CHARS]
                yield AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(args=piece, index=index)])
        yield AIMessageChunk(
            content="",
            usage_metadata=_usage(turn, messages),
            response_metadata=self._metadata(turn),
            chunk_position="last",
        )

    def _metadata(self, turn: Turn) -> dict[str, Any]:
        return {"model_name": self.model_name, "finish_reason": turn.finish_reason}


def error_of(failure: Failure) -> ModelError:
    """The error a provider's client would raise for this failure, with the attributes OpenAI's carries."""
    if failure.status == "disconnect":
        return ModelConnectionError(failure.message)
    default = ModelAPIError if failure.status >= 500 else ModelInvalidRequestError
    error = _ERRORS.get(failure.status, default)(failure.message)
    vars(error).update(status_code=failure.status, body={"message": failure.message})
    return error


def _heard(message: BaseMessage) -> Heard:
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    return Heard(_ROLES.get(message.type, "user"), message.text, tuple(call["id"] or "" for call in calls))


def _parse_calls(calls: Sequence[WireCall]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Part the calls as langchain-openai does: arguments that are no JSON object make a call invalid."""
    good: list[ToolCall] = []
    bad: list[InvalidToolCall] = []
    for call in calls:
        raw = {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        try:
            parsed = parse_tool_call(raw)
        except OutputParserException as error:
            bad.append(make_invalid_tool_call(raw, str(error)))
            continue
        if parsed is not None and isinstance(parsed["args"], dict):
            good.append(ToolCall(name=parsed["name"], args=parsed["args"], id=parsed["id"], type="tool_call"))
        else:
            bad.append(make_invalid_tool_call(raw, "the arguments are no JSON object"))
    return good, bad


def _usage(turn: Turn, messages: Sequence[BaseMessage]) -> UsageMetadata:
    sent = estimate_tokens(*(message.text for message in messages))
    said = estimate_tokens(turn.say, *(call.arguments for call in turn.calls))
    return UsageMetadata(input_tokens=sent, output_tokens=said, total_tokens=sent + said)
