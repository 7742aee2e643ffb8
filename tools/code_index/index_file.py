"""One index on disk: files, their pieces and the vectors of these, in one SQLite file of the home.

Every write is a transaction: whoever searches meanwhile reads the state before it, and a crash leaves that
state. Vectors lie by the hash of what was encoded, so that only new text is ever encoded.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self
from uuid import uuid4

from lockstitch.state.database_file import connect_database
from lockstitch.state.locked_database import LockedDatabase
from lockstitch.tools.code_index.chunk import Chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL,
    symbol TEXT NOT NULL, text TEXT NOT NULL, sense TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS chunks_file ON chunks (file);
CREATE INDEX IF NOT EXISTS chunks_sense ON chunks (sense);
CREATE TABLE IF NOT EXISTS vectors (
    sense TEXT NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (sense, model)) WITHOUT ROWID;
"""
_CHUNKS: Final = (
    "SELECT c.id, f.path, c.first, c.last, c.symbol, c.text FROM chunks c JOIN files f ON f.id = c.file "
    "WHERE c.id > ? ORDER BY c.id LIMIT ?"
)
_ENCODED: Final = (
    "SELECT {} FROM chunks c JOIN vectors v ON v.sense = c.sense AND v.model = ? "
    "WHERE c.id > ? ORDER BY c.id LIMIT ?"
)
Counted = Literal["files", "left_out", "chunks", "encoded"]
_COUNTS: Final[dict[Counted, str]] = {
    "files": "SELECT count(*) FROM files WHERE hash != ''",
    "left_out": "SELECT count(*) FROM files WHERE hash = ''",
    "chunks": "SELECT count(*) FROM chunks",
    "encoded": "SELECT count(*) FROM chunks c JOIN vectors v ON v.sense = c.sense AND v.model = ?",
}
FORMAT: Final = 2  # of this file; one of another format is begun anew
BORN: Final = "born"  # a word of its own, so that an index built anew is not taken for the old one
GENERATION: Final = (
    "generation"  # counts the changes of files and pieces, so that a reader knows its own are old
)
VECTORS_BORN: Final = "vectors_born"  # the same of the vectors,
VECTORS_GENERATION: Final = "vectors_generation"  # which come after the pieces
MODEL: Final = "model"  # the index's word on whose vectors it has
WORD_TABLE, VECTOR_TABLE = "word_table", "vector_table"  # its words on what kept_tables.py has beside it


class FileRow(NamedTuple):
    """A file as it was indexed: `stamp` is its look from outside, `hash` its content's; empty if left out."""

    id: int
    stamp: str
    hash: str


