"""What changes of files would meet on the disk, before anything is touched: to be shown, and decided on."""

from collections.abc import Sequence
from dataclasses import dataclass

from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.confined.apply import Conflict, is_same
from lockstitch.tools.confined.tree import Tree


@dataclass(frozen=True)
class Outlook:
    """The changes, parted.

    Attributes:
        ready: the files are as before: they can be made, and taken back again exactly.
        conflicts: somebody else changed these since; never to be overwritten.
        staying: folders that would go, but hold what somebody else put there.
    """

    ready: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]
    staying: tuple[str, ...]


def look_ahead(root: int, changes: Sequence[Change]) -> Outlook:
    """Part changes, one a path, by what is below the folder `root`; what is true already is left out.

    Raises:
        OSError: a file cannot be read.
    """
    with Tree(root) as tree:
        return _Look(tree, changes).outlook()


class _Look:
    def __init__(self, tree: Tree, changes: Sequence[Change]) -> None:
        self._tree = tree
        self._ready: dict[str, Change] = {}
        self._conflicts: dict[str, Conflict] = {}
        self._staying: list[str] = []
        self._changes = sorted(changes, key=lambda change: change.path.split("/"))

    def outlook(self) -> Outlook:
        for change in self._changes:  # a folder before what is in it
            self._judge(change)
        for change in reversed(self._changes):  # and after it, to see what stays
            if _is_folder(change.before) and not _is_folder(change.after) and change.path in self._ready:
                self._judge_removal(change)
        return Outlook(tuple(self._ready.values()), tuple(self._conflicts.values()), tuple(self._staying))

    def _judge(self, change: Change) -> None:
        now = self._tree.node(change.path)
        if is_same(now, change.after):
            return
        if is_same(now, change.before) and (change.after is None or self._has_place(change.path)):
            self._ready[change.path] = change
        else:
            self._conflicts[change.path] = Conflict(change.path, change.before, now)

    def _has_place(self, path: str) -> bool:
        """Whether there is, or will be, a folder that the path can be put into."""
        above = path.rpartition("/")[0]
        if not above or (above in self._ready and _is_folder(self._ready[above].after)):
            return True
        seen = self._tree.look(above)
        return above not in self._ready and seen is not None and seen.kind == "folder"

    def _judge_removal(self, change: Change) -> None:
        inside = (f"{change.path}/{name}" for name in self._tree.names(change.path))
        if all(path in self._ready and self._ready[path].after is None for path in inside):
            return
        del self._ready[change.path]
        if change.after is None:
            self._staying.append(change.path)
        else:
            self._conflicts[change.path] = Conflict(change.path, change.before, change.before)


def _is_folder(node: Node | None) -> bool:
    return node is not None and node.kind == "folder"
