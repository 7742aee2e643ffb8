"""The workspace: every file and folder the tools touch is reached through here, and none outside.

The root is opened once. A path is first made relative as text, then opened by `Confinement`, so that
neither links nor a race leads out. Errors of the operating system leave here as words for the model.
"""

import contextlib
import copy
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lockstitch.state import tree_change
from lockstitch.state.errors import ResourceLimitError, ToolExecutionError, WorkspaceError
from lockstitch.tools.changes.call_journal import ChangeJournal
from lockstitch.tools.changes.planned_changes import Planner
from lockstitch.tools.confined.confinement import (
    FOLDER,
    Backend,
    Closed,
    Confinement,
    can_confine,
    identity_of,
)
from lockstitch.tools.confined.entry import Entry, entries_in, entry_of
from lockstitch.tools.confined.joint_change import FileAction, JointChange
from lockstitch.tools.confined.replacement import refuse_taken, rename_entry, replace_file
from lockstitch.tools.faults import explain, first_missing
from lockstitch.tools.paths import REPOSITORY_MARKS, ROOT, is_protected, relative_to_roots, shown

# A FIFO must not hang us, nor a terminal adopt us. Windows lacks both flags, and is refused below.
FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
CHUNK_BYTES: Final = 1024 * 1024  # of one read: few calls, little memory beyond the file's own


