"""The whole conversation of a thread as text, and the search for lines in it."""

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

WORD_CHARS: Final = 2  # shorter words are in almost every line
SHARE_MIN: Final = 0.25  # of the query's weight that a line must have; less is chance


@dataclass(frozen=True)
class HistoryEntry:
    """One text of a thread: `number` is the message's place in it, from 1; 0 of what is no message."""

    number: int
    who: str  # person, model, note, result of TOOL, or where a text is kept
    text: str


@dataclass(frozen=True)
class HistoryHit:
    """A line that was found, with its neighbours; `line` counts from 1 in the entry's text."""

    entry: HistoryEntry
    line: int
    before: str
    text: str
    after: str


@dataclass(frozen=True)
class HistoryHits:
    """The hits of one page, the best first, and how many there are in all."""

    hits: list[HistoryHit]
    total: int


_Place = tuple[HistoryEntry, Sequence[str], int]


def search_history(
    entries: Iterable[HistoryEntry], query: str, *, offset: int = 0, limit: int
) -> HistoryHits:
    """Find lines: those that are the query, then those that hold it, then those that share words with it.

    Case and the width of blanks do not matter. Rarer words weigh more; among equals the newest comes first.
    Never a regular expression: the query is a model's.
    """
    wanted = fold(query)
    words = frozenset(word for word in wanted.split() if len(word) >= WORD_CHARS) or frozenset({wanted})
    found = _Found(words, room=offset + limit)
    for entry in entries:
        lines = entry.text.split("\n")
        for at, line in enumerate(lines):
            found.take(fold(line), wanted, (entry, lines, at))
    page = islice(found.best(), offset, offset + limit)
    return HistoryHits([_hit(*place) for place in page], found.total)


def fold(text: str) -> str:
    """The text without what a search should not care for: case, and how wide blanks are."""
    return " ".join(text.split()).casefold()


class _Found:
    """Lines by what they share with the query; of each kind the newest, at most `room`."""

    def __init__(self, words: frozenset[str], *, room: int) -> None:
        self._words = words
        self._room = room
        self._same: deque[_Place] = deque(maxlen=room)
        self._holding: deque[_Place] = deque(maxlen=room)
        self._sharing: dict[frozenset[str], deque[_Place]] = {}
        self._counts: Counter[frozenset[str]] = Counter()
        self._exact = 0
        self._lines = 0

    def take(self, line: str, wanted: str, place: _Place) -> None:
        """Look at the next line, which is folded."""
        self._lines += 1
        if wanted in line:
            (self._same if line == wanted else self._holding).append(place)
            self._exact += 1
            return
        shared = frozenset(word for word in self._words if word in line)
        if shared:
            self._counts[shared] += 1
            self._sharing.setdefault(shared, deque(maxlen=self._room)).append(place)

    @property
    def total(self) -> int:
        """All lines found, those included for which there was no room."""
        return self._exact + sum(self._counts[shared] for shared in self._ranked())

    def best(self) -> Iterator[_Place]:
        """The best first."""
        yield from reversed(self._same)
        yield from reversed(self._holding)
        for shared in self._ranked():
            yield from reversed(self._sharing[shared])

    def _ranked(self) -> list[frozenset[str]]:
        """The sets of shared words that weigh enough, the heaviest first."""
        lines_with = Counter[str]()
        for shared, count in self._counts.items():
            lines_with.update(dict.fromkeys(shared, count))
        weights = {word: math.log(1 + self._lines / count) for word, count in lines_with.items()}
        whole = sum(weights.values())
        scored = [(sum(weights[word] for word in shared) / whole, sorted(shared)) for shared in self._counts]
        return [frozenset(shared) for share, shared in sorted(scored, reverse=True) if share >= SHARE_MIN]


def _hit(entry: HistoryEntry, lines: Sequence[str], at: int) -> HistoryHit:
    before = lines[at - 1] if at else ""
    after = lines[at + 1] if at + 1 < len(lines) else ""
    return HistoryHit(entry, at + 1, before, lines[at], after)
