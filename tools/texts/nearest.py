"""The places that come nearest to a text that a file does not have, and what differs there."""

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from lockstitch.tools.texts.text_file import split_lines

CANDIDATES: Final = 3  # shown on a miss; a fourth has not been the right one in practice
CANDIDATE_LINES: Final = 12  # of each
CANDIDATE_CHARS: Final = 200  # of each line
COMPARED: Final = 50  # windows compared by difflib, the best by words in common: keeps a miss under 0.1 s
COMPARED_CHARS: Final = 2_000  # of each, since difflib needs quadratic time
NEARNESS_MIN: Final = 0.4  # difflib's ratio; below it lines have little to do with each other
DIFFERENCES: Final = 3  # lines that differ, shown of the best candidate
SHORT_CHARS: Final = 3  # lines such as `}` are everywhere
_WORD: Final = re.compile(r"\w+")
_NUMBERED: Final = re.compile(r"\s*\d+\t")


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
    return f"{hint}The nearest places are:\n{shown}{_differences(lines, sought, near[0])}"


def _is_numbered(lines: list[str]) -> bool:
    return bool(lines) and all(_NUMBERED.match(line) for line in lines)


def _scored(lines: list[str], sought: list[str]) -> Iterator[tuple[float, int]]:
    """The best windows: how near, and the line from 0 they start at."""
    wanted = _essence(sought)
    matcher = SequenceMatcher(None, "", wanted, autojunk=False)
    for start in _starts(lines, sought):
        matcher.set_seq1(_essence(lines[start : start + len(sought)]))
        yield matcher.ratio(), start


def _starts(lines: list[str], sought: list[str]) -> list[int]:
    """Where windows may begin: by lines that both have, and by words of the longest line sought."""
    votes: Counter[int] = Counter()
    places = {line.strip(): at for at, line in enumerate(sought) if len(line.strip()) > SHORT_CHARS}
    anchor = max(range(len(sought)), key=lambda at: len(sought[at].strip()), default=0)
    words = set(_WORD.findall(sought[anchor])) if sought else set()
    for at, line in enumerate(lines):
        if (place := places.get(line.strip())) is not None:
            votes[max(0, at - place)] += len(words) + 1
        if words and (common := len(words.intersection(_WORD.findall(line[:COMPARED_CHARS])))):
            votes[max(0, at - anchor)] += common
    if not votes:
        votes.update(range(min(len(lines), COMPARED)))
    return sorted(votes, key=lambda start: (-votes[start], start))[:COMPARED]


def _essence(lines: list[str]) -> str:
    """Without indents and the like, the most frequent reason for a miss."""
    return "\n".join(" ".join(line[:COMPARED_CHARS].split()) for line in lines)[:COMPARED_CHARS]


def _window(lines: list[str], start: int, count: int) -> str:
    stop = min(len(lines), start + min(count, CANDIDATE_LINES))
    return "\n".join(f"{at + 1:>6}\t{lines[at][:CANDIDATE_CHARS]}" for at in range(start, stop))


def _differences(lines: list[str], sought: list[str], start: int) -> str:
    """What the nearest place has otherwise, line against line."""
    window = lines[start : start + len(sought)][:COMPARED]
    matcher = SequenceMatcher(None, window, sought[:COMPARED], autojunk=False)
    said: list[str] = []
    for tag, here, to, there, until in matcher.get_opcodes():
        if tag != "equal":
            has = lines[start + here] if here < to else None
            wants = sought[there] if there < until else None
            said.append(f"line {start + here + 1}: the file has {_quoted(has)}, you wrote {_quoted(wants)}")
    return "".join(f"\n{line}" for line in said[:DIFFERENCES])


def _quoted(line: str | None) -> str:
    return "no such line" if line is None else repr(line[:CANDIDATE_CHARS])
