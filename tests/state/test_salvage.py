"""Of a damaged database all rows that can be read are saved, in order; the damaged file stays."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lockstitch.state.database_file import connect_database
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.ledger import SCHEMA_VERSION, open_ledger
from lockstitch.state.salvage import find_damage, salvage_database

PAGE = 4096
ROWS = 2_000


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A table of 2,000 rows of 200 bytes, about 100 pages."""
    path = tmp_path / "threads.db"
    with closing(connect_database(path)) as connection:
        connection.execute("CREATE TABLE t (name TEXT PRIMARY KEY, n INTEGER, x BLOB)")
        connection.execute("BEGIN")
        for n in range(ROWS):
            connection.execute("INSERT INTO t VALUES (?, ?, ?)", (f"row {n}", n, bytes([n % 256]) * 200))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def overwrite(path: Path, *pages: int) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(b"\xff" * PAGE)


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]


def leaf_pages(path: Path) -> list[int]:
    """Pages, from 0, that hold rows of the table."""
    data = path.read_bytes()
    return [n for n in range(1, len(data) // PAGE) if data[n * PAGE] == 0x0D]


def test_a_whole_file_has_no_damage(database: Path, tmp_path: Path) -> None:
    assert find_damage(database) == find_damage(tmp_path / "missing") == ""


def test_a_file_that_cannot_be_read_now_is_not_called_damaged(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr("lockstitch.state.salvage._open_to_read", fail)
    with pytest.raises(SystemFaultError, match="the disk reports an error"):
        find_damage(database)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_all_rows_but_those_of_damaged_pages_are_saved(database: Path, count: int) -> None:
    leaves = leaf_pages(database)
    overwrite(database, *leaves[5 : 5 + 3 * count : 3])
    assert find_damage(database)
    with pytest.raises(sqlite3.DatabaseError):
        numbers(database)
    saved = salvage_database(database)
    kept = numbers(database)
    lost = ROWS - len(kept)
    assert (saved.rows, find_damage(database)) == (len(kept), "")
    assert 0 < lost <= count * (PAGE // 200)
    assert saved.lost_ranges == count
    with closing(sqlite3.connect(database)) as connection:
        for n, data in connection.execute("SELECT n, x FROM t"):
            assert data == bytes([n % 256]) * 200
    assert saved.damaged.name == "threads.db.damaged"
    assert saved.damaged.exists()
    assert database.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_cut_in_half_gives_its_first_half(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2 // PAGE * PAGE)
    salvage_database(database)
    kept = numbers(database)
    assert ROWS // 4 < len(kept) < ROWS
    assert kept == sorted(kept)


def test_without_a_schema_a_new_file_is_begun(database: Path) -> None:
    overwrite(database, 0)
    saved = salvage_database(database)
    assert (saved.rows, find_damage(database)) == (0, "")
    assert saved.damaged.stat().st_size > ROWS * 200


def test_what_was_only_in_the_log_is_saved_too(database: Path) -> None:
    writer = connect_database(database)
    writer.execute("INSERT INTO t VALUES ('late', 9999, x'00')")
    copies = {side: Path(f"{database}{side}").read_bytes() for side in ("", "-wal")}
    writer.close()
    for side, data in copies.items():
        Path(f"{database}{side}").write_bytes(data)
    overwrite(database, leaf_pages(database)[7])
    salvage_database(database)
    assert 9999 in numbers(database)


def test_a_second_damaged_file_gets_another_name(database: Path) -> None:
    for name in ("threads.db.damaged", "threads.db.damaged-2"):
        overwrite(database, leaf_pages(database)[3])
        assert salvage_database(database).damaged.name == name


def test_a_ledger_keeps_its_schema_and_its_triggers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_ledger(path) as ledger:
        for n in range(2_000):
            ledger.execute("INSERT INTO intents VALUES (?, 'c', ?, '')", (f"thread {n}", f"call {n}"))
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    leaves = leaf_pages(path)
    overwrite(path, leaves[len(leaves) // 2])
    salvage_database(path)
    with open_ledger(path) as ledger:
        assert ledger.execute("PRAGMA user_version")[0][0] == SCHEMA_VERSION
        assert 1_000 < ledger.execute("SELECT count(*) FROM intents")[0][0] < 2_000
        assert len(ledger.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'")) == 3
