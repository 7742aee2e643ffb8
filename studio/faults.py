"""What can be wrong with a home, and what mends it: each finder looks at one thing and changes nothing."""

import asyncio
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from lockstitch.state import event_log
from lockstitch.state.content_files import FRESH_S
from lockstitch.state.database_file import BUSY_TIMEOUT_S, database_faults
from lockstitch.state.errors import TerminalError, ThreadBusyError, ThreadUnknownError
from lockstitch.state.home import FOLDER_MODE, Home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.salvage import find_damage, salvage_database
from lockstitch.state.settings import Settings
from lockstitch.state.thread_lock import hold_thread, writer_of
from lockstitch.state.threads import ThreadIndex, check_thread_id
from lockstitch.state.vacuum import refuse_while_written
from lockstitch.studio.amounts import count_words
from lockstitch.studio.file_faults import find_damaged_contents, find_left_layers, find_unfinished
from lockstitch.studio.lost_rows import recreate_row

HOLDER: Final = "lockstitch doctor --repair"  # told to others who find a thread busy
SKIPPED: Final = "layers"  # their folders have the modes that commands gave them
NAMED_MAX: Final = 3  # of what there may be many


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        name: of what it concerns, one word.
        text: what is wrong, and where nothing mends it, what that means.
        mend: mends it and says what was done; None where nothing can.
    """

    name: str
    text: str
    mend: Callable[[], str] | None


def find_faults(settings: Settings, home: Home, *, read_all: bool) -> Iterator[Fault]:
    """What is wrong with the home.

    While a database is damaged, what stands in it is not looked at: ask again when it is mended.

    Args:
        settings: of the home.
        home: to look at.
        read_all: also read every kept content; else only its length is looked at.
    """
    yield from _open_modes(home)
    try:
        damaged = list(_damaged_databases(home))
        yield from damaged
        if damaged or not home.ledger_db.exists():
            return
        yield from _in_the_ledger(settings, home, read_all=read_all)
    except TerminalError as error:
        yield Fault("home", error.message, None)


def _in_the_ledger(settings: Settings, home: Home, *, read_all: bool) -> Iterator[Fault]:
    with open_ledger(home.ledger_db) as ledger:
        objects = ObjectStore(home.objects, ledger)
        journal = Journal(ledger, objects)
        yield from _left_drafts(home, objects)
        for text, mend in find_damaged_contents(home, journal, read_all=read_all):
            yield Fault("contents", text, mend)
        for text, mend in find_unfinished(home, journal, holder=HOLDER):
            yield Fault("changes", text, mend)
        yield from _lost_rows(settings, home, ledger)
        yield from _rows_of_nothing(home, ledger, journal)
        yield from _stale_locks(home, ledger)
        workspaces = {row.workspace for row in ThreadIndex(ledger).recent(-1) if row.workspace}
        for text, mend in find_left_layers(home, workspaces):
            yield Fault("layers", text, mend)


def _open_modes(home: Home) -> Iterator[Fault]:
    found = []
    for path in [home.path, *home.path.rglob("*")]:
        is_ours = SKIPPED not in path.relative_to(home.path).parts and not path.is_symlink()
        if is_ours and path.stat().st_mode & 0o077:
            found.append(path)
    if found:
        text = f"others may look into {_named([path.name for path in found])}"
        yield Fault("modes", text, partial(_close_modes, found))


def _close_modes(paths: list[Path]) -> str:
    for path in paths:
        path.chmod(FOLDER_MODE if path.is_dir() else stat.S_IMODE(path.stat().st_mode) & 0o700)
    return f"{count_words(len(paths), 'place')} closed to others"


def _damaged_databases(home: Home) -> Iterator[Fault]:
    for path in (home.threads_db, home.ledger_db, home.path / event_log.NAME):
        damage = find_damage(path)
        if damage:
            text = f"{path.name} is damaged ({damage})"
            yield Fault("database", text, partial(_salvage, home, path))


def _salvage(home: Home, path: Path) -> str:
    refuse_while_written(home)
    saved = salvage_database(path)
    words = f"{count_words(saved.rows, 'row')} of {path.name} saved; the old file is {saved.damaged.name}"
    if saved.lost_ranges:
        words += f". Rows could not be read in {count_words(saved.lost_ranges, 'place')}"
    return words


def _left_drafts(home: Home, objects: ObjectStore) -> Iterator[Fault]:
    old = time.time() - FRESH_S
    drafts = objects.drafts()
    drafts += [path for path in home.spill.glob("*/.*") if path.is_file() and path.stat().st_mtime < old]
    if drafts:
        text = f"{count_words(len(drafts), 'half-written file')} of processes that died"
        yield Fault("drafts", text, partial(_delete, drafts))


def _delete(paths: list[Path]) -> str:
    for path in paths:
        path.unlink(missing_ok=True)
    return f"{count_words(len(paths), 'file')} deleted"


def _checkpointed(home: Home) -> set[str]:
    """The ids of threads that have checkpoints."""
    if not home.threads_db.exists():
        return set()
    address = f"{home.threads_db.absolute().as_uri()}?mode=ro"
    with (
        database_faults(home.threads_db.name),
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S)) as database,
    ):
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'").fetchone():
            return set()
        return {str(row[0]) for row in database.execute("SELECT DISTINCT thread_id FROM checkpoints")}


def _lost_rows(settings: Settings, home: Home, ledger: Ledger) -> Iterator[Fault]:
    listed = {row.thread_id for row in ThreadIndex(ledger).recent(-1)}
    for thread_id in sorted(_checkpointed(home) - listed):
        if _is_id(thread_id):
            text = f"thread {thread_id} has checkpoints and is in no list"
            yield Fault("threads", text, partial(_relist, settings, home, thread_id))


def _relist(settings: Settings, home: Home, thread_id: str) -> str:
    with hold_thread(home.locks, thread_id, holder=HOLDER):
        row = asyncio.run(recreate_row(settings, home, thread_id))
        with open_ledger(home.ledger_db) as ledger:
            ThreadIndex(ledger).record(row)
    return f"thread {thread_id} is listed again"


def _rows_of_nothing(home: Home, ledger: Ledger, journal: Journal) -> Iterator[Fault]:
    there = _checkpointed(home)
    for row in ThreadIndex(ledger).recent(-1):
        if row.thread_id in there or writer_of(home.locks, row.thread_id):
            continue
        text = f"thread {row.thread_id} is listed and has no checkpoint"
        if journal.of_thread(row.thread_id):
            text += "; it stays, since it changed files: `lockstitch prune` deletes it"
            yield Fault("threads", text, None)
        else:
            yield Fault("threads", text, partial(_unlist, home, row.thread_id))


def _unlist(home: Home, thread_id: str) -> str:
    with hold_thread(home.locks, thread_id, holder=HOLDER), open_ledger(home.ledger_db) as ledger:
        Intents(ledger).forget(thread_id)
        ThreadIndex(ledger).forget(thread_id)
    return f"thread {thread_id} is not listed any more"


def _stale_locks(home: Home, ledger: Ledger) -> Iterator[Fault]:
    known = {row.thread_id for row in ThreadIndex(ledger).recent(-1)} | _checkpointed(home)
    stale = [path.stem for path in home.locks.glob("*.lock") if _is_id(path.stem) and path.stem not in known]
    stale = [thread_id for thread_id in sorted(stale) if not writer_of(home.locks, thread_id)]
    if stale:
        text = f"{count_words(len(stale), 'lock file')} of threads that are gone"
        yield Fault("locks", text, partial(_unlock, home, stale))


def _unlock(home: Home, thread_ids: list[str]) -> str:
    deleted = 0
    for thread_id in thread_ids:
        try:
            with hold_thread(home.locks, thread_id, holder=HOLDER):
                (home.locks / f"{thread_id}.lock").unlink()
                deleted += 1
        except ThreadBusyError:
            continue  # somebody has just begun it
    return f"{count_words(deleted, 'lock file')} deleted"


def _is_id(text: str) -> bool:
    try:
        return check_thread_id(text) == text
    except ThreadUnknownError:
        return False


def _named(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
