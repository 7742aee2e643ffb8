"""A reply that is read while it is written: its pieces for those who watch, then the whole of it."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple, cast

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk

from lockstitch.graph.models.clean import clean
from lockstitch.graph.models.failure import BrokenStreamError
from lockstitch.graph.models.kept_fields import KEPT, TEXTS
from lockstitch.state.events import AgentDelta, Event

EVERY_S: Final = 0.05  # between two events of one kind; an eye sees no more
CHARS: Final = 200  # or as many at once, so that a fast model's pieces stay small

Hear = Callable[[AIMessageChunk], None]


class _Kind(NamedTuple):
    name: Literal["text", "reasoning", "tool_call"]
    call: int | str | None = None  # which of the reply's calls


class Deltas:
    """Tells of a reply's chunks as events, several chunks in one where they come fast.

    What a reply has told stays told when it breaks off; a notice says that it is asked for again.
    """

    def __init__(
        self, emit: Callable[[Event], None], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._emit = emit
        self._monotonic = monotonic
        self._kind: _Kind | None = None
        self._tool = ""
        self._waiting = ""
        self._told_at: float | None = None

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take the next chunk of the reply."""
        for kind, text, tool in _pieces(chunk):
            if kind != self._kind:
                self.flush()
                self._kind, self._tool, self._told_at = kind, tool, None
            self._waiting += text
            if self._is_due():
                self._tell(self._hold_half())

    def flush(self) -> None:
        """Tell what is still waiting: another kind begins, or the reply has ended."""
        if self._waiting:
            self._tell("")

    def _is_due(self) -> bool:
        told_at = self._told_at
        return told_at is None or len(self._waiting) >= CHARS or self._monotonic() - told_at >= EVERY_S

    def _hold_half(self) -> str:
        """The first half of a surrogate pair at the end, whose second half comes with the next chunk."""
        return self._waiting[-1:] if "\ud800" <= self._waiting[-1:] <= "\udbff" else ""

    def _tell(self, held: str) -> None:
        assert self._kind is not None
        text = clean(self._waiting.removesuffix(held))
        self._waiting = held
        if text or (self._kind.name == "tool_call" and self._told_at is None):
            self._emit(AgentDelta(kind=self._kind.name, content=text, tool=self._tool))
            self._told_at = self._monotonic()


async def read_stream(chunks: AsyncIterator[AIMessage], hear: Hear) -> AIMessage:
    """The whole reply, equal to one that was not streamed; `hear` gets each chunk as it comes.

    Raises:
        BrokenStreamError: there was nothing to read.
    """
    read: list[AIMessageChunk] = []
    async with aclosing(cast("AsyncGenerator[AIMessage]", chunks)):  # what LangChain's `astream` is
        async for chunk in chunks:
            if not isinstance(chunk, AIMessageChunk):
                return chunk  # of a client that cannot stream
            hear(chunk)
            read.append(chunk)
    if not read:
        raise BrokenStreamError("no chunk")
    return whole(read)


def whole(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that the chunks add up to. Calls are read strictly: half of an argument is none."""
    # not at start-up: it brings in all the parsers
    from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call

    added = add_ai_message_chunks(*chunks)
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for piece in added.tool_call_chunks:
        raw = {
            "id": piece["id"],
            "function": {"name": piece["name"], "arguments": object_text(piece["args"] or "")},
        }
        try:
            call = parse_tool_call(raw)
        except OutputParserException as error:
            broken.append(make_invalid_tool_call(raw, str(error)))
        else:
            assert call is not None  # which only a call without a function would give
            calls.append(ToolCall(name=call["name"], args=call["args"], id=call["id"], type="tool_call"))
    return AIMessage(
        content=added.content,
        additional_kwargs=added.additional_kwargs,
        response_metadata=added.response_metadata,
        id=added.id,
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=added.usage_metadata,
    )


def object_text(arguments: str) -> str:
    """A call's arguments, spoilt where they are JSON of something else than an object; none are `{}`."""
    text = arguments.strip() or "{}"
    return arguments if text.startswith("{") else f"no object: {arguments}"


def _pieces(chunk: AIMessageChunk) -> Iterator[tuple[_Kind, str, str]]:
    """What a chunk adds, as kind, text and name of the tool."""
    if reasoning := _reasoning(chunk):
        yield _Kind("reasoning"), reasoning, ""
    if chunk.text:
        yield _Kind("text"), chunk.text, ""
    for call in chunk.tool_call_chunks:
        yield _Kind("tool_call", _which(call)), call["args"] or "", call["name"] or ""


def _which(call: ToolCallChunk) -> int | str | None:
    return call["index"] if call["index"] is not None else call["id"]


def _reasoning(chunk: AIMessageChunk) -> str:
    """The model's thinking, wherever its provider puts it."""
    kept = {**chunk.additional_kwargs, **chunk.additional_kwargs.get(KEPT, {})}
    said: list[Any] = [kept[name] for name in TEXTS if kept.get(name)][:1]
    for block in chunk.content if isinstance(chunk.content, list) else ():
        if isinstance(block, dict):
            said += [block.get("thinking"), block.get("reasoning")]
            said += [part.get("text") for part in block.get("summary") or () if isinstance(part, dict)]
    return "".join(part for part in said if isinstance(part, str))
