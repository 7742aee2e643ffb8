"""The control blocks of reason-act-observe: reads them from a reply, as a call or as JSON in its text.

Pure, and never raises: what is missing or broken is free text.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from langchain_core.messages import AIMessage

from lockstitch.graph.models.clean import clean

DECIDE_NEXT: Final = "agent_decide_next"
OBSERVE_DECIDE: Final = "agent_observe_decide"
INTERNAL_TOOLS: Final = frozenset({DECIDE_NEXT, OBSERVE_DECIDE})
BLOCK_CHARS: Final = (
    100_000  # searched, from the end of the text: the block ends it, and an answer may be long
)

_REASON_KEYS: Final = ("plan", "tools_to_consider", "finish")
_OBSERVE_KEYS: Final = ("observation", "should_continue", "final_answer")
_FENCE_OPENS: Final = re.compile(r"```[ \t]*(?:json)?\s*\Z", re.IGNORECASE)
_FENCE_CLOSES: Final = re.compile(r"\A\s*```")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True)
class ReasonBlock:
    """How the reason phase ends."""

    plan: str = ""
    tools_to_consider: tuple[str, ...] = ()
    finish: bool = False


@dataclass(frozen=True, kw_only=True)
class ObserveBlock:
    """How the observe phase ends."""

    observation: str = ""
    should_continue: bool = True
    final_answer: str = ""


_Block = TypeVar("_Block", ReasonBlock, ObserveBlock)


def parse_reason(reply: AIMessage) -> tuple[str, ReasonBlock | None]:
    """The reply's text without its block, and the block; None where there is none to read."""
    return _parse(reply, DECIDE_NEXT, _REASON_KEYS, _reason_block)


def parse_observe(reply: AIMessage) -> tuple[str, ObserveBlock | None]:
    """As parse_reason, for the observe phase."""
    return _parse(reply, OBSERVE_DECIDE, _OBSERVE_KEYS, _observe_block)


def _parse(
    reply: AIMessage, tool: str, keys: tuple[str, ...], build: Callable[[dict[str, Any]], _Block]
) -> tuple[str, _Block | None]:
    """A call of the internal tool wins over the text; the block is cut out of the text in both cases."""
    text, in_text = split_block(reply.text, keys)
    found = _called(reply, tool, keys) or in_text
    return clean(text), build(found) if found else None


def _called(reply: AIMessage, tool: str, keys: tuple[str, ...]) -> dict[str, Any] | None:
    whole = [
        call["args"] for call in reply.tool_calls if call["name"] == tool and has_key(call["args"], keys)
    ]
    if whole:
        return dict(whole[-1])
    broken = [call.get("args") or "" for call in reply.invalid_tool_calls if call.get("name") == tool]
    return split_block(broken[-1], keys)[1] if broken else None


def split_block(text: str, keys: tuple[str, ...]) -> tuple[str, dict[str, Any] | None]:
    """The text without the last JSON object that has one of `keys`, and that object.

    A later mention of a key means that the real block is broken, and the whole is free text.
    """
    head, tail = text[:-BLOCK_CHARS], text[-BLOCK_CHARS:]
    found = [(start, end, value) for start, end, value in _objects(tail) if has_key(value, keys)]
    if not found:
        return text, None
    start, end, value = found[-1]
    if any(f'"{key}"' in tail[end:] for key in keys):
        return text, None
    return _without(head + tail, len(head) + start, len(head) + end), value


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Every outermost JSON object in the text, with its place."""
    start = text.find("{")
    while start >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield start, end, value
        start = text.find("{", end)


def _without(text: str, start: int, end: int) -> str:
    """The text without a part of it and the code fence around that."""
    before, behind = text[:start], text[end:]
    if _FENCE_OPENS.search(before):
        before, behind = _FENCE_OPENS.sub("", before), _FENCE_CLOSES.sub("", behind)
    return f"{before.rstrip()}\n{behind.strip()}".strip()


def has_key(value: Any, keys: tuple[str, ...]) -> bool:
    """Whether it is an object with one of the keys."""
    return isinstance(value, dict) and any(key in value for key in keys)


def _reason_block(value: dict[str, Any]) -> ReasonBlock:
    tools = value.get("tools_to_consider")
    return ReasonBlock(
        plan=_words(value.get("plan")),
        tools_to_consider=tuple(map(_words, tools)) if isinstance(tools, list) else (),
        finish=_truth(value.get("finish"), otherwise=False),
    )


def _observe_block(value: dict[str, Any]) -> ObserveBlock:
    return ObserveBlock(
        observation=_words(value.get("observation")),
        should_continue=_truth(value.get("should_continue"), otherwise=True),
        final_answer=_words(value.get("final_answer")),
    )


def _truth(value: Any, *, otherwise: bool) -> bool:
    """Models write booleans as words too; what is neither changes nothing."""
    return {"true": True, "false": False}.get(str(value).strip().lower(), otherwise)


def _words(value: Any) -> str:
    """Text as it is, nothing as empty, anything else as JSON."""
    if value is None:
        return ""
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).strip()
