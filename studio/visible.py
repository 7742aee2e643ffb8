"""Text from models, files and commands made safe to print: what a terminal would obey is shown instead.

Nothing that others wrote reaches a terminal or a log without passing through here. A character is judged by
itself, or by the one before it, so text that comes in pieces is as safe as the whole.
"""

import re
from collections.abc import Iterator
from typing import Final

_KEPT: Final = frozenset("\n\t")
# web/visible.js has the same ranges; a test compares them.
_RANGES: Final = (
    (0x00, 0x1F),  # C0: ESC begins every terminal command
    (0x7F, 0x9F),  # DEL and C1: some terminals obey these like ESC sequences
    (0xAD, 0xAD),  # soft hyphen, and others of no width: two names look the same and are not
    (0x034F, 0x034F),
    (0x061C, 0x061C),  # bidi marks, embeddings and isolates: they show text in another order than it runs
    (0x115F, 0x1160),  # fillers: letters that look like blanks
    (0x17B4, 0x17B5),
    (0x180E, 0x180E),
    (0x200B, 0x200B),  # zero-width space; the joiners beside it are below
    (0x200E, 0x200F),
    (0x2028, 0x202E),  # with the line and paragraph separators, which would forge a line of ours
    (0x2060, 0x206F),  # word joiner, invisible operators, isolates, and old switches of shape
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # lone surrogates: no terminal can be sent them
    (0xFE00, 0xFE0D),  # variants of a character, which can carry hidden bytes; emoji need only FE0E and FE0F
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),  # unassigned, and interlinear annotation
    (0xE0000, 0xE0FFF),  # tags and more variants: whole sentences that nobody sees
)
# Joiners hold emoji and the letters of some scripts together. After ASCII, or one another, they hide.
_IDLE_JOINER: Final = re.compile("(?:^|(?<=[\x00-\x7f\u200c\u200d]))[\u200c\u200d]")


def _escape(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _codes() -> Iterator[int]:
    for first, last in _RANGES:
        yield from (code for code in range(first, last + 1) if chr(code) not in _KEPT)


_TABLE: Final = {code: _escape(code) for code in _codes()}


def make_visible(text: str) -> str:
    r"""`text` with control, bidi and invisible characters as `\x1b`, `\u202e` ...; newline and tab stay."""
    shown = text.translate(_TABLE)
    if "\u200c" not in shown and "\u200d" not in shown:
        return shown  # nearly always; to look costs a tenth of the pattern
    return _IDLE_JOINER.sub(lambda found: _escape(ord(found[0])), shown)


def one_line(text: str, *, max_chars: int) -> str:
    r"""`text` made visible, in one line of at most `max_chars` characters; a newline becomes `\n`."""
    line = make_visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"
