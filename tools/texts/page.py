"""One page of a text: numbered lines from an offset, and what to call for the next page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.spill import SpillStore
from lockstitch.tools.output import cut_note, whole_of

LINE_CHARS: Final = 2_000  # of one line; longer ones are data or minified code
NUMBER_WIDTH: Final = 6  # as cat -n


@dataclass(frozen=True)
class Page:
    """Lines `first` to `last`, from 1, of `total`; `last` is `first - 1` where there are none."""

    text: str
    first: int
    last: int
    total: int


def build_page(lines: Sequence[str], *, offset: int, limit: int, max_chars: int, spill: SpillStore) -> Page:
    """The page from line `offset`: at most `limit` lines and about `max_chars`, but at least one line.

    A line over `LINE_CHARS` is cut; the whole of it goes to `spill`.

    Raises:
        SystemFaultError: a long line could not be kept.
        ToolValidationError: the text ends before `offset`.
    """
    total = len(lines)
    if offset > max(1, total):
        raise ToolValidationError(
            f"the text has {total} lines, so there is no line {offset}: lower the offset."
        )
    rows: list[str] = []
    room = max_chars
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        row = f"{number:>{NUMBER_WIDTH}}\t{_fitted(line, spill)}"
        room -= len(row) + 1
        if rows and room < 0:
            break
        rows.append(row)
    last = offset - 1 + len(rows)
    if last < total:
        rest = f"read_file with offset={last + 1} gives the rest"
        rows.append(cut_note(shown=len(rows), total=total, unit="lines", rest=rest))
    return Page("\n".join(rows) or "[the text is empty]", offset, last, total)


def fold_lines(lines: Sequence[str]) -> list[str]:
    """Long lines broken into several, so that all of a text can be read that is in no file."""
    starts = ((line, range(0, max(1, len(line)), LINE_CHARS)) for line in lines)
    return [line[at : at + LINE_CHARS] for line, places in starts for at in places]


def _fitted(line: str, spill: SpillStore) -> str:
    if len(line) <= LINE_CHARS:
        return line
    note = cut_note(shown=LINE_CHARS, total=len(line), unit="characters", rest=whole_of(line, spill))
    return f"{line[:LINE_CHARS]} {note}"
