"""How full the model's window is, and when older turns must be folded. Pure arithmetic."""

import json
from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from lockstitch.graph.conversation import new_part
from lockstitch.graph.note import is_notice

CHARS_PER_TOKEN: Final = 3  # pessimistic: English has 4 and more, code about 3, and a window must not burst


def estimate_tokens(chars: int) -> int:
    """Tokens of a text of that length, rather too many than too few."""
    return -(-chars // CHARS_PER_TOKEN)


def should_compact(context_tokens: int, new_chars: int, window: int, share: float) -> bool:
    """Whether the next prompt would fill more than `share` of the window.

    Args:
        context_tokens: of the last prompt and its reply, as the model counted them.
        new_chars: characters that came since.
        window: tokens the model can read.
        share: 0 to 1.
    """
    return context_tokens + estimate_tokens(new_chars) > window * share


def chars_of(messages: Sequence[BaseMessage]) -> int:
    """Characters a model is sent of the messages: texts, other content, and the arguments of calls."""
    return sum(_chars_of(message) for message in messages)


def new_chars(messages: Sequence[BaseMessage]) -> int:
    """Characters that came since the model last spoke."""
    return chars_of(new_part(messages))  # type: ignore[arg-type]  # reads no more than a BaseMessage has


def prompt_tokens(context_tokens: int, prompt: Sequence[BaseMessage]) -> int:
    """Tokens of the prompt: as the model counted up to its last reply, estimated for what came since.

    All of it is estimated where nothing was counted, as after a compaction.
    """
    if context_tokens:
        return context_tokens + estimate_tokens(new_chars(prompt))
    return estimate_tokens(chars_of(prompt))


def estimate_usage(prompt: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    """What a call took, for an endpoint that does not say."""
    read, written = (estimate_tokens(chars_of(messages)) for messages in (prompt, [reply]))
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)


def _chars_of(message: BaseMessage) -> int:
    if is_notice(message):
        return 0
    content = message.content
    chars = len(content) if isinstance(content, str) else len(json.dumps(content, default=str))
    if isinstance(message, AIMessage):
        chars += sum(len(json.dumps(call["args"], default=str)) for call in message.tool_calls)
    return chars
