"""An index in memory: the words and the meaning of all pieces that are there, each at its place.

Most come from tables that may be mapped from the disk and hold what has gone since; the rest are newer.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from lockstitch.tools.code_index.vector_table import VectorRow, VectorTable
from lockstitch.tools.code_index.word_table import ChunkRow, Newer, WordTable, share_of_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CANDIDATES: Final = 200  # of each kind; more change no result among the first ten

LiveRow = tuple[int, str, str]  # id, path and symbol of a piece that is there


class Scored(NamedTuple):
    """A piece by its place in the columns: the cosine of its meaning, its share of the words asked for."""

    place: int
    meaning: float | None  # None where it has no vector yet
    words: float


class Columns:
    """All pieces, by their ids. Loads numpy. About 0.3 KB a piece beside the tables."""

    def __init__(
        self,
        live: Sequence[LiveRow],
        words: WordTable,
        vectors: VectorTable,
        *,
        newer: Sequence[ChunkRow] = (),
        encoded: Sequence[VectorRow] = (),
    ) -> None:
        import numpy as np

        self.ids = np.fromiter((row[0] for row in live), dtype=np.int64, count=len(live))
        self.paths = [row[1] for row in live]
        self.symbols = [row[2] for row in live]
        self._words, self._word_places = words, places_of(words.ids, self.ids)
        self._newer = [Newer.of(self._place(row[0]), row) for row in newer]
        self._vectors, self._vector_places = vectors, places_of(vectors.ids, self.ids)
        self._encoded = VectorTable.of(encoded)
        self._encoded_places = places_of(self._encoded.ids, self.ids)

    @classmethod
    def of(cls, rows: Sequence[ChunkRow], vectors: Sequence[VectorRow]) -> Self:
        """Pieces by their ids, and the vectors of some, with nothing kept."""
        live = [(row[0], row[1], row[4]) for row in rows]
        return cls(live, WordTable.of(rows), VectorTable.of(vectors))

    @property
    def encoded(self) -> int:
        """How many pieces have a vector."""
        return int((self._vector_places >= 0).sum()) + len(self._encoded.ids)

    @property
    def width(self) -> int:
        """Numbers of a vector; 0 where there is none."""
        return self._vectors.width or self._encoded.width

    def score(self, terms: Sequence[str], vector: Sequence[float] | None) -> list[Scored]:
        """The pieces that are among the first by words or by meaning, with both scores, in no order."""
        import numpy as np

        count = len(self.ids)
        if not count:
            return []
        words = share_of_words(self._words, self._word_places, self._newer, terms, count=count)
        best = np.argpartition(-words, min(CANDIDATES, count) - 1)[:CANDIDATES]
        asked = None if vector is None else np.asarray(vector, dtype=np.float32)
        near = {} if asked is None or not self.encoded else self._near(asked)
        by_words = [int(place) for place in best if words[place] > 0 and int(place) not in near]
        if asked is not None and near:
            near |= self._meaning_of(by_words, asked)
        return [Scored(place, near.get(place), float(words[place])) for place in {*near, *by_words}]

    def _place(self, number: int) -> int:
        import numpy as np

        return int(np.searchsorted(self.ids, number))

    def _near(self, vector: "NDArray[np.float32]") -> dict[int, float]:
        """Places and cosines of the nearest."""
        gone = int((self._vector_places < 0).sum())
        tables = (
            (self._vectors, self._vector_places, CANDIDATES + min(gone, CANDIDATES)),
            (self._encoded, self._encoded_places, CANDIDATES),
        )
        return {
            int(places[row]): max(0.0, cosine)
            for table, places, count in tables
            for row, cosine in table.nearest(vector, count)
            if places[row] >= 0
        }

    def _meaning_of(self, places: Sequence[int], vector: "NDArray[np.float32]") -> dict[int, float]:
        """The cosines of pieces that were found by their words."""
        import numpy as np

        wanted, found = self.ids[np.asarray(places, dtype=np.int64)], dict[int, float]()
        for table in (self._vectors, self._encoded):
            rows = places_of(wanted, table.ids)
            for place, row in zip(places, rows.tolist(), strict=True):
                if row >= 0:
                    found[place] = max(0.0, float(table.matrix[row] @ vector))
        return found


def places_of(numbers: "NDArray[np.int64]", among: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Where each number stands among others, which are in order; -1 where it does not."""
    import numpy as np

    if not len(among):
        return np.full(len(numbers), -1, dtype=np.int64)
    found = np.minimum(np.searchsorted(among, numbers), len(among) - 1)
    return np.where(among[found] == numbers, found, -1)
