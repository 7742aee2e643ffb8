"""What a command changed, read from the upper layer of its overlay and not by a scan of the workspace.

An overlay keeps changed and new files whole there, a deletion as a character device 0/0, and a folder that
hides what was below it with a mark. What is compared with is the workspace as it is now; a path that somebody
else changed since the layer was opened is told by its ctime.
"""

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.confined.apply import is_same
from lockstitch.tools.confined.file_source import overlay_marks
from lockstitch.tools.confined.tree import Seen, Tree
from lockstitch.tools.paths import ROOT, shown

CHANGES_MAX: Final = 200_000  # of one command; the dependencies of a big project are 60,000 files
BYTES_MAX: Final = 4 * 1024**3  # of all files before and after; they are hashed, which takes 13 s
DEPTH_MAX: Final = 256  # folders below each other, as the file tools have it; more is a loop that went wrong
REMARKS_MAX: Final = 20  # of one command: what more there is would say nothing new
OWNER: Final = stat.S_IRWXU  # a folder without all of these is closed to its owner in part
# They say that the layer has not all of a file, or has it elsewhere: mounts of ours never make them.
_UNREADABLE: Final = ("metacopy", "redirect")


@dataclass
class LayerChanges:
    """What a layer holds.

    Attributes:
        changes: by path, a folder before what is in it. One of a folder that its owner may not enter is
            there with the same node before and after: `apply` opens it up, and must close it again.
        overtaken: paths that somebody else changed since the layer was opened; the command saw other bytes.
        remarks: what is not kept, in words.
        touched: files with nothing new but their time of change, in nanoseconds.
    """

    changes: list[Change] = field(default_factory=list)
    overtaken: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    touched: dict[str, int] = field(default_factory=dict)


def read_layer(upper: Tree, lower: Tree, *, began_ns: int) -> LayerChanges:
    """Compare an upper layer that nobody writes any more with the workspace below.

    Args:
        upper: the layer.
        lower: the workspace.
        began_ns: what has this ctime or a later one was changed after the layer was opened.

    Raises:
        ResourceLimitError: the command changed too much.
        ToolExecutionError: the layer cannot be read.
        OSError: the disk fails.
    """
    return _Comparison(upper, lower, began_ns).run()


