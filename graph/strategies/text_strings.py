"""Text in quotes, as models write it: single, double, triple and raw; and back.

An escape that could mean two things is refused: the reader says so, and the model writes it again.
"""

import re
from typing import Final

from lockstitch.state.errors import ToolValidationError

_OPENING: Final = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')")
_PLAIN: Final = {quote: re.compile(rf"[^{quote}\\]*") for quote in "\"'"}
_RAW: Final = {quote: re.compile(rf"((?:[^{quote}\\]++|\\.)*+){quote}", re.DOTALL) for quote in "\"'"}
# one character at a time, and not possessive: Python 3.11.2 loses a look-ahead in a possessive repeat
_BLOCK: Final = {
    quote * 3: re.compile(rf"((?:[^{quote}\\]|\\.|{quote}(?!{quote}{quote}))*)({quote}{{3,}})", re.DOTALL)
    for quote in "\"'"
}
_HEX: Final = r"[\da-fA-F]"
_ESCAPE: Final = re.compile(
    rf"\\(?:u([dD][89abAB]{_HEX}{{2}})\\u([dD][c-fC-F]{_HEX}{{2}})"
    rf"|(?:u({_HEX}{{4}})|U({_HEX}{{8}})|x({_HEX}{{2}}))|(.))",
    re.DOTALL,
)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_AMBIGUOUS: Final = frozenset("abfvuUx0123456789")  # a character to some, part of a regex or path to others
_TO_ESCAPE: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def read_string(text: str, at: int) -> tuple[str, int] | None:
    """The string that begins at `at` and where it ends; None when no quote stands there.

    Raises:
        ToolValidationError: it never ends, or holds an escape that is no character.
    """
    opening = _OPENING.match(text, at)
    if opening is None:
        return None
    prefix, quote = opening.groups()
    if len(quote) == 3:
        return _read_block(text, opening.end(), quote)
    if prefix in ("r", "R"):
        return _read_raw(text, opening.end(), quote)
    return _read_plain(text, opening.end(), quote)


def quote_string(text: str) -> str:
    """The text in double quotes, on one line; reading it gives the same text back."""
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _read_plain(text: str, at: int, quote: str) -> tuple[str, int]:
    """Escapes as in JSON and Python; a backslash before any other character stays, as in a regex."""
    pieces: list[str] = []
    while found := _PLAIN[quote].match(text, at):
        pieces.append(found[0])
        at = found.end()
        if text.startswith(quote, at):
            return "".join(pieces), at + 1
        escape = _ESCAPE.match(text, at)
        if escape is None:
            break
        pieces.append(_character(escape))
        at = escape.end()
    raise ToolValidationError("a quote is never closed")


def _read_raw(text: str, at: int, quote: str) -> tuple[str, int]:
    """Like r"..." in Python: a backslash stays, and keeps the quote behind it from closing."""
    found = _RAW[quote].match(text, at)
    if found is None:
        raise ToolValidationError("a quote is never closed")
    return found[1], found.end()


def _read_block(text: str, at: int, quote: str) -> tuple[str, int]:
    """Between triple quotes everything counts as it stands, so code keeps its backslashes.

    Three escaped quotes are three quotes. A text may end in a quote: of a longer run the last three close.
    """
    found = _BLOCK[quote].match(text, at)
    if found is None:
        raise ToolValidationError("a triple quote is never closed")
    mark = "\\" + quote[0]
    held = found[1] + found[2][3:]
    return held.replace(mark * 3, quote).replace("\\" + quote, quote), found.end()


def _character(escape: re.Match[str]) -> str:
    high, low, four, eight, two, other = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    if other is None:
        code = int(four or eight or two, 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
            raise ToolValidationError(f"the escape {escape[0]} is no character")
        return chr(code)
    if other in _AMBIGUOUS:
        raise ToolValidationError(
            f"the escape \\{other} in a text can mean two things: write \\\\{other} for a backslash and "
            f"{other!r}"
        )
    return _ESCAPED.get(other, escape[0])