class Workspace:
    """One folder and what is below it. Paths are relative, or absolute and inside.

    Every verb raises:
        PathEscapeError: the path leads out.
        ToolValidationError: the path holds what no path can.
        ToolExecutionError: it is missing, not allowed, or of the wrong kind.

    Attributes:
        root: absolute, as given.
        hidden: folders that no verb reaches, such as our own home.
    """

    def __init__(self, root: Path, *, hidden: Sequence[Path] = (), backend: Backend | None = None) -> None:
        """Open the root; `backend` is for tests, None takes the best.

        Raises:
            WorkspaceError: it is missing, no folder, not readable, or lies in a hidden folder; or this system
                cannot hold file tools inside it.
        """
        if not can_confine():
            raise WorkspaceError(
                "file tools need Linux or macOS: Windows has no calls that hold them inside the workspace. "
                "Run Lockstitch in WSL there."
            )
        self.root = root.absolute()
        self.hidden = tuple(hidden)
        self._journal: ChangeJournal | None = None
        try:
            real = os.path.realpath(self.root)
            forbidden = _below(real, self.hidden)
            self._place = Confinement(self.root, real=real, forbidden=forbidden, backend=backend)
        except OSError as error:
            raise WorkspaceError(
                f"the workspace cannot be opened: {(error.strerror or '').lower()}."
            ) from error

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the root's descriptor back; a verb called afterwards fails."""
        self._place.close()

    def journaled(self, journal: ChangeJournal) -> "Workspace":
        """The same workspace for one call, whose changes are sealed in the journal before they are made."""
        view = copy.copy(self)
        view._journal = journal  # noqa: SLF001  of the copy
        return view

    def relative(self, path: str) -> str:
        """The path below the root, posix, without `.` and `..`; "." for the root. Touches no disk."""
        return relative_to_roots(path, self._place.roots)

    @contextlib.contextmanager
    def open_folder(self, path: str) -> Iterator[int]:
        """The descriptor of a folder, closed afterwards."""
        inside = self.relative(path)
        with self._explained(inside):
            fd = self._place.open(inside, FOLDER)
        try:
            yield fd
        finally:
            os.close(fd)

    def read_bytes(self, path: str, *, max_bytes: int) -> bytes:
        """The whole of a regular file.

        Raises:
            ResourceLimitError: it is larger than `max_bytes`.
        """
        inside = self.relative(path)
        with self._explained(inside):
            fd = self._place.open(inside, FILE)
            try:
                return _read(fd, inside, max_bytes)
            finally:
                os.close(fd)

    def read_bytes_or_none(self, path: str, *, max_bytes: int) -> bytes | None:
        """As `read_bytes`; None when nothing is there."""
        try:
            return self.read_bytes(path, max_bytes=max_bytes)
        except ToolExecutionError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def write_bytes(self, path: str, data: bytes, *, create_dirs: bool = False) -> None:
        """Write a file, whole or not at all; through a link that leads inside, to the place it leads to.

        Args:
            path: not in `.git`.
            data: all of the new content.
            create_dirs: make the folders that are missing.
        """
        with (
            self._sealed(path, lambda plan: plan.write(path, data)),
            self._parent(path, follow=True, create=create_dirs, writing=True) as (folder, name),
        ):
            replace_file(folder, name, data)

    def entry(self, path: str) -> Entry | None:
        """What is at that path; None when nothing is."""
        inside = self.relative(path)
        if inside == ROOT:
            with self.open_folder(ROOT) as fd:
                return entry_of(ROOT, ROOT, os.fstat(fd))
        try:
            with self._parent(inside) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except ToolExecutionError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise
        return None if _is_hidden(status, self._place.closed()) else entry_of(name, inside, status)

    def entries(self, path: str = ROOT) -> list[Entry]:
        """What a folder holds, by name."""
        inside = self.relative(path)
        prefix = "" if inside == ROOT else f"{inside}/"
        with self.open_folder(inside) as fd, self._explained(inside):
            return entries_in(fd, prefix, hidden=self._place.closed().folders)

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it that are missing; it may be there already."""
        inside = self.relative(path)
        if inside != ROOT:
            with (
                self._sealed(inside, lambda plan: plan.make_folders(inside)),
                self._parent(f"{inside}/_", create=True, writing=True),
            ):
                pass

    def move(self, source: str, destination: str, *, create_dirs: bool = False) -> None:
        """Rename a file, link or folder. The destination must be free."""
        with self._parent(source, writing=True) as (source_folder, source_name):
            self._refuse_protected(source_folder, source_name, source)
            with (
                self._sealed(source, lambda plan: plan.move(source, destination)),
                self._parent(destination, create=create_dirs, writing=True) as (folder, name),
            ):
                refuse_taken(folder, name, destination)
                rename_entry((source_folder, source_name), (folder, name), source)

    def delete(self, path: str) -> None:
        """Delete a file, a link (not what it leads to), or a folder with all that is in it."""
        with self._parent(path, writing=True) as (folder, name):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if is_folder:
                self._refuse_protected(folder, name, path)
            with self._sealed(path, lambda plan: plan.delete(path)):
                if is_folder:
                    shutil.rmtree(name, dir_fd=folder)  # goes by descriptors itself, and follows no link
                else:
                    os.unlink(name, dir_fd=folder)

    def change_all(self, changes: Sequence[FileAction]) -> None:
        """Write, move and delete several files: all of them, or none. Missing folders are made."""
        inside = [replace(change, path=self.relative(change.path)) for change in changes]
        with self._sealed(ROOT, lambda plan: plan.all(inside)):
            JointChange(self._parent, self._explained).make(inside)

    @contextlib.contextmanager
    def _sealed(self, path: str, plan: Callable[[Planner], Sequence[tree_change.Change]]) -> Iterator[None]:
        """Note in the journal what the block changes, if there is one."""
        if self._journal is None:
            yield
            return
        with self._explained(path):
            changes = plan(self._journal.planner(self._place))
        with self._journal.making(self._place.fd, changes):
            yield

    @contextlib.contextmanager
    def _parent(
        self, path: str, *, follow: bool = False, create: bool = False, writing: bool = False
    ) -> Iterator[tuple[int, str]]:
        inside = self.relative(path)
        if inside == ROOT:
            raise ToolExecutionError("that is the workspace itself: name something in it.")
        with self._explained(inside):
            folder, name = self._place.open_parent(inside, follow=follow, create=create, writing=writing)
            try:
                yield folder, name
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            missing, siblings = first_missing(self._place, path)
            raise explain(error, missing, siblings) from error
        except OSError as error:
            raise explain(error, path) from error
        except RecursionError as error:  # of walking a tree; raised before anything is deleted
            raise ToolExecutionError(
                f"{shown(path)} holds folders nested too deep for file tools: use run_command."
            ) from error

    def _refuse_protected(self, folder: int, name: str, path: str) -> None:
        """Nothing protected is moved or deleted along with the folder that holds it."""
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        closed = self._place.closed()
        for _, folders, files, fd in os.fwalk(name, dir_fd=folder, onerror=_raise):
            names = (*folders, *files)
            is_repository = REPOSITORY_MARKS.issubset(found.casefold() for found in names)
            if is_repository or any(map(is_protected, names)) or _is_hidden(os.fstat(fd), closed):
                raise ToolExecutionError(
                    f"{shown(path)} holds a .git or the like, rules (.lockstitch) or data of Lockstitch, "
                    "which file tools do not change: name what is beside it, or use run_command."
                )


def _below(root: str, hidden: Sequence[Path]) -> tuple[str, ...]:
    """The hidden folders below the root, a real path; relative to it. No path leads to the others."""
    folders = [os.path.realpath(path) for path in hidden]
    if any(_holds(folder, root) for folder in folders):
        raise WorkspaceError("the workspace lies in Lockstitch's own home: choose another folder.")
    return tuple(Path(os.path.relpath(folder, root)).as_posix() for folder in folders if _holds(root, folder))


def _holds(folder: str, path: str) -> bool:
    """Whether a real path is that of the folder or of something in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_hidden(status: os.stat_result, closed: Closed) -> bool:
    return identity_of(status) in closed.folders


def _read(fd: int, path: str, max_bytes: int) -> bytes:
    status = os.fstat(fd)  # of what was opened: no gap between check and use
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise ToolExecutionError(f"{shown(path)} is no regular file but a FIFO, socket or device.")
    data = bytearray()
    if status.st_size <= max_bytes:
        while len(data) <= max_bytes and (chunk := os.read(fd, min(CHUNK_BYTES, max_bytes + 1 - len(data)))):
            data += chunk
    if max(status.st_size, len(data)) > max_bytes:  # it may have grown meanwhile, or say 0 as in /proc
        raise ResourceLimitError(
            f"{shown(path)} has {max(status.st_size, len(data))} bytes, the limit is {max_bytes}. "
            "Read a part of it by grep_files or run_command."
        )
    return bytes(data)


def _raise(error: OSError) -> None:
    raise error
