"""BM25 over pieces: a table of many, in memory or mapped from a folder, and a few beside it that are newer.

The library counts all pieces at once, which takes 0.15 ms a piece; so a table stays as it is while pieces
come and go, until they are too many. New pieces are judged by the table's own rarities and mean length.
"""

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.words import terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1, B = 1.2, 0.75  # BM25's usual saturation and length norm; .5 for B lost .03 of MRR@10
HEADING_WEIGHT: Final = 2  # times a piece's names count among its words: .01 of MRR@10 more than once
VERSION: Final = "1"  # of the terms, K1, B and the files: tables of another one are made anew
_IDS, _FACTS = "ids.npy", "facts.json"  # in the folder, beside the library's own files

ChunkRow = tuple[int, str, int, int, str, str]  # id, path, first, last, symbol, text


class WordTable:
    """Pieces by their ids, in order, and how often each has which term. Never changes."""

    def __init__(self, ids: "NDArray[np.int64]", bm25: Any, vocabulary: dict[str, int], mean: float) -> None:
        self.ids = ids
        self._bm25 = bm25
        self._vocabulary = vocabulary
        self.mean_length = mean

    @classmethod
    def of(cls, rows: Iterable[ChunkRow]) -> Self:
        """Count the terms of the pieces, which come by their ids. Loads numpy and bm25s."""
        import numpy as np

        vocabulary: dict[str, int] = {}
        ids = array("q")
        numbers: list[array[int]] = []
        for row in rows:
            ids.append(row[0])
            terms = _terms(row)
            numbers.append(array("I", (vocabulary.setdefault(term, len(vocabulary)) for term in terms)))
        mean = sum(map(len, numbers)) / max(len(numbers), 1)
        return cls(np.asarray(ids, dtype=np.int64), _count(numbers, vocabulary), vocabulary, mean)

    def save(self, folder: Path) -> None:
        """Write it into an empty folder; OSError where that fails."""
        import numpy as np

        np.save(folder / _IDS, self.ids)
        facts = {"mean": self.mean_length, "empty": self._bm25 is None}
        (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
        if self._bm25 is not None:
            self._bm25.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map what was saved there; OSError or ValueError where it is not whole."""
        import numpy as np

        facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        ids, mean = np.load(folder / _IDS, mmap_mode="r"), float(facts["mean"])
        if facts["empty"]:
            return cls(ids, None, {}, mean)
        import bm25s

        bm25 = bm25s.BM25.load(folder, mmap=True)
        return cls(ids, bm25, bm25.vocab_dict, mean)

    def scores(self, terms: Sequence[str]) -> "NDArray[np.float32]":
        """BM25 of each of its pieces."""
        import numpy as np

        known = [self._vocabulary[term] for term in terms if term in self._vocabulary]
        if self._bm25 is None or not known:
            return np.zeros(len(self.ids), dtype=np.float32)
        found: NDArray[np.float32] = self._bm25.get_scores_from_ids(known)
        return found

    def held(self, term: str) -> int:
        """How many of its pieces have the term."""
        number = self._vocabulary.get(term)
        if self._bm25 is None or number is None:
            return 0
        starts = self._bm25.scores["indptr"]
        return int(starts[number + 1] - starts[number])


class Newer(NamedTuple):
    """A piece that the table has not: its place, how often it has which term, how many in all."""

    place: int
    counts: Counter[str]
    length: int

    @classmethod
    def of(cls, place: int, row: ChunkRow) -> "Newer":
        """Count the terms of a piece."""
        terms = _terms(row)
        return cls(place, Counter(terms), len(terms))


def share_of_words(
    table: WordTable, places: "NDArray[np.int64]", newer: Sequence[Newer], terms: Sequence[str], *, count: int
) -> "NDArray[np.float32]":
    """The share of each of `count` pieces in the most that the terms could give it, 0 to 1.

    Args:
        table: the older pieces.
        places: of each of these; -1 where it has gone.
        newer: the others.
        terms: asked for.
        count: of all pieces that are there.
    """
    import numpy as np

    scores = np.zeros(count, dtype=np.float32)
    rarity = {term: _rarity(table, newer, term) for term in dict.fromkeys(terms)}
    there = places >= 0
    scores[places[there]] = table.scores(list(rarity))[there]
    mean = table.mean_length or sum(piece.length for piece in newer) / max(len(newer), 1) or 1.0
    for piece in newer:
        norm = K1 * (1 - B + B * piece.length / mean)
        found = ((rarity[term], piece.counts[term]) for term in rarity)
        scores[piece.place] = sum(rare * often / (often + norm) for rare, often in found if often)
    most = np.float32(sum(rarity.values()) or 1)
    shares: NDArray[np.float32] = np.clip(scores / most, 0, 1)
    return shares


def _rarity(table: WordTable, newer: Sequence[Newer], term: str) -> float:
    """Lucene's form, as bm25s has it; a term that only newer pieces have is counted among them."""
    import math

    held, total = table.held(term), len(table.ids)
    if not held:
        held, total = sum(term in piece.counts for piece in newer), total + len(newer)
    return math.log(1 + (total - held + 0.5) / (held + 0.5))


def _terms(row: ChunkRow) -> list[str]:
    return terms_of(Chunk(*row[1:]).heading) * HEADING_WEIGHT + terms_of(row[5])


def _count(numbers: "list[array[int]]", vocabulary: dict[str, int]) -> Any:
    """The library's index; None where no piece has a term."""
    if not vocabulary:
        return None
    import bm25s

    bm25 = bm25s.BM25(k1=K1, b=B)
    bm25.index((numbers, vocabulary), show_progress=False)
    return bm25