class IndexFile:
    """The open file. Any thread may use it, one at a time.

    Every method raises HomeUnusableError where it cannot be written, SystemFaultError where it is damaged or
    locked, or the disk is full; then nothing of the change was made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect_database(path)
        self._database = LockedDatabase(self._connection, name=path.name)
        if self._format() != FORMAT:  # else nothing is written, so that nobody is waited for
            self._begin_anew()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _format(self) -> int:
        return int(self._database.execute("PRAGMA user_version")[0][0])

    def _begin_anew(self) -> None:
        """Make the tables; those of another version go, and the next build says so as of another model."""
        with self._database.transaction():
            before = self._format()
            if before == FORMAT:  # another process was quicker
                return
            tables = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in tables:
                if not name.startswith("sqlite_"):
                    self._database.execute(f"DROP TABLE {name}")
            for statement in SCHEMA.split(";\n"):
                if statement.strip():
                    self._database.execute(statement)
            self.set_meta(BORN, uuid4().hex)
            if tables:
                self.set_meta(MODEL, f"format {before}")
            self._database.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def change(self) -> Iterator[None]:
        """Make what is written in the block one change of files and pieces."""
        with self._database.transaction():
            yield
            self._count_up(GENERATION)

    def meta(self, name: str) -> str:
        """A word about the index; empty where there is none."""
        rows = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else ""

    def words(self, names: Sequence[str]) -> tuple[str, ...]:
        """Several words about the index, of one moment."""
        found = dict(self._database.execute("SELECT name, value FROM meta"))
        return tuple(found.get(name, "") for name in names)

    def _count_up(self, name: str) -> None:
        self.set_meta(name, str(int(self.meta(name) or 0) + 1))

    def set_meta(self, name: str, value: str) -> None:
        """Keep a word about the index."""
        self._database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def files(self) -> dict[str, FileRow]:
        """What is indexed, by path."""
        rows = self._database.execute("SELECT path, id, stamp, hash FROM files")
        return {path: FileRow(*row) for path, *row in rows}

    def put_file(self, path: str, *, stamp: str, content_hash: str, chunks: Iterable[Chunk]) -> None:
        """Put a file's pieces in the place of its old ones; within `change`."""
        self.drop_files([path])
        statement = "INSERT INTO files (path, stamp, hash) VALUES (?, ?, ?) RETURNING id"
        ((number,),) = self._database.execute(statement, (path, stamp, content_hash))
        for chunk in chunks:
            self._database.execute(
                "INSERT INTO chunks (file, first, last, symbol, text, sense) VALUES (?, ?, ?, ?, ?, ?)",
                (number, chunk.first, chunk.last, chunk.symbol, chunk.text, chunk.sense_hash),
            )

    def touch_file(self, path: str, stamp: str) -> None:
        """Note that the same content looks otherwise from outside."""
        self._database.execute("UPDATE files SET stamp = ? WHERE path = ?", (stamp, path))

    def drop_files(self, paths: Iterable[str]) -> None:
        """Take files and their pieces out; within `change`."""
        for path in paths:
            self._database.execute(
                "DELETE FROM chunks WHERE file = (SELECT id FROM files WHERE path = ?)", (path,)
            )
            self._database.execute("DELETE FROM files WHERE path = ?", (path,))

    def ids(self, model: str = "") -> list[int]:
        """The ids of all pieces, in order; of those that this model has encoded."""
        if not model:
            return [row[0] for row in self._database.execute("SELECT id FROM chunks ORDER BY id")]
        return [row[0] for row in self._database.execute(_ENCODED.format("c.id"), (model, 0, -1))]

    def live_rows(self) -> list[tuple[int, str, str]]:
        """Id, path and symbol of every piece, by id."""
        paths = dict(self._database.execute("SELECT id, path FROM files"))  # quicker than a join
        rows = self._database.execute("SELECT id, file, symbol FROM chunks ORDER BY id")
        return [(number, paths[file], symbol) for number, file, symbol in rows]

    def chunk_rows(self, *, after: int = 0, limit: int = -1) -> list[tuple[int, str, int, int, str, str]]:
        """Id, path, first, last, symbol and text of pieces, by id; of all, or so many after one."""
        return self._database.execute(_CHUNKS, (after, limit))

    def rows_of(self, numbers: Iterable[int]) -> list[tuple[int, str, int, int, str, str]]:
        """The same of these pieces; without those that have gone meanwhile."""
        found = ((number, self.chunk(number)) for number in numbers)
        return [(n, c.path, c.first, c.last, c.symbol, c.text) for n, c in found if c]

    def chunk(self, number: int) -> Chunk | None:
        """One piece; None when it has gone meanwhile."""
        rows = self._database.execute(
            "SELECT f.path, c.first, c.last, c.symbol, c.text FROM chunks c JOIN files f ON f.id = c.file "
            "WHERE c.id = ?",
            (number,),
        )
        return Chunk(*rows[0]) if rows else None

    def without_vector(self, model: str) -> list[int]:
        """Ids of the pieces that this model has not encoded yet; of those with one text the first."""
        rows = self._database.execute(
            "SELECT min(c.id) FROM chunks c LEFT JOIN vectors v ON v.sense = c.sense AND v.model = ? "
            "WHERE v.sense IS NULL GROUP BY c.sense ORDER BY 1",
            (model,),
        )
        return [row[0] for row in rows]

    def put_vectors(self, model: str, chunks: Sequence[Chunk], vectors: "NDArray[np.float32]") -> None:
        """Keep the vectors of these pieces, in half precision: 768 bytes each, cosine 0.9999 of the whole."""
        with self._database.transaction():
            self._count_up(VECTORS_GENERATION)
            for chunk, vector in zip(chunks, vectors.astype("<f2"), strict=True):
                self._database.execute(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                    (chunk.sense_hash, model, vector.tobytes()),
                )

    def vector_rows(self, model: str, *, after: int = 0, limit: int = -1) -> list[tuple[int, bytes]]:
        """Id of encoded pieces and their vectors, by id; of all, or so many after one."""
        return self._database.execute(_ENCODED.format("c.id, v.vector"), (model, after, limit))

    def vectors_of(self, model: str, numbers: Iterable[int]) -> list[tuple[int, bytes]]:
        """The same of these pieces, where they have one."""
        statement = (
            "SELECT c.id, v.vector FROM chunks c JOIN vectors v ON v.sense = c.sense AND v.model = ? "
            "WHERE c.id = ?"
        )
        return [row for number in numbers for row in self._database.execute(statement, (model, number))]

    def vectors_by_sense(self, model: str) -> dict[str, bytes]:
        """All vectors of this model, by the hash of what was encoded."""
        return dict(self._database.execute("SELECT sense, vector FROM vectors WHERE model = ?", (model,)))

    def width(self, model: str) -> int:
        """How many numbers a vector of this model has; 0 where there is none."""
        rows = self._database.execute("SELECT length(vector) FROM vectors WHERE model = ? LIMIT 1", (model,))
        return int(rows[0][0]) // 2 if rows else 0

    def drop_idle_vectors(self) -> None:
        """Forget vectors that no piece has any more."""
        self._database.execute("DELETE FROM vectors WHERE sense NOT IN (SELECT sense FROM chunks)")

    def drop_vectors_but(self, model: str) -> None:
        """Forget the vectors of other models; of all where it is empty."""
        with self._database.transaction():
            self._database.execute("DELETE FROM vectors WHERE model != ?", (model,))
            self.set_meta(VECTORS_BORN, uuid4().hex)
            self.set_meta(VECTOR_TABLE, "")

    def count(self, what: Counted, model: str = "") -> int:
        """How many `files` are indexed or `left_out`; how many `chunks` are there or `encoded`."""
        values = (model,) if what == "encoded" else ()
        return int(self._database.execute(_COUNTS[what], values)[0][0])
