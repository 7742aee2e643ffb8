"""The tables of an index on disk, beside it, so that no process has to count and convert all pieces anew.

They are kept when a build ends, by the one that builds, and mapped by whoever searches. The index names the
folder of each; one that is missing or damaged is made anew in memory.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from lockstitch.state.errors import AgentError
from lockstitch.tools.code_index.index_file import VECTOR_TABLE, WORD_TABLE, IndexFile
from lockstitch.tools.code_index.vector_table import ROWS_A_STEP, VectorRow, VectorTable, save_vectors
from lockstitch.tools.code_index.word_table import VERSION, ChunkRow, WordTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW: Final = 500  # pieces are counted in 0.1 s: no reason to keep a table
SHARE: Final = 0.1  # of the pieces may differ: counting them costs a tenth of all, and rarities hardly change
SUFFIXES: Final = {WORD_TABLE: "words", VECTOR_TABLE: "vectors"}


def is_far(table: "NDArray[np.int64]", live: "NDArray[np.int64]", *, share: float = SHARE) -> bool:
    """Whether a table of these ids is too old for the pieces that are there."""
    import numpy as np

    same = int(np.isin(live, table, assume_unique=True).sum())
    differing = len(table) + len(live) - 2 * same
    return differing > share * len(live)


def keep_tables(index: IndexFile, model: str, *, complete: bool) -> None:
    """Write tables where they are too old; `model` is empty without vectors. For the one that builds.

    A build that is not complete grows on: then a table is written when the pieces have doubled. Where the
    disk has no room nothing is kept.
    """
    import numpy as np

    live = np.asarray(index.ids(), dtype=np.int64)
    if len(live) <= FEW:
        return
    share = SHARE if complete else 1.0
    words = load_words(index)
    if is_far(np.zeros(0, dtype=np.int64) if words is None else words.ids, live, share=share):
        _keep(index, WORD_TABLE, lambda folder: WordTable.of(_chunks(index)).save(folder), VERSION)
    if model and complete:
        vectors = load_vectors(index, model)
        if is_far(np.zeros(0, dtype=np.int64) if vectors is None else vectors.ids, live):
            ids = index.ids(model)
            _keep(
                index, VECTOR_TABLE, lambda folder: save_vectors(folder, ids, _vectors(index, model)), model
            )


def load_words(index: IndexFile) -> WordTable | None:
    """The table of words that was kept."""
    folder = _folder(index, WORD_TABLE, VERSION)
    with suppress(OSError, ValueError, KeyError):
        return WordTable.load(folder) if folder else None
    return None


def load_vectors(index: IndexFile, model: str) -> VectorTable | None:
    """The table of this model's vectors that was kept."""
    folder = _folder(index, VECTOR_TABLE, model)
    with suppress(OSError, ValueError):
        return VectorTable.load(folder) if folder else None
    return None


def drop_tables(path: Path, *, but: str = "", kinds: Sequence[str] = tuple(SUFFIXES.values())) -> None:
    """Delete the tables beside the index at `path`; who has them mapped goes on with them."""
    for kind in kinds:
        for folder in path.parent.glob(f"{path.stem}.{kind}-*"):
            if folder.name != but:
                shutil.rmtree(folder, ignore_errors=True)


def table_bytes(path: Path) -> int:
    """What the tables beside an index take on disk."""
    folders = (path.parent.glob(f"{path.stem}.{kind}-*/*") for kind in SUFFIXES.values())
    return sum(file.stat().st_size for files in folders for file in files)


def _keep(index: IndexFile, which: str, save: Callable[[Path], None], of: str) -> None:
    kind = SUFFIXES[which]
    folder = index.path.with_name(f"{index.path.stem}.{kind}-{uuid4().hex[:8]}")
    try:
        folder.mkdir(mode=0o700)
        save(folder)
        for file in folder.iterdir():
            file.chmod(0o600)  # as all in the home; who saves them asks for no mode
        index.set_meta(which, f"{folder.name}\n{of}")
    except (OSError, AgentError):  # a full disk: the tables save time and are needed by nobody
        shutil.rmtree(folder, ignore_errors=True)
        return
    drop_tables(index.path, but=folder.name, kinds=(kind,))


def _folder(index: IndexFile, which: str, of: str) -> Path | None:
    """Where the table lies that was made of this; None where there is none."""
    name, _, made_of = index.meta(which).partition("\n")
    return index.path.with_name(name) if name and made_of == of else None


def _chunks(index: IndexFile) -> Iterator[ChunkRow]:
    last = 0
    while rows := index.chunk_rows(after=last, limit=ROWS_A_STEP):
        yield from rows
        last = rows[-1][0]


def _vectors(index: IndexFile, model: str) -> Iterator[list[VectorRow]]:
    last = 0
    while rows := index.vector_rows(model, after=last, limit=ROWS_A_STEP):
        yield rows
        last = rows[-1][0]
