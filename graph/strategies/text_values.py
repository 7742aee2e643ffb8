"""Values in the text of a call: strings, numbers, lists and objects, read and written, never evaluated.

What could mean two things is no value: the reader says so, and the model writes it again.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

from lockstitch.graph.strategies.text_strings import quote_string, read_string
from lockstitch.state.errors import ToolValidationError

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

DEPTH_MAX: Final = 50  # lists and objects inside each other; Python's own stack ends near 1,000
SHOWN_CHARS: Final = 40  # of what stands at the place of a fault

_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "none": None}
_BLANK: Final = re.compile(r"\s*")
_BARE: Final = re.compile(r"[^\s,()\[\]{}=:\"']+")
_KEY: Final = re.compile(r"[^\W\d]\w*(?=\s*:)")
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


class ValueReader:
    """A place in a text that moves on as values are read.

    Every method that reads raises a ToolValidationError where the text does not fit.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    def take(self, mark: str) -> bool:
        """Step over blanks and, where it comes next, over `mark`."""
        self.skip(_BLANK)
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Step over what the pattern matches here, nothing when it does not; returns it."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def fail(self, what: str) -> NoReturn:
        """Say what is wrong at this place."""
        shown = self.text[self.at : self.at + SHOWN_CHARS]
        raise ToolValidationError(f"{what}, before {shown!r}" if shown.strip() else f"{what}, at the end")

    def value(self, depth: int = 0) -> Value:
        """The value that stands here."""
        self.skip(_BLANK)
        if depth > DEPTH_MAX:
            self.fail(f"lists and objects may be {DEPTH_MAX} deep")
        string = read_string(self.text, self.at)
        if string:
            value, self.at = string
            return value
        if depth == 0 and self.text.startswith(("{", "["), self.at):
            found, held = self._json()
            if found:
                return held
        if self.take("{"):
            return self._object(depth)
        return self._list(depth) if self.take("[") else self._word()

    def _json(self) -> tuple[bool, Value]:
        """What is valid JSON means what it means in JSON; anything else is left to the lenient reader."""
        try:
            value, end = _DECODER.raw_decode(self.text, self.at)
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no character
        except (ValueError, RecursionError):
            return False, None
        self.at = end
        return True, value

    def _object(self, depth: int) -> dict[str, Value]:
        items: dict[str, Value] = {}
        while not self.take("}"):
            key = self.skip(_KEY) or self.value(depth + 1)
            if not isinstance(key, str) or key in items:
                self.fail("a key must be text in quotes" if not isinstance(key, str) else "a key comes twice")
            if not self.take(":"):
                self.fail("a colon is missing behind a key")
            items[key] = self.value(depth + 1)
            if not self.take(",") and not self.text.startswith("}", self.at):
                self.fail("a comma or } is missing")
        return items

    def _list(self, depth: int) -> list[Value]:
        items: list[Value] = []
        while not self.take("]"):
            items.append(self.value(depth + 1))
            if not self.take(",") and not self.text.startswith("]", self.at):
                self.fail("a comma or ] is missing")
        return items

    def _word(self) -> Value:
        """A number, a truth value or null; any other bare word may be the name of something."""
        start = self.at
        word = self.skip(_BARE)
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        value = _number_of(word)
        if value is None:
            self.at = start
            self.fail("text must stand in quotes" if word else "a value is missing")
        return value


def render_call(tool: str, args: Mapping[str, Any]) -> str:
    """The call as the model should write it; reading it gives the same arguments back."""
    return f"{tool}({', '.join(f'{name}={render_value(value)}' for name, value in args.items())})"


def render_value(value: Any) -> str:
    """A JSON value as text on one line."""
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote_string(k)}: {render_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render_value, value)) + "]"
    return json.dumps(value)


def _number_of(word: str) -> int | float | None:
    """None for no number, and for one that no computer holds: 5,000 digits, or beyond the largest float."""
    found = _NUMBER.fullmatch(word)
    try:
        value = None if found is None else float(word) if found[1] or found[2] else int(word)
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(word)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


_DECODER: Final = json.JSONDecoder(
    strict=False, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite
)
