"""Text that can be stored and sent: JSON can spell half of a surrogate pair, and nothing can hold it."""

import json
from typing import Any, Final

from langchain_core.messages import AIMessage

_SAID: Final = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs")  # what a model made up


def clean(text: str) -> str:
    r"""The text with a question mark for each half of a pair, such as `\ud800`."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def clean_reply(reply: AIMessage) -> AIMessage:
    """The reply with all that the model said cleaned; the same object where there is nothing to clean."""
    said = {name: getattr(reply, name) for name in _SAID}
    try:
        json.dumps(said, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return reply.model_copy(update=_clean_all(said))
    return reply


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
