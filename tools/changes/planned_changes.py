"""What a file verb is about to change, as the journal needs it: what is there now, and what will be.

Looked at through the folders that the verb itself will open, so that a link on the way is named by the
place it leads to. Nothing is touched; new content and the bytes that will go are put into the object store.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Protocol

from lockstitch.state.errors import ResourceLimitError
from lockstitch.state.tree_change import Change, Node, compose
from lockstitch.tools.confined.confinement import Confinement
from lockstitch.tools.confined.joint_change import FileAction
from lockstitch.tools.confined.replacement import PERMISSIONS
from lockstitch.tools.confined.tree import SPECIAL, Tree, open_file
from lockstitch.tools.paths import relative_to_roots

CHANGES_MAX: Final = 100_000  # of one call: a folder with all that is in it
BYTES_MAX: Final = 1024**3  # of the files that go: each is read once
SET_GROUP: Final = 0o2000  # what a new folder inherits from the one above it


class Keeper(Protocol):
    """Takes the bytes of files, and names each by its sha256 in hex; see `ObjectStore`."""

    def put(self, data: bytes, *, base: str | None = None) -> str:
        """Take a whole content; `base` is one that it resembles."""

    def put_file(self, fd: int, *, base: str | None = None) -> str:
        """Take that of an open file."""


class Planner:
    """Plans for one workspace. Errors are those the verbs themselves raise."""

    def __init__(self, place: Confinement, objects: Keeper) -> None:
        self._place = place
        self._objects = objects
        self._bytes = 0

    def write(self, path: str, data: bytes) -> list[Change]:
        """As `Workspace.write_bytes`; missing folders are made."""
        return list(self._put(self._real(path, follow=True), data))

    def make_folders(self, path: str) -> list[Change]:
        """As `Workspace.make_folders`."""
        with Tree(self._place.fd) as tree:
            return list(self._missing_folders(tree, self._real(f"{path}/_")))

    def delete(self, path: str) -> list[Change]:
        """As `Workspace.delete`."""
        return list(self._take(self._real(path)))

    def move(self, source: str, destination: str) -> list[Change]:
        """As `Workspace.move`."""
        old, new = self._real(source), self._real(destination)
        gone = list(self._take(old))
        with Tree(self._place.fd) as tree:
            made = list(self._missing_folders(tree, new))
            is_taken = tree.look(new) is not None  # refused then, and taken back: what is there must stay
            for change in gone:
                path = new + change.path[len(old) :]
                made.append(Change(path, self._kept(tree, path) if is_taken else None, change.before))
        return [*gone, *made]

    def all(self, changes: Sequence[FileAction]) -> list[Change]:
        """As `Workspace.change_all`."""
        return compose(planned for change in changes for planned in self._one(change))

    def _one(self, change: FileAction) -> Iterator[Change]:
        if change.source is not None and change.data is None:
            yield from self.move(change.source, change.path)
        elif change.data is None:
            yield from self.delete(change.path)
        elif change.source is None:
            yield from self._put(self._real(change.path, follow=not change.is_new), change.data)
        else:
            gone = self.delete(change.source)
            yield from gone
            mode = gone[0].before.mode if gone and gone[0].before else None
            yield from self._put(self._real(change.path), change.data, mode=mode)

    def _put(self, path: str, data: bytes, *, mode: int | None = None) -> Iterator[Change]:
        with Tree(self._place.fd) as tree:
            yield from self._missing_folders(tree, path)
            before = self._kept(tree, path)
        base = before.digest if before and before.kind == "file" else None
        if mode is None:
            mode = before.mode & PERMISSIONS if before else 0o666 & ~umask()
        yield Change(path, before, Node("file", mode, self._objects.put(data, base=base or None), len(data)))

    def _take(self, path: str) -> Iterator[Change]:
        with Tree(self._place.fd) as tree:
            left = [path]
            count = 0
            while left:
                path = left.pop()
                before = self._kept(tree, path)
                if before is None or before == SPECIAL:  # nothing that could be put back
                    continue
                count += 1
                if count > CHANGES_MAX:
                    raise ResourceLimitError(
                        f"that holds more than {CHANGES_MAX} files and folders, which no rewind could bring "
                        "back: do it in parts."
                    )
                yield Change(path, before, None)
                if before.kind == "folder":
                    left += [f"{path}/{name}" for name in tree.names(path)]

    def _kept(self, tree: Tree, path: str) -> Node | None:
        """What is there, its bytes kept."""
        seen = tree.look(path)
        if seen is None:
            return None
        if seen.kind != "file":
            return tree.node_of(path, seen)
        self._bytes += seen.status.st_size
        if self._bytes > BYTES_MAX:
            raise ResourceLimitError(
                f"that holds more than {BYTES_MAX // 1024**3} GiB, which is not kept for a rewind: "
                "do it in parts, or by run_command."
            )
        with tree.parent(path) as (folder, name):
            fd = open_file(folder, name)
        try:
            return Node("file", seen.mode, self._objects.put_file(fd), seen.status.st_size)
        finally:
            os.close(fd)

    def _missing_folders(self, tree: Tree, path: str) -> Iterator[Change]:
        parts = path.split("/")[:-1]
        inherited, missing = 0, False
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            seen = None if missing else tree.look(folder)
            missing = seen is None
            if seen is not None:
                inherited = seen.mode & SET_GROUP
            else:
                yield Change(folder, None, Node("folder", (0o777 & ~umask()) | inherited, "", 0))

    def _real(self, path: str, *, follow: bool = False) -> str:
        return self._place.real_path(relative_to_roots(path, self._place.roots), follow=follow)


@cache
def umask() -> int:
    """What this process takes from the modes of new files."""
    found = os.umask(0o077)  # the only way to ask; for an instant new files are more private
    os.umask(found)
    return found
