"""The thread's messages as the lines that `recall` searches: what was said, called and answered."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from lockstitch.graph.memory.turns import is_persons
from lockstitch.tools.history import HistoryEntry

SEARCH: Final = "recall"  # its own calls and results are left out: a search must not find itself


def history_of(messages: Sequence[AnyMessage]) -> list[HistoryEntry]:
    """Every text of the thread with its place and who said it."""
    return [
        HistoryEntry(number, who, text)
        for number, message in enumerate(messages, 1)
        for who, text in _texts_of(message)
        if text
    ]


def _texts_of(message: AnyMessage) -> Iterator[tuple[str, str]]:
    if isinstance(message, ToolMessage):
        if message.name != SEARCH:
            yield f"result of {message.name or 'a tool'}", message.text
        return
    if not isinstance(message, AIMessage):
        yield "person" if is_persons(message) else "note", message.text
        return
    yield "model", message.text
    for call in message.tool_calls:
        if call["name"] != SEARCH:
            yield f"call of {call['name']}", "\n".join(_lines_of(call["args"]))


def _lines_of(value: Any, name: str = "") -> Iterator[str]:
    """An argument's texts as they are, line by line, so that each is found as it was written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines_of(inner, f"{key}: ")
    elif isinstance(value, list):
        for inner in value:
            yield from _lines_of(inner, name)
    else:
        yield name + (value if isinstance(value, str) else json.dumps(value))
