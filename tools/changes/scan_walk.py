"""The walk of a scan: what lies below a folder now, compared with what was there at the last look.

It stats every file and reads none. A folder whose own time of change is that of the last look has the same
names in it, so it is not listed again: that saves a third of the time.
"""

import contextlib
import os
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lockstitch.tools.changes.scan_index import Folder, is_young, join_path, split_names, stamp_of
from lockstitch.tools.changes.scan_stamps import split_raw, stamps_of
from lockstitch.tools.changes.second_walk import SECOND_WALK, Answers
from lockstitch.tools.confined.confinement import Identity, identity_of
from lockstitch.tools.confined.tree import FOLDER, READING, Tree
from lockstitch.tools.paths import ROOT, is_protected

DEPTH_MAX: Final = 256  # folders below each other, each held open; deeper ones are not covered
_CONTENT: Final = frozenset({stat.S_IFREG, stat.S_IFLNK})  # FIFOs, sockets and devices are passed by
# What the name of a protected folder can begin with; others need no closer look.
_PROTECTED_BEGIN: Final = frozenset(".gG")


class Listing(NamedTuple):
    """A folder that is not as it was: its stamp, the stamps of its files and links, its folders."""

    stamp: bytes
    files: dict[str, bytes]
    below: list[str]


@dataclass
class Look:
    """What a walk found.

    Attributes:
        folders: by path, a folder before what is in it; the very `Folder` that was known where it still is.
        special: paths of FIFOs, sockets and devices in folders that are not the same.
        closed: folders that could not be read, or lie too deep.
        began_ns: when it began.
    """

    folders: dict[str, Folder | Listing] = field(default_factory=dict)
    special: set[str] = field(default_factory=set)
    closed: list[str] = field(default_factory=list)
    began_ns: int = field(default_factory=time.time_ns)


def look(
    root: int, known: Mapping[str, Folder], *, hidden: Collection[Identity], left_out: Collection[str]
) -> Look:
    """Walk a folder.

    Args:
        root: its descriptor.
        known: what the last look found.
        hidden: folders that are never entered, nor told.
        left_out: paths of others.

    Raises:
        OSError: the folder itself cannot be read.
    """
    asked = SECOND_WALK.answers(root, known, hidden=hidden, left_out=left_out)
    with Tree(root) as tree, asked as answers:
        walk = _Walk(tree, known, answers, hidden=hidden, left_out=left_out)
        walk.visit(root, ROOT, os.fstat(root), depth=0)
    return walk.found


class _Walk:
    def __init__(
        self,
        tree: Tree,
        known: Mapping[str, Folder],
        answers: Answers | None,
        *,
        hidden: Collection[Identity],
        left_out: Collection[str],
    ) -> None:
        self._tree = tree
        self._known = known
        self._answers = answers
        self._hidden = hidden
        self._left_out = left_out
        self.found = Look()

    def visit(self, fd: int, path: str, status: os.stat_result, *, depth: int) -> None:
        """Look at an open folder, whose status was taken before it was opened up."""
        if identity_of(status) in self._hidden:
            return
        if depth > DEPTH_MAX:
            self._pass_by(path, status)
            return
        found = self._known_names(fd, path, status) or self._list(fd, path, status)
        self.found.folders[path] = found
        for name in split_names(found.below) if isinstance(found, Folder) else found.below:
            self._descend(fd, name, join_path(path, name), depth + 1)

    def _known_names(self, fd: int, path: str, status: os.stat_result) -> Folder | Listing | None:
        """The folder without listing it; None where it must be."""
        known = self._known.get(path)
        if known is None or known.stamp != stamp_of(status):
            return None
        if self._is_answered(path):
            return known
        try:
            stamps = stamps_of(fd, split_raw(known.names))
        except FileNotFoundError:
            return None
        if b"".join(stamps) == known.stamps:
            return known
        files = dict(zip(split_names(known.names), stamps, strict=True))
        return Listing(known.stamp, files, split_names(known.below))

    def _is_answered(self, path: str) -> bool:
        return self._answers is not None and self._answers.is_same(path)

    def _descend(self, parent: int, name: str, path: str, depth: int) -> None:
        if path in self._left_out:
            return
        known = self._known.get(path)
        if known and not known.below and self._is_answered(path):
            self.found.folders[path] = known  # not even opened
            return
        try:
            status = os.lstat(name, dir_fd=parent)
        except OSError:
            return  # gone meanwhile: the folder above is looked at again next time
        if not stat.S_ISDIR(status.st_mode):
            return
        try:
            closed = status.st_mode & READING != READING
            fd = self._tree.open_folder(path) if closed else os.open(name, FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError:
            self._pass_by(path, status)
            return
        try:
            self.visit(fd, path, status, depth=depth)
        except OSError:  # it cannot be listed, whatever its mode says
            self._pass_by(path, status)
        finally:
            os.close(fd)

    def _pass_by(self, path: str, status: os.stat_result) -> None:
        self.found.closed.append(path)
        self.found.folders[path] = Listing(stamp_of(status, trusted=False), {}, [])

    def _list(self, fd: int, path: str, status: os.stat_result) -> Listing:
        now_ns = time.time_ns()
        files: dict[str, bytes] = {}
        below: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if (name[0] in _PROTECTED_BEGIN or not name.isascii()) and is_protected(name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    seen = entry.stat(follow_symlinks=False)
                    kind = stat.S_IFMT(seen.st_mode)
                    if kind == stat.S_IFDIR:
                        below.append(name)
                    elif kind in _CONTENT:
                        files[name] = stamp_of(seen)
                    else:
                        self.found.special.add(join_path(path, name))
        # what came in after the status was taken came with a new time, or in the same tick of the clock
        young = is_young(status.st_ctime_ns, now_ns)
        return Listing(stamp_of(status, trusted=not young), files, below)
