"""Reads the tool calls of a reply, however broken, so that every one of them gets exactly one answer.

Providers send bad JSON, unknown names, missing ids and the same id twice. None of that may break the
conversation: the reply is stored with calls that are whole, and a call that cannot be read carries the
reason to the model.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.messages.tool import ToolCall

UNREADABLE_ARGS_CHARS: Final = 200  # of broken arguments, shown back to the model
NAME_CHARS: Final = 128  # of a tool's name; the most that any provider takes
_NOT_IN_A_NAME: Final = re.compile(
    r"[^A-Za-z0-9_-]"
)  # to OpenAI and Anthropic, which refuse the whole history


@dataclass(frozen=True)
class ReadCall:
    """A call with an id of its own; `fault` says why it cannot be made, empty when it can."""

    id: str
    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


def read_reply(reply: AIMessage) -> tuple[AIMessage, list[ReadCall]]:
    """The reply as it may be stored, and its calls in order."""
    reply = _storable(reply)
    calls = [
        ReadCall(c.get("id") or "", c.get("name") or "", dict(c.get("args") or {})) for c in reply.tool_calls
    ]
    calls += [
        ReadCall(c.get("id") or "", c.get("name") or "", fault=_fault(c.get("args")))
        for c in reply.invalid_tool_calls
    ]
    if not calls:
        return reply, []
    whole = _with_own_ids(calls)
    return _stored(reply, whole), whole


def _fault(args: str | None) -> str:
    shown = (args or "")[:UNREADABLE_ARGS_CHARS]
    return f"the arguments are no JSON object: {shown!r}. Call it again with one."


def _with_own_ids(calls: list[ReadCall]) -> list[ReadCall]:
    """Missing ids are made, and the second call of an id gets its own: results are matched by id."""
    seen: set[str] = set()
    whole = []
    for call in calls:
        own = call.id if call.id and call.id not in seen else f"call_{uuid4().hex[:24]}"
        seen.add(own)
        whole.append(ReadCall(own, _sendable(call.tool), call.args, call.fault))
    return whole


def _sendable(name: str) -> str:
    """The name as providers take it back; models make up others, such as `functions.read_file`."""
    return _NOT_IN_A_NAME.sub("_", name)[:NAME_CHARS] or "unnamed"


def _stored(reply: AIMessage, calls: list[ReadCall]) -> AIMessage:
    """The reply with readable calls alone: what the provider gets back must be valid for every provider."""
    tool_calls = [ToolCall(name=c.tool, args=c.args, id=c.id, type="tool_call") for c in calls]
    extra = {k: v for k, v in reply.additional_kwargs.items() if k != "tool_calls"}
    content = reply.content if isinstance(reply.content, str) else _without_call_blocks(reply.content)
    return reply.model_copy(
        update={
            "content": content,
            "tool_calls": tool_calls,
            "invalid_tool_calls": [],
            "additional_kwargs": extra,
        }
    )


def _without_call_blocks(content: list[Any]) -> list[Any]:
    """Content blocks without the calls: LangChain writes them again from `tool_calls`."""
    kinds = ("tool_use", "tool_call", "function_call", "invalid_tool_call")
    return [block for block in content if not (isinstance(block, dict) and block.get("type") in kinds)]


def _storable(value: Any) -> Any:
    """The reply without halves of surrogate pairs, which no database and no request can hold."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case list():
            return [_storable(part) for part in value]
        case dict():
            return {_storable(key): _storable(part) for key, part in value.items()}
        case AIMessage() if _is_broken(value):
            fields = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")
            return value.model_copy(update={name: _storable(getattr(value, name)) for name in fields})
        case _:
            return value


def _is_broken(reply: AIMessage) -> bool:
    try:
        said = (reply.content, reply.tool_calls, reply.invalid_tool_calls, reply.additional_kwargs)
        json.dumps(said, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return True
    return False
