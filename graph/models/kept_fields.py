"""The fields that some endpoints add to a reply and want back with it: the model's reasoning, mostly.

DeepSeek, Kimi and vLLM send `reasoning_content`, newer vLLM and OpenRouter `reasoning`, OpenRouter
`reasoning_details` (to be sent back unmodified), Gemini `extra_content` beside each tool call. They are kept
under one name in a message's `additional_kwargs`, and go back to the endpoint they came from alone: others
refuse fields they do not know.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import BaseMessage

KEPT: Final = "provider_fields"  # in additional_kwargs
TEXTS: Final = ("reasoning_content", "reasoning")
DETAILS: Final = "reasoning_details"
EXTRA: Final = "extra_content"  # of each tool call; kept by the call's id
ENDPOINT: Final = "endpoint"  # the host it came from
_GROWING: Final = ("text", "summary", "data")  # of a detail; in a stream they come in pieces


def fields_of(message: dict[str, Any], *, endpoint: str) -> dict[str, Any]:
    """What is to be kept of a message as the endpoint sent it; empty for most."""
    kept = {name: message[name] for name in (*TEXTS, DETAILS) if message.get(name)}
    extra = {call["id"]: call[EXTRA] for call in message.get("tool_calls") or () if call.get(EXTRA)}
    if extra:
        kept[EXTRA] = extra
    return {ENDPOINT: endpoint, **kept} if kept else {}


def name_calls(calls: Sequence[dict[str, Any]]) -> None:
    """Give a call that has extra content an id to keep it by, where the endpoint gave none."""
    for call in calls:
        if call.get(EXTRA) and not call.get("id"):
            call["id"] = f"call_{uuid4().hex[:24]}"


def put_back(converted: dict[str, Any], message: BaseMessage, *, endpoint: str) -> None:
    """Add what was kept of `message` to the JSON that will be sent for it."""
    kept = message.additional_kwargs.get(KEPT)
    if not kept or kept.get(ENDPOINT) != endpoint:
        return
    converted.update({name: kept[name] for name in (*TEXTS, DETAILS) if name in kept})
    for call in converted.get("tool_calls") or ():
        if call["id"] in kept.get(EXTRA, ()):
            call[EXTRA] = kept[EXTRA][call["id"]]


def add_details(details: list[dict[str, Any]], pieces: Sequence[Any]) -> None:
    """Add a stream's pieces of details to `details`: of one kind and index, they are parts of one."""
    for piece in pieces:
        if not isinstance(piece, dict):
            continue
        last = details[-1] if details else {}
        if [last.get("type"), last.get("index")] != [piece.get("type"), piece.get("index")]:
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            grows = name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str)
            if value is not None:
                last[name] = last[name] + value if grows else value
