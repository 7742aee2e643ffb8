"""Reads the tool calls of a reply, however broken, so that every one of them gets exactly one answer.

Providers send bad JSON, unknown names, missing ids and the same id twice. None of that may break the
conversation: the reply is stored with calls that are whole, and a call that cannot be read carries the
reason to the model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import AIMessage
from langchain_core.messages.tool import ToolCall

from lockstitch.graph.models.clean import is_plain

UNREADABLE_ARGS_CHARS: Final = 200  # of broken arguments, shown back to the model
NOT_PLAIN: Final = "the arguments hold a number that is too large or none, or are nested too deep."
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
    content = reply.content if isinstance(reply.content, str) else _without_call_blocks(reply.content)
    return with_calls(reply, whole, content=content), whole


def checked(call: ReadCall) -> ReadCall:
    """The call; with a fault in place of arguments that can neither be stored nor sent back."""
    return call if is_plain(call.args) else ReadCall(call.id, call.tool, fault=call.fault or NOT_PLAIN)


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
        whole.append(checked(ReadCall(own, _sendable(call.tool), call.args, call.fault)))
    return whole


def _sendable(name: str) -> str:
    """The name as providers take it back; models make up others, such as `functions.read_file`."""
    return _NOT_IN_A_NAME.sub("_", name)[:NAME_CHARS] or "unnamed"


def with_calls(reply: AIMessage, calls: Sequence[ReadCall], *, content: str | list[Any]) -> AIMessage:
    """The reply with that content, and with those calls alone: valid for every provider when sent back."""
    return reply.model_copy(
        update={
            "content": content,
            "tool_calls": [ToolCall(name=c.tool, args=c.args, id=c.id, type="tool_call") for c in calls],
            "invalid_tool_calls": [],
            "additional_kwargs": {k: v for k, v in reply.additional_kwargs.items() if k != "tool_calls"},
        }
    )


def _without_call_blocks(content: list[Any]) -> list[Any]:
    """Content blocks without the calls: LangChain writes them again from `tool_calls`."""
    kinds = ("tool_use", "tool_call", "function_call", "invalid_tool_call")
    return [block for block in content if not (isinstance(block, dict) and block.get("type") in kinds)]
