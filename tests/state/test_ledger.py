"""The ledger keeps what it acknowledged, whoever writes and whatever dies."""

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lockstitch.state.database_file import BUSY_TIMEOUT_S
from lockstitch.state.errors import HomeUnusableError, SystemFaultError
from lockstitch.state.ledger import SCHEMA_VERSION, Ledger, open_ledger

ROW = "INSERT INTO threads SELECT ?, '', '', '', '', '', '', '', '', 0, '', NULL"


def ids(ledger: Ledger) -> list[str]:
    return [row[0] for row in ledger.execute("SELECT thread_id FROM threads ORDER BY thread_id")]


def run_python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_row_is_there_after_reopening(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.execute(ROW, ["a"])
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert ids(ledger) == ["a"]


def test_row_survives_the_death_of_the_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from lockstitch.state.ledger import open_ledger\n"
        "open_ledger(Path(sys.argv[1])).execute(sys.argv[2], ['a'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run_python(code, tmp_path / "ledger.db", ROW).returncode == -9
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert ids(ledger) == ["a"]


def test_ledger_is_in_wal_mode_fully_synchronous_and_patient(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        found = [
            ledger.execute(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "busy_timeout")
        ]
    assert found == ["wal", 2, BUSY_TIMEOUT_S * 1000]


def test_files_are_readable_by_the_owner_alone(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.execute(ROW, ["a"])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("ledger.db", "ledger.db-wal", "ledger.db-shm"), 0o600)


def test_transaction_that_raises_changes_nothing(tmp_path: Path) -> None:
    def half_a_change() -> None:
        with ledger.transaction():
            ledger.execute(ROW, ["a"])
            raise KeyError

    with open_ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(KeyError):
            half_a_change()
        with ledger.transaction():
            ledger.execute(ROW, ["b"])
        assert ids(ledger) == ["b"]


def test_worker_threads_share_one_ledger(tmp_path: Path) -> None:
    def insert_pair(number: int) -> None:
        with ledger.transaction():
            ledger.execute(ROW, [f"{number:02}a"])
            ledger.execute(ROW, [f"{number:02}b"])

    with open_ledger(tmp_path / "ledger.db") as ledger, ThreadPoolExecutor(8) as pool:
        list(pool.map(insert_pair, range(40)))
        assert ids(ledger) == [f"{n:02}{end}" for n in range(40) for end in "ab"]


def test_a_write_at_once_is_kept_by_the_process_that_dies_next(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from lockstitch.state.ledger import open_ledger\n"
        "kept = open_ledger(Path(sys.argv[1])).try_at_once(sys.argv[2], ['a'])\n"
        "os._exit(0 if kept else 1)"
    )
    run_python(code, tmp_path / "ledger.db", ROW)
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert ids(ledger) == ["a"]


def test_what_would_have_to_wait_or_fails_is_not_done_at_once(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        with ledger.transaction():
            assert not ledger.try_at_once(ROW, ["a"])
        assert ledger.try_at_once(ROW, ["b"])
        assert not ledger.try_at_once(ROW, ["b"])  # the key is taken
        assert not ledger.try_at_once(ROW.replace("threads", "nowhere"), ["c"])
        assert ids(ledger) == ["b"]


def test_what_writes_at_once_is_closed_with_the_ledger(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.try_at_once(ROW, ["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]  # the last to close takes the log away


def test_ledger_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_ledger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(SystemFaultError, match=r"newer Lockstitch.*pip install --upgrade"):
        open_ledger(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)


def test_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("a shopping list, " * 100)
    with pytest.raises(SystemFaultError, match=r"ledger\.db in the home folder is no SQLite database"):
        open_ledger(path)
    assert path.read_text().startswith("a shopping list")


def test_place_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusableError, match="cannot be opened for writing"):
        open_ledger(tmp_path / "missing" / "ledger.db")


def test_ledger_is_made_and_opened_without_loading_what_only_people_need(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from lockstitch.state.ledger import open_ledger\n"
        "open_ledger(Path(sys.argv[1])).close()\n"
        "print([name for name in ('sqlite_utils', 'numpy') if name in sys.modules])"
    )
    printed = [run_python(code, tmp_path / "ledger.db").stdout.strip() for _ in range(2)]
    assert printed == ["[]", "[]"]


def test_people_can_ask_with_sqlite_utils(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.execute(ROW, ["a"])
        with ledger.tables() as tables:
            assert [row["thread_id"] for row in tables["threads"].rows] == ["a"]
