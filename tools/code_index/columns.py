"""An index in memory: BM25 over all pieces, and a flat FAISS index over those that have a vector.

Flat is exact and takes 6 ms at 100,000 pieces; HNSW would take 15 s of processor to build at every load.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.words import terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CANDIDATES: Final = 200  # of each kind; more change no result among the first ten
K1, B = 1.2, 0.75  # BM25's usual saturation and length norm; .5 for B lost .03 of MRR@10
HEADING_WEIGHT: Final = 2  # times a piece's names count among its words: .01 of MRR@10 more than once

ChunkRow = tuple[int, str, int, int, str, str]  # id, path, first, last, symbol, text


class Scored(NamedTuple):
    """A piece by its place in the columns: the cosine of its meaning, its share of the words asked for."""

    place: int
    meaning: float | None  # None where it has no vector yet
    words: float


class Columns:
    """All pieces, each at its place. Loads numpy, bm25s and faiss. About 3 KB a piece, with its vector."""

    def __init__(self, rows: Sequence[ChunkRow], vectors: Sequence[tuple[int, bytes]]) -> None:
        self.ids = array("q", (row[0] for row in rows))
        self.paths = [row[1] for row in rows]
        self.symbols = [row[4] for row in rows]
        self._vocabulary: dict[str, int] = {}
        self._bm25 = self._count(rows)
        self._places, self._faiss = _vector_index(self.ids, vectors)

    @property
    def encoded(self) -> int:
        """How many pieces have a vector."""
        return len(self._places)

    @property
    def width(self) -> int:
        """Numbers of a vector; 0 where there is none."""
        return int(self._faiss.d) if self._faiss is not None else 0

    def score(self, terms: Sequence[str], vector: Sequence[float] | None) -> list[Scored]:
        """The pieces that are among the first by words or by meaning, with both scores, in no order."""
        import numpy as np

        if not self.ids:
            return []
        words = self._words(terms)
        best = np.argpartition(-words, min(CANDIDATES, len(words)) - 1)[:CANDIDATES]
        near = (
            {} if vector is None or not self.encoded else self._near(np.asarray([vector], dtype=np.float32))
        )
        by_words = [int(place) for place in best if words[place] > 0 and int(place) not in near]
        if near:
            near |= self._meaning_of(by_words, np.asarray(vector, dtype=np.float32))
        return [Scored(place, near.get(place), float(words[place])) for place in {*near, *by_words}]

    def _count(self, rows: Sequence[ChunkRow]) -> Any:
        """BM25 of all pieces; None where no piece has a word."""
        import bm25s

        ids = [self._numbers(row) for row in rows]
        if not self._vocabulary:
            return None
        bm25 = bm25s.BM25(k1=K1, b=B)
        bm25.index((ids, self._vocabulary), show_progress=False)
        return bm25

    def _numbers(self, row: ChunkRow) -> "array[int]":
        """The terms of a piece by their numbers: 4 bytes each, where strings would have 8 and more."""
        numbers = self._vocabulary
        heading = terms_of(Chunk(*row[1:]).heading) * HEADING_WEIGHT
        return array("I", (numbers.setdefault(term, len(numbers)) for term in heading + terms_of(row[5])))

    def _words(self, terms: Sequence[str]) -> "NDArray[np.float32]":
        """The share of each piece in the most that the terms could give it, 0 to 1."""
        import numpy as np

        asked = list(dict.fromkeys(terms))
        known = [self._vocabulary[term] for term in asked if term in self._vocabulary]
        if self._bm25 is None or not known:
            return np.zeros(len(self.ids), dtype=np.float32)
        scores: NDArray[np.float32] = self._bm25.get_scores_from_ids(known)
        most = np.float32(self._most(known, unknown=len(asked) - len(known)))
        shares: NDArray[np.float32] = np.clip(scores / most, 0, 1)
        return shares

    def _most(self, known: Sequence[int], *, unknown: int) -> float:
        """BM25's bound: the terms' rarity, each as often as can be; Lucene's form, as bm25s has it."""
        import numpy as np

        starts = self._bm25.scores["indptr"]
        held = np.array([starts[number + 1] - starts[number] for number in known] + [0] * unknown)
        rarity = np.log(1 + (len(self.ids) - held + 0.5) / (held + 0.5))
        return float(rarity.sum())

    def _near(self, vector: "NDArray[np.float32]") -> dict[int, float]:
        cosines, numbers = self._faiss.search(vector, min(CANDIDATES, self.encoded))
        found = zip(numbers[0].tolist(), cosines[0].tolist(), strict=True)
        return {self._places[number]: max(0.0, cosine) for number, cosine in found}

    def _meaning_of(self, places: Sequence[int], vector: "NDArray[np.float32]") -> dict[int, float]:
        """The cosines of pieces that were found by their words."""
        found = {}
        for place in places:
            number = bisect_left(self._places, place)
            if number < len(self._places) and self._places[number] == place:
                found[place] = max(0.0, float(self._faiss.reconstruct(number) @ vector))
        return found


def _vector_index(ids: Sequence[int], vectors: Sequence[tuple[int, bytes]]) -> "tuple[array[int], Any]":
    """The places of the pieces that have a vector, and these in a flat index, in one order."""
    if not vectors:
        return array("q"), None
    import faiss
    import numpy as np

    place_of = {number: place for place, number in enumerate(ids)}
    known = [(place_of[number], vector) for number, vector in vectors if number in place_of]
    if not known:
        return array("q"), None
    matrix = np.frombuffer(b"".join(vector for _, vector in known), dtype="<f2").reshape(len(known), -1)
    index = faiss.IndexFlatIP(matrix.shape[1])
    index.add(matrix.astype(np.float32))
    return array("q", (place for place, _ in known)), index