class _Comparison:
    """First all paths are found, which is quick and where the limits count; then their content is read."""

    def __init__(self, upper: Tree, lower: Tree, began_ns: int) -> None:
        self._upper = upper
        self._lower = lower
        self._began_ns = began_ns
        self._bytes = 0
        self._met: dict[str, tuple[Seen | None, Seen | None]] = {}
        self._held: list[str] = []  # stay, because their deletion could not be undone
        self._result = LayerChanges()

    def run(self) -> LayerChanges:
        left = [(ROOT, False)]
        while left:
            path, hides = left.pop()
            left += self._visit(path, hides=hides)
        self._keep_above_held()
        for path in sorted(self._met, key=lambda path: path.split("/")):
            self._compare(path, *self._met[path])
        self._result.overtaken = sorted(set(self._result.overtaken))
        if all(change.before == change.after for change in self._result.changes):
            self._result.changes = []  # nothing was changed in the closed folders
        return self._result

    def _visit(self, path: str, *, hides: bool) -> list[tuple[str, bool]]:
        """Look at one path; gives what is to be visited next, and whether it hides what is below it."""
        after = self._upper.look(path)
        if after is None or _is_whiteout(after):
            self._remove(path)
            return []
        if after.kind == "special":
            self._remark(path, "is a FIFO, socket or device, and was not kept")
            return []
        before = self._lower.look(path)
        if before and before.kind == "special":
            self._hold(path)
            return []
        if before and before.kind == "folder" != after.kind:
            self._remove_below(path)
        hides = self._read_marks(path, before, after) or hides
        self._add(path, before, after)
        return self._below(path, before, hides=hides) if after.kind == "folder" else []

    def _below(self, path: str, before: Seen | None, *, hides: bool) -> list[tuple[str, bool]]:
        names = self._upper.names(path)
        if hides and before and before.kind == "folder":
            for name in set(self._lower.names(path)).difference(names):
                self._remove(_join(path, name))
        return [(_join(path, name), hides) for name in names]

    def _compare(self, path: str, before: Seen | None, after: Seen | None) -> None:
        new = self._upper.node_of(path, after) if after else None
        old = self._read_lower(path, before) if before else None
        closed = path != ROOT and after and after.kind == "folder" and after.mode & OWNER != OWNER
        if closed or not is_same(old, new):
            self._result.changes.append(Change(path, old, new))
            self._say_what_differs(path, before, after)
        elif before and after and after.kind == "file" and _mtime(before) != _mtime(after):
            self._result.touched[path] = _mtime(after)

    def _read_lower(self, path: str, before: Seen) -> Node | None:
        try:
            node = self._lower.node_of(path, before)
        except FileNotFoundError:
            node = None
        if before.kind == "file" and _differs(before, self._lower.look(path)):
            self._result.overtaken.append(path)  # while we read it
        return node

    def _say_what_differs(self, path: str, before: Seen | None, after: Seen | None) -> None:
        if after is None or after.kind != "file":
            return
        if after.status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            self._remark(path, "was kept without its set-id bits")
        if before and before.kind == "file" and before.status.st_nlink > 1:
            self._remark(path, "has other names (hard links): they keep what was there before")

    def _remove_below(self, path: str) -> None:
        for name in self._lower.names(path):
            self._remove(_join(path, name))

    def _remove(self, path: str) -> None:
        """Note the deletion of what the workspace has there, and of all below it."""
        left = [path]
        while left:
            path = left.pop()
            before = self._lower.look(path)
            if before is None:
                continue
            if before.kind == "special":
                self._hold(path)
                continue
            self._add(path, before, None)
            if before.kind == "folder":
                left += [_join(path, name) for name in self._lower.names(path)]

    def _read_marks(self, path: str, before: Seen | None, after: Seen) -> bool:
        """Whether the overlay marked a folder as hiding what is below."""
        if after.kind == "link":
            return False
        if after.kind == "folder":  # by a descriptor, which opens it up: a closed one hides its marks
            fd = self._upper.open_folder(path)
            try:
                marks = overlay_marks(fd, ROOT)
                hides = any(m.endswith(".opaque") and os.getxattr(fd, m) == b"y" for m in marks)
            finally:
                os.close(fd)
        else:
            with self._upper.parent(path) as (folder, name):
                marks, hides = overlay_marks(folder, name), False
        if any(mark.endswith(_UNREADABLE) for mark in marks):
            raise ToolExecutionError(
                "the overlay of this command is of a kind that cannot be read: nothing was kept."
            )
        if before is None and any(mark.endswith(".origin") for mark in marks) and self._folder_touched(path):
            self._result.overtaken.append(path)  # a copy of what somebody else has taken away
        return hides

    def _folder_touched(self, path: str) -> bool:
        while path != ROOT:
            path = path.rpartition("/")[0] or ROOT
            if seen := self._lower.look(path):
                return seen.status.st_ctime_ns >= self._began_ns
        return False

    def _add(self, path: str, before: Seen | None, after: Seen | None) -> None:
        self._met[path] = before, after
        self._bytes += sum(seen.status.st_size for seen in (before, after) if seen and seen.kind == "file")
        if len(self._met) > CHANGES_MAX:
            raise ResourceLimitError(
                f"the command changed more than {CHANGES_MAX} files: nothing of it was kept. "
                "Do it in parts, or in /tmp."
            )
        if path.count("/") >= DEPTH_MAX:
            raise ResourceLimitError(
                f"the command made or deleted folders nested deeper than {DEPTH_MAX}: nothing of it was kept."
            )
        if self._bytes > BYTES_MAX:
            raise ResourceLimitError(
                f"the command changed files of more than {BYTES_MAX // 1024**3} GiB: nothing was kept. "
                "Write big files to /tmp, or fewer of them."
            )
        if before and before.status.st_ctime_ns >= self._began_ns and not _is_same_folder(before, after):
            self._result.overtaken.append(path)

    def _hold(self, path: str) -> None:
        self._held.append(path)
        self._remark(path, "is a FIFO, socket or device, which cannot be restored: it was left as it is")

    def _keep_above_held(self) -> None:
        """Folders that hold what stays must stay, too, whatever the command put in their place."""
        for held in self._held:
            path = held
            while path := path.rpartition("/")[0]:
                _, after = self._met.get(path, (None, None))
                if after is None or after.kind != "folder":
                    self._met.pop(path, None)

    def _remark(self, path: str, words: str) -> None:
        if len(self._result.remarks) < REMARKS_MAX:
            self._result.remarks.append(f"{shown(path)} {words}")


def _mtime(seen: Seen) -> int:
    return seen.status.st_mtime_ns


def _differs(seen: Seen, now: Seen | None) -> bool:
    """Not by ctime: reading a file that is closed to its owner changes that."""
    if now is None:
        return True
    one, other = seen.status, now.status
    return (one.st_ino, one.st_size, one.st_mtime_ns) != (other.st_ino, other.st_size, other.st_mtime_ns)


def _is_whiteout(seen: Seen) -> bool:
    return stat.S_ISCHR(seen.status.st_mode) and seen.status.st_rdev == 0


def _is_same_folder(before: Seen, after: Seen | None) -> bool:
    """Whether a folder was only passed through, or goes with all in it, which is looked at itself."""
    return before.kind == "folder" and (after is None or (after.kind, after.mode) == ("folder", before.mode))


def _join(folder: str, name: str) -> str:
    return name if folder == ROOT else f"{folder}/{name}"
