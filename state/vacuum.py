"""Space that deleted rows and unneeded contents have left, given back to the disk."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.state import event_log
from lockstitch.state.database_file import connect_database, database_faults
from lockstitch.state.errors import ThreadBusyError, ThreadUnknownError
from lockstitch.state.home import Home
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.thread_lock import writer_of

WRITER_WAIT_MS: Final = 2_000  # for another process's write; one that takes longer goes on, and we come again


@dataclass(frozen=True)
class Vacuumed:
    """One file or folder, and its bytes before and after."""

    name: str
    before: int
    after: int

    @property
    def freed(self) -> int:
        """Bytes; a file that grew gave nothing back."""
        return max(0, self.before - self.after)


def vacuum_home(home: Home, *, also: Callable[[], set[str]] = set) -> list[Vacuumed]:
    """Write the databases anew without their free pages, and delete contents that no thread needs.

    A database needs as much free space as it has bytes meanwhile. Contents stay for an hour after they were
    last needed, so that a run of another process keeps what it has just put.

    Args:
        home: whose files.
        also: digests of contents that others than the threads need.

    Raises:
        ThreadBusyError: a thread is being written; nothing was changed.
        HomeUnusableError, SystemFaultError: a file cannot be written, is damaged or locked.
    """
    refuse_while_written(home)
    done = [_collect(home, also())] if home.ledger_db.exists() else []
    databases = (home.threads_db, home.ledger_db, home.path / event_log.NAME)
    return done + [_vacuum(path) for path in databases if path.exists()]


def refuse_while_written(home: Home) -> None:
    """See that no run writes a thread of this home.

    Raises:
        ThreadBusyError: one does, and which.
    """
    for lock in sorted(home.locks.glob("*.lock")):
        try:
            writer = writer_of(home.locks, lock.stem)
        except ThreadUnknownError:
            continue  # no file of ours
        if writer:
            raise ThreadBusyError(f"{writer}, so nothing was changed. Wait until it ends or stop it.")


def database_bytes(path: Path) -> int:
    """Bytes of a database with its log."""
    files = (path, Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _vacuum(path: Path) -> Vacuumed:
    before = database_bytes(path)
    with closing(connect_database(path)) as connection, database_faults(path.name):
        connection.execute(f"PRAGMA busy_timeout = {WRITER_WAIT_MS}")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Vacuumed(path.name, before, database_bytes(path))


def _collect(home: Home, also: set[str]) -> Vacuumed:
    before = folder_bytes(home.objects)
    with open_ledger(home.ledger_db) as ledger:
        objects = ObjectStore(home.objects, ledger)
        objects.collect(Journal(ledger, objects).digests() | also)
    return Vacuumed(home.objects.name, before, folder_bytes(home.objects))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; of a missing one 0."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
