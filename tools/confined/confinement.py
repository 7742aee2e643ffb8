"""Opening below one folder, whatever links and races do: by openat2(2), or by a walk from folder to folder.

The folder is opened once; all later opens begin at its descriptor. The kernel's way is the fast one
(3.8 us against 11.3 for a path of five parts). The walk sees every name on the way, so it also serves
where names or folders must be refused, where openat2 is missing, and it has the last word on links: one
that is absolute and leads back inside is followed.

Not covered: a hard link to an outside file can be read; nothing in the path shows that it is one.
"""

import contextlib
import errno
import os
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal, NamedTuple

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.confined.openat2 import has_openat2, open_beneath
from lockstitch.tools.paths import (
    REPOSITORY_MARKS,
    REPOSITORY_NAMES,
    ROOT,
    below_roots,
    escape,
    is_git,
    is_protected,
    plain_name,
)

Backend = Literal["openat2", "walk"]
Identity = tuple[int, int]  # device and inode

LINKS_MAX: Final = 40  # as in path_resolution(7)
FOLDERS_MAX: Final = 256  # below each other in one walk, which holds each one open; a process has 1,024
NOT_ENTERED: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})  # what O_NOFOLLOW says of a link
UNPROVEN: Final = frozenset({errno.EXDEV, errno.ELOOP, errno.EAGAIN})  # the walk decides
# Windows lacks these flags, and what they stand for: `can_confine` says no there.
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
STEP: Final = FOLDER | NO_LINK | getattr(os, "O_PATH", 0)

_OWN_DATA: Final = "that folder holds Lockstitch's own data, which tools do not touch."
_OWN_RULES: Final = (
    "file tools do not change .lockstitch, which holds the person's rules: ask for the change."
)
_GIT: Final = "file tools do not change what is in .git: use git by run_command."
_REPOSITORY: Final = (
    "that is a git repository's own file, which file tools do not change: use git by run_command."
)


def can_confine() -> bool:
    """Whether this system opens files relative to a folder that is held open; Windows does not."""
    return os.open in os.supports_dir_fd


def identity_of(status: os.stat_result) -> Identity:
    """What tells one file or folder from all others on this machine."""
    return status.st_dev, status.st_ino


class Closed(NamedTuple):
    """Folders that are never entered: those there are, and the names that would make or replace one."""

    folders: frozenset[Identity] = frozenset()
    names: frozenset[tuple[Identity, str]] = frozenset()  # a folder, and the plain name of something in it


