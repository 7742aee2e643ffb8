"""What can be stored and sent: JSON can spell half of a surrogate pair, NaN, and a number of 5,000 digits."""

import json
import math
from typing import Any, Final

from langchain_core.messages import AIMessage

_SAID: Final = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")  # what a model made up
DEPTH_MAX: Final = 100  # lists and objects inside each other; msgpack ends at 256, JSON itself near 1,000
_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack holds
_COUNTS: Final = range(2**53)  # of tokens; what JSON holds exactly everywhere


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value read from JSON can be stored in a checkpoint and sent as JSON again."""
    match value:
        case int():
            return value in _INTEGERS
        case float():
            return math.isfinite(value)
        case list() | dict():
            parts = value.values() if isinstance(value, dict) else value
            return depth < DEPTH_MAX and all(is_plain(part, depth + 1) for part in parts)
        case _:
            return True


def clean(text: str) -> str:
    r"""The text with a question mark for each half of a pair, such as `\ud800`."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # halves that fit
    return paired.encode("utf-8", errors="replace").decode("utf-8")


def clean_reply(reply: AIMessage) -> AIMessage:
    """The reply with all that the model said cleaned; the same object where there is nothing to clean.

    Counts of tokens that are none, and what the endpoint says of itself and cannot be stored, are left out.
    """
    update: dict[str, Any] = {}
    said = {name: getattr(reply, name) for name in _SAID}
    try:
        json.dumps(said, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        update |= _clean_all(said)
    counts = (reply.usage_metadata or {}).values()
    if not all(isinstance(count, dict) or _is_count(count) for count in counts):
        update["usage_metadata"] = None
    if not is_plain(reply.response_metadata):
        update["response_metadata"] = {}
    return reply.model_copy(update=update) if update else reply


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value in _COUNTS


def _clean_all(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [_clean_all(part) for part in value]
        case dict():
            return {_clean_all(key): _clean_all(part) for key, part in value.items()}
        case _:
            return value
