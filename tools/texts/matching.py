"""Finding a text in a file: where it stands, exactly or read more loosely, and never one place of several.

The levels are tried from the strictest, and the first that finds anything decides.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lockstitch.tools.texts.text_lines import LINE_LEVELS, WITHOUT_BLANKS, Level, Range, TextLines, fold

PLACES_SHOWN: Final = 10  # line numbers in one error; more only say that the text is far too short


@dataclass(frozen=True)
class Place:
    """Where a text was found: offsets in characters, the line from 1 on which it begins, and how.

    A `whole` place holds whole lines with their ends, whether or not the text sought has a last newline.
    """

    start: int
    end: int
    line: int
    level: Level = "exact"
    whole: bool = False


def find_places(text: str, wanted: str) -> list[Place]:
    r"""Every place of `wanted` at the first level that has one, in order. Linear in the text.

    They do not overlap, but for this: where there is one place, another that overlaps it is given as
    well, so that one place means that no other reading is possible.
    """
    exact = list(_substrings(text, wanted, "exact"))
    if exact:
        return exact
    if fold(wanted) != wanted or not text.isascii():
        alike = list(_substrings(fold(text), fold(wanted), "typography"))
        if alike:
            return alike
    return find_lines(TextLines(text), TextLines(wanted), LINE_LEVELS)


def find_lines(
    lines: TextLines, wanted: TextLines, levels: Sequence[Level], *, overlapping: bool = False
) -> list[Place]:
    """As `find_places`, but whole lines only, at the given levels; overlapping ones when asked for."""
    longest = max(wanted.text.split(), key=len, default="")
    if fold(longest) not in fold(lines.text):  # no level takes words apart: a miss in most files ends here
        return []
    loosest = lines.find(wanted, levels[-1], overlapping=overlapping)
    if len(loosest) < 2:  # the stricter levels find nothing else
        return _places(lines, wanted, loosest, levels[-1])
    for level in levels[:-1]:
        if ranges := lines.find(wanted, level, overlapping=overlapping):
            return _places(lines, wanted, ranges, level)
    return _places(lines, wanted, loosest, levels[-1])


def lines_of(places: Sequence[Place]) -> str:
    """The lines on which places begin, as text."""
    more = " and more" if len(places) > PLACES_SHOWN else ""
    return ", ".join(str(place.line) for place in places[:PLACES_SHOWN]) + more


def _substrings(text: str, wanted: str, level: Level) -> Iterator[Place]:
    r"""Places of `wanted`, where `\n` and `\r\n` are the same."""
    plain, sought = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    starts = list(_starts(plain, sought))
    if len(starts) == 1 and (overlapping := plain.find(sought, starts[0] + 1)) >= 0:
        starts.append(overlapping)
    pairs = (
        [match.start() - before for before, match in enumerate(re.finditer("\r\n", text))] if starts else []
    )
    line, counted = 1, 0
    for start in starts:
        end = start + len(sought)
        line, counted = line + plain.count("\n", counted, start), start
        yield Place(start + bisect_left(pairs, start), end + bisect_left(pairs, end), line, level)


def _starts(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _places(lines: TextLines, wanted: TextLines, ranges: Sequence[Range], level: Level) -> list[Place]:
    places: list[Place] = []
    offset, counted = 0, 0
    for found in ranges:
        first, last = _with_blanks(lines, wanted, found) if level in WITHOUT_BLANKS else found
        if first >= counted:
            offset += sum(map(len, lines.lines[counted:first]))
        else:
            offset -= sum(map(len, lines.lines[first:counted]))
        counted = first
        length = sum(map(len, lines.lines[first : last + 1]))
        places.append(Place(offset, offset + length, first + 1, level, whole=True))
    return places


def _with_blanks(lines: TextLines, wanted: TextLines, found: Range) -> Range:
    """The range with those blank lines around it that `wanted` has as well."""
    first, last = found
    for line in wanted.bare:
        if line.strip() or first == 0 or lines.bare[first - 1].strip():
            break
        first -= 1
    for line in reversed(wanted.bare):
        if line.strip() or last + 1 == len(lines.bare) or lines.bare[last + 1].strip():
            break
        last += 1
    return first, last