class Confinement:
    """Opens below `root`. All paths are relative, as `relative_to_roots` makes them.

    Attributes:
        fd: the root's descriptor; -1 once closed.
        forbidden: folders that are never entered, and not made where they are missing.
    """

    def __init__(
        self, root: Path, *, real: str = "", forbidden: Sequence[str] = (), backend: Backend | None = None
    ) -> None:
        """Open the root; `real` is its path without links, `backend` None takes the best there is.

        Raises:
            OSError: the root is missing or no folder.
        """
        self.fd = os.open(root, FOLDER)
        self.roots = (str(root), real or os.path.realpath(root))
        self.forbidden = tuple(forbidden)
        self.backend: Backend = backend or ("openat2" if has_openat2() else "walk")

    def close(self) -> None:
        """Give the descriptor back; opens fail with EBADF from then on."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def open(self, path: str, flags: int) -> int:
        """A descriptor of an existing file or folder, links inside followed.

        Raises:
            PathEscapeError: the path leads out.
            ToolExecutionError: it leads into a forbidden folder.
            OSError: as open(2).
        """
        if self.backend == "openat2" and not self.forbidden:
            try:
                return open_beneath(self.fd, path, flags)
            except OSError as error:
                if error.errno not in UNPROVEN:
                    raise
        with _Walk(self, path) as walk:
            return walk.open(flags)

    def closed(self) -> Closed:
        """What is forbidden at this moment: it may have been deleted, moved or made since the last one."""
        folders, names = set[Identity](), set[tuple[Identity, str]]()
        for path in self.forbidden:
            parent = identity_of(os.fstat(self.fd))
            for below in accumulate(path.split("/"), "{}/{}".format):
                here = _identity_or_none(self.fd, below)
                if here is None or below == path:
                    names.add((parent, plain_name(below.rpartition("/")[2])))
                if here is None:
                    break
                parent = here
            else:
                folders.add(parent)
        return Closed(frozenset(folders), frozenset(names))

    def open_parent(
        self, path: str, *, follow: bool = False, create: bool = False, writing: bool = False
    ) -> tuple[int, str]:
        """The folder that holds `path`, which is not the root, and the name in it, which need not exist.

        Args:
            path: relative.
            follow: a link of that name counts as the place it leads to.
            create: make the folders that are missing.
            writing: refuse what belongs to git, to us, or to the rules a person made.

        Raises:
            PathEscapeError, ToolExecutionError, OSError: as `open`; EISDIR for the root.
        """
        with _Walk(self, path, create=create, writing=writing) as walk:
            return walk.open_parent(follow=follow)

    def real_path(self, path: str, *, follow: bool = False) -> str:
        """The path without links of what `open_parent` leads a writer to; errors as there."""
        with _Walk(self, path, writing=True) as walk:
            return walk.real_path(follow=follow)


class _Walk:
    """One walk: the folders entered so far, and the names still to go."""

    def __init__(self, place: Confinement, path: str, *, create: bool = False, writing: bool = False) -> None:
        self._place = place
        self._path = path
        self._create = create
        self._writing = writing
        self._names = deque(path.split("/"))
        self._folders = [os.dup(place.fd)]
        self._entered: list[str] = []  # the names of all but the first of them
        self._at = ROOT
        self._links = 0
        self._closed = place.closed() if place.forbidden else Closed()

    def __enter__(self) -> "_Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_to(0)

    def open(self, flags: int) -> int:
        """Go to the end and open it."""
        while True:
            name = self._next()
            if self._names or name == "..":
                self._enter(name)
                self._names = self._names or deque([ROOT])  # after a last `..`: that folder itself
                continue
            try:
                fd = os.open(name, flags | NO_LINK, dir_fd=self._folders[-1])
            except OSError as error:
                self._follow(name, error)
            else:
                self._folders.append(fd)
                self._inspect(fd)
                return self._folders.pop()

    def open_parent(self, *, follow: bool) -> tuple[int, str]:
        """Go to the last name, which no link hides when `follow`."""
        name = self._go(follow=follow)
        return self._folders.pop(), name

    def real_path(self, *, follow: bool) -> str:
        """The names of the folders on the way to the last one, and it; missing ones as they are written."""
        with contextlib.suppress(FileNotFoundError):
            self._go(follow=follow)
        return "/".join([*self._entered, self._at, *self._names])

    def _go(self, *, follow: bool) -> str:
        while True:
            name = self._next()
            if self._names or name == "..":
                self._enter(name)
            elif name != ROOT and not (follow and self._follow_link(name)):
                return name
            if not self._names:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _next(self) -> str:
        self._at = self._names.popleft()
        if self._writing:
            self._check_writable(self._at)
        return self._at

    def _check_writable(self, name: str) -> None:
        if is_protected(name):
            raise ToolExecutionError(_GIT if is_git(name) else _OWN_RULES)
        folder, plain = self._folders[-1], plain_name(name)
        if plain in REPOSITORY_NAMES and all(_identity_or_none(folder, mark) for mark in _other_marks(plain)):
            raise ToolExecutionError(_REPOSITORY)
        if self._closed.names and (identity_of(os.fstat(folder)), plain) in self._closed.names:
            raise ToolExecutionError(_OWN_DATA)

    def _enter(self, name: str) -> None:
        if name == ROOT:
            return
        if name == "..":
            self._leave_to(len(self._folders) - 1)
            if not self._folders:
                raise escape(self._path)
            return
        if len(self._folders) > FOLDERS_MAX:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        try:
            self._folders.append(self._step(name))
        except OSError as error:
            self._follow(name, error)
        else:
            self._entered.append(name)
            self._inspect(self._folders[-1])

    def _step(self, name: str) -> int:
        try:
            return os.open(name, STEP, dir_fd=self._folders[-1])
        except FileNotFoundError:
            if not self._create:
                raise
        with contextlib.suppress(FileExistsError):  # somebody was faster, or a link leads to nowhere
            os.mkdir(name, dir_fd=self._folders[-1])
        return os.open(name, STEP, dir_fd=self._folders[-1])

    def _follow(self, name: str, error: OSError) -> None:
        if error.errno not in NOT_ENTERED or not self._follow_link(name):
            raise error

    def _follow_link(self, name: str) -> bool:
        """Put the target of a link in the place of its name; False when it is none."""
        try:
            target = os.readlink(name, dir_fd=self._folders[-1])
        except OSError:
            return False
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            inside = below_roots(target, self._place.roots)
            if inside is None:
                raise escape(self._path)
            target = inside
            self._leave_to(1)
        self._names.extendleft(
            reversed([part for part in target.split("/") if part not in {"", ROOT}] or [ROOT])
        )
        return True

    def _inspect(self, fd: int) -> None:
        if self._closed.folders and identity_of(os.fstat(fd)) in self._closed.folders:
            raise ToolExecutionError(_OWN_DATA)

    def _leave_to(self, depth: int) -> None:
        while len(self._folders) > depth:
            os.close(self._folders.pop())
        del self._entered[max(0, depth - 1) :]


def _identity_or_none(folder: int, path: str) -> Identity | None:
    try:
        return identity_of(os.stat(path, dir_fd=folder))
    except OSError:
        return None


def _other_marks(plain: str) -> Iterator[str]:
    """The marks of a repository that must stand beside a name for it to belong to one, or to complete one."""
    return (mark.upper() if mark == "head" else mark for mark in REPOSITORY_MARKS - {plain})
