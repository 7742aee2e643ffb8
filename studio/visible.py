"""Text from models, files and commands made safe to print: what a terminal would obey is shown instead.

Nothing that others wrote reaches a terminal without passing through here.
"""

from collections.abc import Iterator
from typing import Final

_KEPT: Final = frozenset("\n\t")
_RANGES: Final = (
    (0x00, 0x1F),  # C0: ESC begins every terminal command
    (0x7F, 0x9F),  # DEL and C1: some terminals obey these like ESC sequences
    (0x061C, 0x061C),  # bidi marks, embeddings and isolates: they show text in another order than it runs
    (0x200E, 0x200F),
    (0x2028, 0x202E),  # with the line and paragraph separators, which would forge a line of ours
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),  # lone surrogates: no terminal can be sent them
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0xE0000, 0xE007F),  # tags: whole sentences that nobody sees
)


def _escape(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _codes() -> Iterator[int]:
    for first, last in _RANGES:
        yield from (code for code in range(first, last + 1) if chr(code) not in _KEPT)


_TABLE: Final = {code: _escape(code) for code in _codes()}


def make_visible(text: str) -> str:
    r"""`text` with control, bidi and tag characters as `\x1b`, `\u202e` ...; newline and tab stay."""
    return text.translate(_TABLE)


def one_line(text: str, *, max_chars: int) -> str:
    r"""`text` made visible, in one line of at most `max_chars` characters; a newline becomes `\n`."""
    line = make_visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"
