"""Making changes of files true on the disk: each path goes from its node before to its node after.

What is on the disk decides: as before, it is changed; as after, it is skipped; anything else is a conflict,
and stays. So it can be cut off at any point and made again. No name is reached through a link.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.confined.file_source import put_link
from lockstitch.tools.confined.tree import CHANGING, Tree, is_absent

NEW_FOLDER_MODE: Final = 0o700  # until all is in it
# What a path says that somebody else changed between our look and our change.
_OVERTAKEN: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR})


@dataclass(frozen=True)
class Conflict:
    """A path that holds neither what was there before nor what shall be there."""

    path: str
    expected: Node | None
    found: Node | None


class Source(Protocol):
    """Where the bytes of new files come from; see `file_source`."""

    def put(self, path: str, after: Node, folder: int, name: str) -> None:
        """Make the file of that node in the open `folder`, at once and in the place of what is there."""


def check(root: int, changes: Sequence[Change]) -> list[Conflict]:
    """The conflicts there would be below the folder `root`. Touches nothing.

    Raises:
        OSError: a file cannot be read.
    """
    with Tree(root) as tree:
        found = [(change, tree.node(change.path)) for change in changes]
    return [
        Conflict(change.path, change.before, now)
        for change, now in found
        if not (is_same(now, change.before) or is_same(now, change.after))
    ]


def apply(root: int, changes: Sequence[Change], source: Source) -> list[Conflict]:
    """Make the changes below the folder `root`; conflicts are left as they are, and told.

    Args:
        root: a descriptor; it may be that of a workspace in which this was cut off before.
        changes: one a path, in any order. A folder that is listed with the same node before and after is
            given its mode back, should it have been opened up when this was cut off.
        source: of the content of new files.

    Raises:
        OSError: the disk is full or fails; made again, it goes on from there.
        ToolExecutionError: the source has other bytes than were promised.
    """
    with Tree(root, need=CHANGING) as tree:
        return _Application(tree, source).make(sorted(changes, key=lambda change: change.path.split("/")))


def is_same(one: Node | None, other: Node | None) -> bool:
    """Whether nothing needs to be done to make one of the other."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.digest) == (other.kind, other.mode, other.digest)


class _Application:
    def __init__(self, tree: Tree, source: Source) -> None:
        self._tree = tree
        self._source = source
        self._conflicts: dict[str, Conflict] = {}

    def make(self, changes: list[Change]) -> list[Conflict]:
        """In an order in which each step finds its place: a folder before what is in it, its mode last."""
        folders = [change for change in changes if _is_folder(change.after)]
        others = [change for change in changes if change.after and not _is_folder(change.after)]
        self._each(self._remove, [change for change in reversed(changes) if _makes_room(change)])
        self._each(self._make_folder, folders)
        self._each(self._put, others)
        self._each(self._finish_folder, list(reversed(folders)))
        return list(self._conflicts.values())

    def _each(self, step: Callable[[Change], None], changes: list[Change]) -> None:
        for change in changes:
            if change.path not in self._conflicts:
                try:
                    step(change)
                except OSError as error:
                    if not is_absent(error) and error.errno not in _OVERTAKEN:
                        raise
                    self._refuse(change, self._tree.node(change.path))

    def _refuse(self, change: Change, now: Node | None) -> None:
        self._conflicts[change.path] = Conflict(change.path, change.before, now)

    def _remove(self, change: Change) -> None:
        now = self._tree.node(change.path)
        if now is None or (change.after and _is_folder(now) == _is_folder(change.after)):
            return  # gone already, or made anew already
        if not (is_same(now, change.before) or (_is_folder(now) and _is_folder(change.before))):
            self._refuse(change, now)
            return
        with self._tree.parent(change.path) as (folder, name):
            if _is_folder(now):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def _make_folder(self, change: Change) -> None:
        now = self._tree.look(change.path)
        if now is None and not _is_folder(change.before):
            with self._tree.parent(change.path) as (folder, name):
                os.mkdir(name, NEW_FOLDER_MODE, dir_fd=folder)
        elif now is None or now.kind != "folder":
            self._refuse(change, self._tree.node(change.path))

    def _put(self, change: Change) -> None:
        now, after = self._tree.node(change.path), change.after
        assert after is not None
        room = now is None and _makes_room(change)
        if is_same(now, after):
            return
        if not (room or is_same(now, change.before)):
            self._refuse(change, now)
        elif now and (now.kind, now.digest) == (after.kind, after.digest):
            self._tree.set_mode(change.path, after.mode)
        else:
            with self._tree.parent(change.path) as (folder, name):
                if after.kind == "link":
                    put_link(after.digest, folder, name)
                else:
                    self._source.put(change.path, after, folder, name)

    def _finish_folder(self, change: Change) -> None:
        now = self._tree.look(change.path)
        if now is None or now.kind != "folder":
            self._refuse(change, self._tree.node(change.path))
        elif change.after and now.mode != change.after.mode:
            self._tree.set_mode(change.path, change.after.mode)


def _is_folder(node: Node | None) -> bool:
    return node is not None and node.kind == "folder"


def _makes_room(change: Change) -> bool:
    """Whether what was there must go before anything can be put there; else a rename replaces it."""
    return change.before is not None and (
        change.after is None or _is_folder(change.before) != _is_folder(change.after)
    )
