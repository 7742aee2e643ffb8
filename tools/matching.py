"""Finding a text in a file: where it stands, and what comes near it when it does not."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from lockstitch.tools.text_file import split_lines

CANDIDATES: Final = 3  # shown on a miss; a fourth has not been the right one in practice
CANDIDATE_LINES: Final = 12  # of each
CANDIDATE_CHARS: Final = 200  # of each line
COMPARED: Final = 50  # windows compared by difflib, the best by words in common: keeps a miss under 0.1 s
COMPARED_CHARS: Final = 2_000  # of each, since difflib needs quadratic time
NEARNESS_MIN: Final = 0.4  # difflib's ratio; below it lines have little to do with each other
_WORD: Final = re.compile(r"\w+")
_NUMBERED: Final = re.compile(r"\s*\d+\t")


@dataclass(frozen=True)
class Place:
    """Where a text was found: offsets in characters, and the line from 1 on which it begins."""

    start: int
    end: int
    line: int


def find_places(text: str, wanted: str) -> list[Place]:
    r"""Every place of `wanted`, in order; `\n` and `\r\n` are the same. Linear in the text.

    They do not overlap, but for this: where there is one place, another that overlaps it is given as
    well, so that one place means that no other reading is possible.
    """
    plain, sought = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    starts = list(_starts(plain, sought))
    if len(starts) == 1 and (overlapping := plain.find(sought, starts[0] + 1)) >= 0:
        starts.append(overlapping)
    pairs = [match.start() - before for before, match in enumerate(re.finditer("\r\n", text))]
    places: list[Place] = []
    line, counted = 1, 0
    for start in starts:
        end = start + len(sought)
        line, counted = line + plain.count("\n", counted, start), start
        places.append(Place(start + bisect_left(pairs, start), end + bisect_left(pairs, end), line))
    return places


def replace_places(text: str, places: list[Place], new: str) -> str:
    """The text with `new` at each of the places, which are in order; one that overlaps is left out."""
    parts: list[str] = []
    done = 0
    for place in places:
        if place.start >= done:
            parts += [text[done : place.start], new]
            done = place.end
    return "".join([*parts, text[done:]])


def show_candidates(text: str, wanted: str) -> str:
    """The lines that come nearest to `wanted`, with their numbers, as text; says so when none does."""
    lines = split_lines(text)
    sought = split_lines(wanted)
    hint = "Leave out the line numbers that read_file puts before the text.\n" if _is_numbered(sought) else ""
    ranked = sorted(_scored(lines, sought), key=lambda scored: (-scored[0], scored[1]))
    near = [start for score, start in ranked[:CANDIDATES] if score >= NEARNESS_MIN]
    if not near:
        return f"{hint}Nothing in the file comes near it: read_file shows what is there."
    shown = "\n...\n".join(_window(lines, start, len(sought)) for start in near)
    return f"{hint}The nearest places are:\n{shown}"


def _starts(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _is_numbered(lines: list[str]) -> bool:
    return bool(lines) and all(_NUMBERED.match(line) for line in lines)


def _scored(lines: list[str], sought: list[str]) -> Iterator[tuple[float, int]]:
    """The best windows: how near, and the line from 0 they start at."""
    anchor = max(range(len(sought)), key=lambda at: len(sought[at].strip()), default=0)
    words = set(_WORD.findall(sought[anchor])) if sought else set()
    overlap = [(len(words.intersection(_WORD.findall(line))), at) for at, line in enumerate(lines)]
    best = sorted((pair for pair in overlap if pair[0]), key=lambda pair: (-pair[0], pair[1]))[:COMPARED]
    wanted = _essence(sought)
    for _, at in best:
        start = max(0, at - anchor)
        window = _essence(lines[start : start + len(sought)])
        yield SequenceMatcher(None, window, wanted, autojunk=False).ratio(), start


def _essence(lines: list[str]) -> str:
    """Without indents and the like, the most frequent reason for a miss."""
    return "\n".join(" ".join(line[:COMPARED_CHARS].split()) for line in lines)[:COMPARED_CHARS]


def _window(lines: list[str], start: int, count: int) -> str:
    stop = min(len(lines), start + min(count, CANDIDATE_LINES))
    return "\n".join(f"{at + 1:>6}\t{lines[at][:CANDIDATE_CHARS]}" for at in range(start, stop))
