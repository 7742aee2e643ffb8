"""The vectors of pieces: a table of many, in memory or mapped from a folder, searched by FAISS.

The search is flat, which is exact: 0.7 ms of processor at 10,000 pieces, 6 at 100,000, 20 at 300,000, while
encoding the question takes 10. HNSW takes 0.7 there, but 75 s to build, and misses 13 % of the first 200.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IDS, _VECTORS = "vector_ids.npy", "vectors.npy"
ROWS_A_STEP: Final = 10_000  # 8 MB as they are kept, 15 MB as they are searched

VectorRow = tuple[int, bytes]  # id of a piece, its vector in half precision


class VectorTable:
    """The vectors of pieces, by the pieces' ids, in order. Never changes."""

    def __init__(self, ids: "NDArray[np.int64]", matrix: "NDArray[np.float32]") -> None:
        self.ids = ids
        self.matrix = matrix

    @property
    def width(self) -> int:
        """Numbers of a vector; 0 where there is none."""
        return int(self.matrix.shape[1]) if len(self.ids) else 0

    @classmethod
    def of(cls, rows: Sequence[VectorRow]) -> Self:
        """The rows, which come by their ids. Loads numpy."""
        import numpy as np

        ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
        return cls(ids, _matrix(rows))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map what was saved there; OSError or ValueError where it is not whole."""
        import numpy as np

        return cls(
            np.load(folder / _IDS, mmap_mode="r"),
            np.load(folder / _VECTORS, mmap_mode="r"),
        )

    def nearest(self, vector: "NDArray[np.float32]", count: int) -> Iterable[tuple[int, float]]:
        """Rows and cosines of the nearest, the best first. Loads faiss."""
        import faiss

        if not len(self.ids):
            return ()
        faiss.omp_set_num_threads(1)  # of this thread: two take 5 times the processor, half of it spinning
        cosines, rows = faiss.knn(
            vector[None], self.matrix, min(count, len(self.ids)), metric=faiss.METRIC_INNER_PRODUCT
        )
        return zip(rows[0].tolist(), cosines[0].tolist(), strict=True)


def save_vectors(folder: Path, ids: Sequence[int], steps: Iterable[Sequence[VectorRow]]) -> None:
    """Write the vectors of these pieces into a folder, a few at a time; OSError where that fails."""
    import numpy as np

    matrix, done = None, 0
    for rows in steps:
        part = _matrix(rows)
        if matrix is None:
            shape = (len(ids), part.shape[1])
            matrix = np.lib.format.open_memmap(folder / _VECTORS, mode="w+", dtype=np.float32, shape=shape)
        matrix[done : done + len(part)] = part
        done += len(part)
    if matrix is not None:
        matrix.flush()
    np.save(folder / _IDS, np.asarray(ids, dtype=np.int64))


def _matrix(rows: Sequence[VectorRow]) -> "NDArray[np.float32]":
    import numpy as np

    if not rows:
        return np.zeros((0, 0), dtype=np.float32)
    joined = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f2")
    return joined.reshape(len(rows), -1).astype(np.float32)
