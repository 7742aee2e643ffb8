"""A damaged database made anew from the rows that can still be read; the old file stays beside it.

SQLite keeps no checksums: a page that was overwritten with what still looks like a page is not found.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.state.database_file import (
    BUSY_TIMEOUT_S,
    connect_database,
    database_faults,
    explain_fault,
    make_private,
)

PRIMARY_CODE: Final = 0xFF  # the low byte of SQLite's extended error codes
DAMAGES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
TRIES_MAX: Final = 100_000  # reads that fail before the rest of a table is given up, so that it ends
LAST_ROWID: Final = 2**40  # where the last page cannot be read that would tell; far beyond any row of ours
PAGE_SIZE: Final = slice(16, 18)  # places in a database's header: https://sqlite.org/fileformat2.html
PAGE_COUNT: Final = slice(28, 32)
PADDED_MAX: Final = 2**40  # bytes, of which none takes room on the disk; a header that says more is damaged
SIDE_FILES: Final = ("", "-wal", "-shm")  # what SQLite keeps beside a file belongs to it


@dataclass(frozen=True)
class Salvaged:
    """What was saved.

    Attributes:
        rows: that could be read, of all tables.
        lost_ranges: places in tables where rows could not be read; how many those were nobody knows.
        damaged: the old file, under its new name.
    """

    rows: int
    lost_ranges: int
    damaged: Path


def find_damage(path: Path) -> str:
    """What SQLite says is wrong with the file; empty where it finds nothing, or there is no file.

    Raises:
        HomeUnusableError, SystemFaultError: the file is locked, or the disk is full or fails.
    """
    if not path.exists():
        return ""
    try:
        with closing(_open_to_read(path)) as database:
            found = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if error.sqlite_errorcode & PRIMARY_CODE not in DAMAGES:
            raise explain_fault(path.name, error) from error
        return str(error)
    return "" if found == "ok" else found.partition("\n")[0]


def salvage_database(path: Path) -> Salvaged:
    """Put a file with all readable rows in the place of a damaged one. Nobody else may have it open.

    Raises:
        HomeUnusableError, SystemFaultError: the new file cannot be written; the old one is as it was.
    """
    fresh = path.with_name(f"{path.name}.salvaged")
    for side in SIDE_FILES:
        Path(f"{fresh}{side}").unlink(missing_ok=True)
    _pad(path)
    with closing(connect_database(fresh)) as new, database_faults(path.name):
        rows, lost = _copy(path, new)
        new.execute("PRAGMA journal_mode = DELETE")  # all of it in the one file that is moved
    make_private(fresh)
    damaged = _free_name(path)
    for side in SIDE_FILES:
        with suppress(FileNotFoundError):
            Path(f"{path}{side}").rename(f"{damaged}{side}")
    fresh.rename(path)
    return Salvaged(rows, lost, damaged)


def _copy(path: Path, new: sqlite3.Connection) -> tuple[int, int]:
    rows = lost = 0
    with closing(_open_to_read(path)) as old:
        tables, others = _schema(old)
        new.execute("BEGIN")
        for table, statement in tables.items():
            new.execute(statement)
            reader = _TableReader(old, table)
            for row in reader.rows():
                new.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
                rows += 1
            lost += reader.lost
        for statement in others:
            with suppress(sqlite3.IntegrityError):  # an index over what a damaged page made the same
                new.execute(statement)
        with suppress(sqlite3.Error):
            new.execute(f"PRAGMA user_version = {int(old.execute('PRAGMA user_version').fetchone()[0])}")
        new.execute("COMMIT")
    return rows, lost


def _pad(path: Path) -> None:
    """Give a file that was cut off its old length: of a shorter one SQLite reads nothing at all."""
    with path.open("rb") as file:
        head = file.read(PAGE_COUNT.stop)
    pages = int.from_bytes(head[PAGE_COUNT], "big") * max(int.from_bytes(head[PAGE_SIZE], "big"), 512)
    if path.stat().st_size < pages <= PADDED_MAX:
        os.truncate(path, pages)


def _schema(old: sqlite3.Connection) -> tuple[dict[str, str], list[str]]:
    """The statements that make the tables, and those that make what stands on them; none where it is lost."""
    try:
        found = old.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except sqlite3.DatabaseError:
        return {}, []
    made = [(kind, name, sql) for kind, name, sql in found if not name.startswith("sqlite_")]
    tables = {name: sql for kind, name, sql in made if kind == "table"}
    return tables, [sql for kind, _, sql in made if kind != "table"]


class _TableReader:
    """Reads one table around what cannot be read: the range of rows is halved until what is left can."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        self._database = database
        self._table = table
        self._tries = 0
        self.lost = 0

    def rows(self) -> Iterator[tuple[object, ...]]:
        try:
            first, last = self._database.execute(
                f'SELECT min(rowid), max(rowid) FROM "{self._table}"'
            ).fetchone()
        except sqlite3.DatabaseError:
            first, last = 1, LAST_ROWID
        ranges = [] if first is None else [(int(first), int(last))]
        before_was_lost = False
        while ranges and self._tries < TRIES_MAX:
            low, high = ranges.pop()
            reached, whole = low - 1, True
            for rowid, row in self._readable(low, high):
                if rowid is None:
                    whole = False
                    break
                reached, before_was_lost = rowid, False
                yield row
            if whole:
                continue
            if not before_was_lost:
                self.lost += 1
            before_was_lost = True
            ranges += self._halves(max(low, reached + 1), high)

    def _readable(self, low: int, high: int) -> Iterator[tuple[int | None, tuple[object, ...]]]:
        """The rows with their numbers up to the first that cannot be read, which has none."""
        query = f'SELECT rowid, * FROM "{self._table}" WHERE rowid BETWEEN ? AND ? ORDER BY rowid'
        try:
            for row in self._database.execute(query, (low, high)):
                yield row[0], row[1:]
        except (sqlite3.DatabaseError, OverflowError):
            self._tries += 1
            yield None, ()

    @staticmethod
    def _halves(low: int, high: int) -> list[tuple[int, int]]:
        """What is left to try, the first part last."""
        if low >= high:
            return []
        middle = (low + high) // 2
        return [(middle + 1, high), (low, middle)]


def _open_to_read(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
    )
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.damaged{f'-{number}' if number > 1 else ''}")).exists():
        number += 1
    return name
