"""A thread taken in from an archive, with its files where a folder is named for them."""

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.state.archive_check import Incoming, read_incoming
from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.errors import SystemFaultError, ToolExecutionError, UsageError
from lockstitch.state.home import prepare_home
from lockstitch.state.journal import BEGINNING, Effect, new_effect_id
from lockstitch.state.objects import ObjectStore
from lockstitch.state.renaming import Names
from lockstitch.state.settings import Settings
from lockstitch.state.thread_import import take_in
from lockstitch.state.threads import ThreadRow, new_thread_id
from lockstitch.state.tree_change import Change, compose
from lockstitch.tools.changes.fresh_tree import make_tree
from lockstitch.tools.changes.protected_changes import take_out_protected
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.tree import FOLDER


@dataclass(frozen=True)
class Imported:
    """The thread that came in.

    Attributes:
        row: its line in the archive.
        thread_id: under which it lies here.
        left_out: in words, files that were not made.
    """

    row: ThreadRow
    thread_id: str
    left_out: list[str] = field(default_factory=list)


def import_thread(settings: Settings, path: Path, *, workspace: Path | None, as_new: bool) -> Imported:
    """Take in the thread of the archive at `path`, all of it or nothing.

    Args:
        settings: of the home that takes it.
        path: of the archive.
        workspace: a folder, new or empty, where the thread's files are made and it goes on; None keeps the
            folder that the archive names, and makes no file.
        as_new: give it an id of its own.

    Raises:
        UsageError: the archive cannot be used, the thread is there, or the folder is not empty.
        ThreadBusyError: another process writes a thread of that id.
        HomeUnusableError, SystemFaultError: the home, or the folder, cannot be written.
    """
    incoming = read_incoming(path)
    for effect in incoming.effects:
        if take_out_protected(effect.changes)[1]:
            raise UsageError("the archive changes files that no thread may change. Nothing was imported.")
    home = prepare_home(settings.home)
    _check_room(home.path, incoming)
    folder = _empty_folder(workspace, home.path) if workspace else None
    names = _names(incoming, folder, as_new=as_new)
    asyncio.run(_prepare_tables(home.threads_db))
    left_out: list[str] = []
    try:
        make = partial(_make_files, folder, incoming, left_out)
        thread_id = take_in(home, incoming, names, before_rows=make)
    except BaseException:
        if folder:
            _empty(folder)
        raise
    return Imported(incoming.row, thread_id, left_out)


def changes_to(effects: list[Effect], position: str, workspace: str) -> list[Change]:
    """What leads from the beginning to the position in that workspace, one change a path."""
    known = {effect.id: effect for effect in effects}
    line: list[Effect] = []
    while position != BEGINNING:
        line.append(known[position])
        position = known[position].parent
    made = [effect for effect in reversed(line) if effect.status != "void" and effect.workspace == workspace]
    return compose(change for effect in made for change in effect.changes)


def _names(incoming: Incoming, folder: Path | None, *, as_new: bool) -> Names:
    new_id = new_thread_id() if as_new else incoming.thread_id
    return Names(
        thread=(incoming.thread_id, new_id),
        ids={effect.id: new_effect_id() for effect in incoming.effects} if as_new else {},
        workspaces={incoming.row.workspace: str(folder)} if folder else {},
    )


def _make_files(folder: Path | None, incoming: Incoming, left_out: list[str], objects: ObjectStore) -> None:
    if folder is None:
        return
    changes = changes_to(incoming.effects, incoming.position, incoming.row.workspace)
    root = os.open(folder, FOLDER)
    try:
        left_out += make_tree(root, changes, KeptBytes(objects.pieces))
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise SystemFaultError(
            f"the thread's files could not be made: {reason}. Nothing was imported."
        ) from error
    except ToolExecutionError as error:
        raise UsageError(f"{error.message} Nothing was imported.") from error
    finally:
        os.close(root)


def _check_room(home: Path, incoming: Incoming) -> None:
    free = shutil.disk_usage(home).free
    if incoming.size > free:
        raise UsageError(
            f"the archive needs up to {incoming.size / 1e9:,.1f} GB, and in the home folder are "
            f"{free / 1e9:,.1f} GB free. Nothing was imported."
        )


def _empty_folder(workspace: Path, home: Path) -> Path:
    folder = workspace.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder with --workspace.")
    except OSError as error:
        raise UsageError(f"{folder}: {(error.strerror or 'it cannot be used').lower()}.") from error
    return check_workspace(folder, home=home)


def _empty(folder: Path) -> None:
    """Take back what was made in a folder that was empty."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


async def _prepare_tables(path: Path) -> None:
    async with open_checkpointer(path):
        pass
