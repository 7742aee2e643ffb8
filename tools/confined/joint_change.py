"""Several files written, moved and deleted together: all of it is done, or nothing.

New content is first written beside its place, then every step is a rename. What a rename replaces or
takes away is kept beside its place until all are done, so that each can be undone without room on the
disk. Not covered: a process that is killed between the first rename and the last.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from lockstitch.state.errors import RecoverableError, ToolExecutionError
from lockstitch.tools.confined.replacement import existing_file, name_beside, stage_file
from lockstitch.tools.paths import shown


@dataclass(frozen=True, kw_only=True)
class FileAction:
    """What happens to one file. Without data and source it is deleted.

    Attributes:
        path: of the file; the new one when it moves.
        data: all of its new content.
        source: where it moves from; its mode and owner go along.
        is_new: nothing may be at `path`. Moved files are always new.
    """

    path: str
    data: bytes | None = None
    source: str | None = None
    is_new: bool = False


class OpenParent(Protocol):
    """The folder of a path, held open, and the name in it; see `Workspace`."""

    def __call__(
        self, path: str, *, follow: bool = False, create: bool = False, writing: bool = False
    ) -> AbstractContextManager[tuple[int, str]]:
        """Errors of the operating system in the block come out as words for the model."""


class _Step(Protocol):
    """One rename that can be undone."""

    def make(self) -> None: ...
    def undo(self) -> None: ...
    def settle(self) -> None: ...


@dataclass
class _Put:
    """A draft takes the name of a file, or a new name."""

    folder: int
    name: str
    draft: str
    replaces: bool
    kept: str = ""
    gone: bool = False
    done: bool = False

    def make(self) -> None:
        if self.replaces:
            self._keep(name_beside(self.name))
        os.rename(self.draft, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self.done = True

    def _keep(self, kept: str) -> None:
        try:
            os.link(self.name, kept, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False)
        except OSError:  # no hard links here: for an instant nothing has the name
            os.rename(self.name, kept, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            self.gone = True
        self.kept = kept

    def undo(self) -> None:
        if not self.done:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.draft, dir_fd=self.folder)
        if not self.done and not self.gone:
            self.settle()
        elif self.kept:
            os.rename(self.kept, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        else:
            os.unlink(self.name, dir_fd=self.folder)

    def settle(self) -> None:
        if self.kept:
            os.unlink(self.kept, dir_fd=self.folder)


@dataclass
class _Take:
    """A file goes: to another name, or for good."""

    folder: int
    name: str
    to_folder: int
    to_name: str
    for_good: bool
    done: bool = False

    def make(self) -> None:
        os.rename(self.name, self.to_name, src_dir_fd=self.folder, dst_dir_fd=self.to_folder)
        self.done = True

    def undo(self) -> None:
        if self.done:
            os.rename(self.to_name, self.name, src_dir_fd=self.to_folder, dst_dir_fd=self.folder)

    def settle(self) -> None:
        if self.for_good:
            os.unlink(self.to_name, dir_fd=self.to_folder)


class JointChange:
    """One set of changes, made once."""

    def __init__(
        self, open_parent: OpenParent, explained: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._open_parent = open_parent
        self._explained = explained
        self._steps: list[tuple[str, _Step]] = []
        self._made: list[str] = []
        self._taken: set[tuple[int, int, str]] = set()

    def make(self, changes: Sequence[FileAction]) -> None:
        """Make them all.

        Raises:
            RecoverableError: one cannot be made; nothing is changed, or the message says what is left.
        """
        with ExitStack() as folders:
            try:
                for change in changes:
                    self._stage(change, folders)
                for path, step in self._steps:
                    with self._explained(path):
                        step.make()
            except BaseException as error:
                self._undo(error)
                raise
            for _, step in self._steps:
                with contextlib.suppress(OSError):  # a draft too many is left, and all is as it should be
                    step.settle()

    def _stage(self, change: FileAction, folders: ExitStack) -> None:
        """Check what can be checked, and write what must be written, before anything is renamed."""
        if change.data is None and change.source is None:
            self._stage_delete(change.path, folders)
            return
        is_new = change.is_new or change.source is not None
        if is_new:
            self._made += self._missing_folders(change.path)
        folder, name = self._open(change.path, folders, follow=not is_new, create=is_new)
        with self._explained(change.path):
            old = existing_file(folder, name)
            if is_new and old is not None:
                raise ToolExecutionError(f"{shown(change.path)} is there already: choose another name.")
            if change.source is None:
                assert change.data is not None
                draft = stage_file(folder, name, change.data, old)
                self._steps.append((change.path, _Put(folder, name, draft, replaces=old is not None)))
                return
        self._stage_move(change, change.source, (folder, name), folders)

    def _stage_move(self, change: FileAction, source: str, to: tuple[int, str], folders: ExitStack) -> None:
        folder, name = self._open(source, folders)
        with self._explained(source):
            if change.data is None:
                _refuse_folder(folder, name, source)
                self._steps.append((source, _Take(folder, name, *to, for_good=False)))
                return
            draft = stage_file(*to, change.data, existing_file(folder, name))
            self._steps.append((change.path, _Put(*to, draft, replaces=False)))
            self._steps.append((source, _Take(folder, name, folder, name_beside(name), for_good=True)))

    def _stage_delete(self, path: str, folders: ExitStack) -> None:
        folder, name = self._open(path, folders)
        with self._explained(path):
            _refuse_folder(folder, name, path)
            self._steps.append((path, _Take(folder, name, folder, name_beside(name), for_good=True)))

    def _open(
        self, path: str, folders: ExitStack, *, follow: bool = False, create: bool = False
    ) -> tuple[int, str]:
        """Open the folder of a path that no other change has."""
        opened = self._open_parent(path, follow=follow, create=create, writing=True)
        folder, name = folders.enter_context(opened)
        status = os.fstat(folder)
        key = (status.st_dev, status.st_ino, name)
        if key in self._taken:
            raise ToolExecutionError(f"{shown(path)} is changed twice, perhaps by a link: change it once.")
        self._taken.add(key)
        return folder, name

    def _missing_folders(self, path: str) -> list[str]:
        """Those above the path that will have to be made, from the outermost."""
        parts = path.split("/")[:-1]
        above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        for at, folder in enumerate(above):
            try:
                with self._open_parent(folder) as (fd, name):
                    os.stat(name, dir_fd=fd, follow_symlinks=False)
            except ToolExecutionError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    return above[at:]
                raise
        return []

    def _undo(self, error: BaseException) -> None:
        """Take back what was done, the last first."""
        left: list[str] = []
        for path, step in reversed(self._steps):
            try:
                step.undo()
            except OSError:
                left.append(shown(path))
        for folder in reversed(self._made):
            with (
                contextlib.suppress(RecoverableError, OSError),
                self._open_parent(folder, writing=True) as (fd, name),
            ):
                os.rmdir(name, dir_fd=fd)
        if left:
            raise ToolExecutionError(
                f"the change failed and could not be taken back for {', '.join(left)}: look at these, and at "
                "files beside them that end in .tmp."
            ) from error


def _refuse_folder(folder: int, name: str, path: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise ToolExecutionError(f"{shown(path)} is a folder: a patch changes files alone.")
