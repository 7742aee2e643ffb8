"""A text as lines that keep their ends, and the looser readings by which lines are held to be the same."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final, Literal

Level = Literal["exact", "typography", "line ends", "blank lines", "indentation", "layout"]
"""How loosely a text was read to find it, from the strictest:

    exact         character by character; only CRLF and LF are the same
    typography    curly and straight quotes, long and short dashes, hard and soft blanks are the same
    line ends     whole lines; as typography, and blanks or a newline at their end do not count
    blank lines   as line ends, and lines without text are left out
    indentation   as line ends, and blanks and tabs in front do not count, nor how many stand between words
    layout        indentation and blank lines together
"""
LINE_LEVELS: Final[tuple[Level, ...]] = ("line ends", "blank lines", "indentation", "layout")
WITHOUT_BLANKS: Final = frozenset[Level]({"blank lines", "layout"})
_ALIKE: Final = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2009\u202f",
}  # one for one: places in the folded text are places in the text
_END: Final = re.compile(r"(?:\r\n|\n|\r)\Z")

OVERLAPPING_MAX: Final = 1_000  # each costs a search of its own

Range = tuple[int, int]  # the first line and the last, from 0


def cut_lines(text: str) -> list[str]:
    r"""The lines with their ends; `\r` alone ends a line only where there is no `\n` at all."""
    newline = "\n" if "\n" in text else "\r"
    *ended, last = text.split(newline)
    return [line + newline for line in ended] + [last] * bool(last)


def end_of(line: str) -> str:
    """The newline of a line from `cut_lines`, or nothing."""
    found = _END.search(line, max(0, len(line) - 2))
    return found[0] if found else ""


def bare(line: str) -> str:
    """The line without its newline."""
    return line[: len(line) - len(end_of(line))]


def fold(text: str) -> str:
    """The text with plain quotes, dashes and blanks in the place of typographic ones, as long as before."""
    if text.isascii():
        return text
    for plain, fancy in _ALIKE.items():
        for char in fancy:
            text = text.replace(char, plain)  # a search that finds nothing is faster than translate
    return text


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same from the beginning, and of the rest how many from the end."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    return head, tail


class TextLines:
    """The lines of one text, to be searched at any level; what a level needs is made once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = cut_lines(text)
        self._indexes: dict[Level, tuple[str, list[int]]] = {}

    @cached_property
    def bare(self) -> list[str]:
        """The lines without their newlines."""
        if "\r" in self.text:
            return [bare(line) for line in self.lines]
        return [line.removesuffix("\n") for line in self.lines]

    def find(self, wanted: "TextLines", level: Level, *, overlapping: bool = False) -> list[Range]:
        """Where all lines of `wanted` stand one after the other, read at `level`; in order.

        The ranges do not overlap unless asked for, but for this: where there is one, another that overlaps
        it is given as well, so that one range means that no other reading is possible. None are found of a
        text without words, and at most 1,000 of those that overlap.
        """
        sought, _ = wanted._index(level)  # noqa: SLF001  another of this class
        joined, numbers = self._index(level)
        if not sought.strip():
            return []
        count = sought.count("\n") - 1
        firsts = (
            islice(_line_numbers(joined, sought, 1), OVERLAPPING_MAX)
            if overlapping
            else _line_numbers(joined, sought, len(sought) - 1)
        )
        return [(numbers[first], numbers[first + count - 1]) for first in firsts]

    def _index(self, level: Level) -> tuple[str, list[int]]:
        """The readings of the lines, a newline before and behind each, and the line each belongs to."""
        if level not in self._indexes:
            keys = _readings(self.bare, level)
            numbers = list(range(len(keys)))
            if level in WITHOUT_BLANKS:
                numbers = [number for number, key in enumerate(keys) if key]
                keys = [key for key in keys if key]
            self._indexes[level] = ("\n" + "".join(f"{key}\n" for key in keys), numbers)
        return self._indexes[level]


def _readings(lines: list[str], level: Level) -> list[str]:
    """What counts of each line; no reading holds a newline."""
    if level == "exact":
        return lines
    folded = fold("\n".join(lines)).split("\n") if lines else []
    if level in {"indentation", "layout"}:
        return [" ".join(line.split()) for line in folded]
    return [line.rstrip() for line in folded]


def _line_numbers(joined: str, sought: str, step: int) -> Iterator[int]:
    """The line from 0 of each place of `sought`; the newline between two places belongs to both."""
    at = joined.find(sought)
    line, counted, found = 0, 0, 0
    while at >= 0:
        line, counted, found = line + joined.count("\n", counted, at), at, found + 1
        yield line
        at, first = joined.find(sought, at + step), at
    if found == 1 and step > 1 and (at := joined.find(sought, first + 1)) >= 0:
        yield line + joined.count("\n", counted, at)
