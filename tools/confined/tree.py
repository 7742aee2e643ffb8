"""A folder held open: what is below it is reached name by name, and never through a link.

A folder that its owner may not enter, such as one of mode 000, is opened up on the way, and given its mode
back when the tree is closed. A process that is killed meanwhile leaves it open.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from lockstitch.state.tree_change import Kind, Node
from lockstitch.tools.confined.confinement import NO_LINK
from lockstitch.tools.confined.known_contents import KnownContents, digest_of, pieces_of
from lockstitch.tools.paths import ROOT

READING: Final = 0o500  # what the owner of a folder must have on the way, to read what is below
CHANGING: Final = 0o700
# What is kept of a mode. Set-user-id and set-group-id of a file are powers, and end here.
KEPT_MODES: Final = {"file": 0o777, "folder": 0o3777, "link": 0}

FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_LINK  # to open one, and no link to one
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | NO_LINK  # a FIFO must not hang us

# Stands for a FIFO, socket or device: unlike any file there is, for a file's digest is never "".
SPECIAL: Final = Node("file", 0, "", 0)


@dataclass(frozen=True)
class Seen:
    """A name as stat(2) sees it; `mode` is the true one of a folder that is opened up at the moment."""

    kind: Kind | Literal["special"]
    mode: int
    status: os.stat_result


class Tree:
    """One folder and what is below it. Paths are relative and posix; "." is the folder itself.

    Every verb raises OSError, as the calls it makes.
    """

    def __init__(self, root: int, *, need: int = READING, known: KnownContents | None = None) -> None:
        """Open it.

        Args:
            root: the folder's descriptor, which stays the caller's.
            need: READING or CHANGING.
            known: takes what is read of small files for a digest.
        """
        self._root = os.dup(root)
        self._need = need
        self._known = known
        self._true_modes: dict[str, int] = {}

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the modes back, then the descriptor."""
        while self._true_modes:  # going to one may open up others above it
            path = max(self._true_modes, key=lambda known: known.count("/"))
            mode = self._true_modes.pop(path)
            with contextlib.suppress(OSError), self.parent(path) as (folder, name):
                set_mode(folder, name, mode)
        os.close(self._root)

    def open_folder(self, path: str) -> int:
        """The descriptor of a folder."""
        fd, reached = os.dup(self._root), ""
        try:
            for name in () if path == ROOT else path.split("/"):
                reached = f"{reached}/{name}" if reached else name
                below = self._step(fd, name, reached)
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        return fd

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder that holds the path, and the name in it; of "." the folder itself, and "."."""
        above, _, name = path.rpartition("/")
        fd = self.open_folder(above or ROOT)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def names(self, path: str) -> list[str]:
        """What a folder holds, in order."""
        fd = self.open_folder(path)
        try:
            with os.scandir(fd) as found:
                return sorted(entry.name for entry in found)
        finally:
            os.close(fd)

    def look(self, path: str) -> Seen | None:
        """What has that name; None when nothing has, or what should be a folder above it is none."""
        try:
            with self.parent(path) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if is_absent(error):
                return None
            raise
        kind = _kind(status.st_mode)
        mode = self._true_modes.get(path, stat.S_IMODE(status.st_mode))
        return Seen(kind, mode & KEPT_MODES.get(kind, 0), status)

    def node(self, path: str) -> Node | None:
        """As `look`, with the digest of a file's content; `SPECIAL` for what is no file, folder or link."""
        seen = self.look(path)
        return None if seen is None else self.node_of(path, seen)

    def node_of(self, path: str, seen: Seen) -> Node:
        """The node of what was seen at that path a moment ago."""
        if seen.kind == "folder":
            return Node("folder", seen.mode, "", 0)
        if seen.kind == "special":
            return SPECIAL
        with self.parent(path) as (folder, name):
            if seen.kind == "link":
                return Node("link", 0, os.readlink(name, dir_fd=folder), 0)
            fd = open_file(folder, name)
            try:
                digest = self._known.read(fd) if self._known else digest_of(fd)
                return Node("file", seen.mode, digest, os.fstat(fd).st_size)
            finally:
                os.close(fd)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self.parent(path) as (folder, name):
            fd = open_file(folder, name)
        try:
            return b"".join(pieces_of(fd))
        finally:
            os.close(fd)

    def set_mode(self, path: str, mode: int) -> None:
        """Give a file or folder its mode for good."""
        with self.parent(path) as (folder, name):
            set_mode(folder, name, mode)
        self._true_modes.pop(path, None)

    def _step(self, folder: int, name: str, path: str) -> int:
        if name in {"", ROOT, ".."}:
            raise ValueError(f"no path below a folder: {path!r}")
        if not _may_enter(folder, name, self._need):
            self._open_up(folder, name, path)
        return os.open(name, FOLDER, dir_fd=folder)

    def _open_up(self, folder: int, name: str, path: str) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode) and mode & self._need != self._need:
            set_mode(folder, name, mode | self._need)
            self._true_modes.setdefault(path, mode)


def open_file(folder: int, name: str) -> int:
    """The descriptor of a regular file to read, also of one whose mode forbids it to its owner.

    Raises:
        OSError: as open(2).
    """
    try:
        return os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode) or mode & stat.S_IRUSR:
            raise
    set_mode(folder, name, mode | stat.S_IRUSR)
    try:
        return os.open(name, _FILE, dir_fd=folder)
    finally:
        set_mode(folder, name, mode)


def set_mode(folder: int, name: str, mode: int) -> None:
    """As chmod(1) of a file or folder in the open `folder`; refuses a link.

    Raises:
        OSError: as chmod(2).
    """
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | NO_LINK, dir_fd=folder)  # Linux before 6.6 has no such call
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode)  # noqa: PTH101  no path but a descriptor
    finally:
        os.close(fd)


def is_absent(error: OSError) -> bool:
    """Whether an error says that nothing can have that path: of a link on the way, too."""
    return error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def _may_enter(folder: int, name: str, need: int) -> bool:
    wanted = os.R_OK | os.X_OK | (os.W_OK if need == CHANGING else 0)
    effective = os.access in os.supports_effective_ids
    return os.access(name, wanted, dir_fd=folder, effective_ids=effective)


def _kind(mode: int) -> Kind | Literal["special"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"
