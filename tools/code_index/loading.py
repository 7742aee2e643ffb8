"""Loading an index: its pieces as they are now, upon tables that were kept or are here already."""

from typing import TYPE_CHECKING, Final

from lockstitch.tools.code_index.columns import Columns
from lockstitch.tools.code_index.index_file import (
    BORN,
    GENERATION,
    VECTORS_BORN,
    VECTORS_GENERATION,
    IndexFile,
)
from lockstitch.tools.code_index.kept_tables import is_far, load_vectors, load_words
from lockstitch.tools.code_index.vector_table import VectorTable
from lockstitch.tools.code_index.word_table import WordTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STATE: Final = (BORN, GENERATION, VECTORS_BORN, VECTORS_GENERATION)


class Loader:
    """The columns of one index, loaded again when it has changed. For one thread at a time.

    At 100,000 pieces 0.25 s of processor, at first and after a change of some files.
    """

    def __init__(self) -> None:
        self._seen: tuple[str, ...] = ()
        self._columns: Columns
        self._words: tuple[str, WordTable] | None = None
        self._vectors: tuple[str, VectorTable] | None = None

    def load(self, index: IndexFile, model: str) -> Columns:
        """The index as it is; `model` is empty where nobody asks by meaning."""
        words = index.words(_STATE)
        state = (*words, model)
        if state != self._seen:
            born, _, vectors_born, _ = words
            self._columns = self._load(index, model, born, f"{born} {vectors_born} {model}")
            self._seen = state
        return self._columns

    def _load(self, index: IndexFile, model: str, born: str, vectors_of: str) -> Columns:
        import numpy as np

        live = index.live_rows()
        ids = np.fromiter((row[0] for row in live), dtype=np.int64, count=len(live))
        words = self._word_table(index, ids, born)
        vectors = self._vector_table(index, ids, model, vectors_of)
        newer = index.rows_of(_missing(ids, words.ids))
        encoded = index.vectors_of(model, _missing(ids, vectors.ids)) if model else []
        return Columns(live, words, vectors, newer=newer, encoded=encoded)

    def _word_table(self, index: IndexFile, ids: "NDArray[np.int64]", born: str) -> WordTable:
        before = self._words[1] if self._words and self._words[0] == born else None
        table = before if before is not None and not is_far(before.ids, ids) else load_words(index)
        if table is None or is_far(table.ids, ids):
            table = WordTable.of(index.chunk_rows())
        self._words = (born, table)
        return table

    def _vector_table(self, index: IndexFile, ids: "NDArray[np.int64]", model: str, of: str) -> VectorTable:
        before = self._vectors[1] if self._vectors and self._vectors[0] == of else None
        table = before if before is not None and not is_far(before.ids, ids) else load_vectors(index, model)
        if table is None or is_far(table.ids, ids):
            table = VectorTable.of(index.vector_rows(model) if model else [])
        self._vectors = (of, table)
        return table


def _missing(ids: "NDArray[np.int64]", table: "NDArray[np.int64]") -> list[int]:
    import numpy as np

    missing: list[int] = np.setdiff1d(ids, table, assume_unique=True).tolist()
    return missing
