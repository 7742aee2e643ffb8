"""What a command changed in its layer: listed, judged path by path, and committed as one journal entry."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.call_journal import CallJournal
from lockstitch.tools.changes.ignored_changes import large_ignored
from lockstitch.tools.changes.protected_changes import take_out_protected
from lockstitch.tools.changes.shown_changes import SHOWN_BYTES, kind_of
from lockstitch.tools.changes.transaction import Layer
from lockstitch.tools.confined.apply import Conflict, apply, is_same
from lockstitch.tools.confined.tree import Tree
from lockstitch.tools.faults import explain
from lockstitch.tools.paths import is_git, shown
from lockstitch.tools.texts.diffs import FileChange

SAID_MAX: Final = 5  # paths that are named of one kind of trouble
SHOWN_MAX: Final = 20  # files whose difference is shown


@dataclass(frozen=True)
class Effects:
    """What a command would change, by path, with what is left out of it in words.

    Attributes:
        uncovered: what no rewind takes back, in large folders that are ignored.
        touched: files with nothing new but their time of change, in nanoseconds.
    """

    changes: Sequence[Change]
    remarks: Sequence[str]
    touched: dict[str, int]
    uncovered: Sequence[Change] = ()

    @cached_property
    def real(self) -> list[Change]:
        """The changes without folders that are only passed through."""
        return [change for change in self.changes if not is_same(change.before, change.after)]

    def __bool__(self) -> bool:
        return bool(self.real or self.uncovered)


def find_effects(layer: Layer, root: int, is_denied: Callable[[str], bool] | None) -> Effects:
    """What the command changed and may keep. All its processes must have ended; ask once.

    Args:
        layer: that it wrote into.
        root: the workspace's descriptor.
        is_denied: whether a rule forbids the path to it.

    Raises:
        RecoverableError: it changed too much, or it cannot be read.
    """
    found = layer.changes(root)
    changes, remarks = take_out_protected(found.changes)
    overtaken = set(found.overtaken)
    denied = {change.path for change in changes if is_denied and is_denied(change.path)}
    remarks += _said(overtaken, "was changed by somebody else while the command ran: their version stays")
    remarks += _said(denied, "was not kept: a rule forbids it")
    kept = [change for change in changes if change.path not in overtaken | denied]
    with Tree(root) as lower:
        large = large_ignored(kept, lambda path: _rules(path, layer, lower))
    remarks += _said(set(large), "is ignored and large: no rewind takes back what is in it")
    uncovered = [change for change in kept if _is_in(change.path, large)]
    covered = [change for change in kept if not _is_in(change.path, large)]
    return Effects(covered, [*found.remarks, *remarks], found.touched, uncovered)


def commit(effects: Effects, layer: Layer, root: int, journal: CallJournal, *, result: str) -> list[str]:
    """Make the effects true in the workspace, and note them; what was left as it is, in words.

    Args:
        effects: as `find_effects` gave them.
        layer: that holds them.
        root: the workspace's descriptor.
        journal: of the call.
        result: what the model is told, should it be asked again after a kill.

    Raises:
        ToolExecutionError: the disk fails, or a file is another one by now; nothing that a rewind covers is
            changed.
    """
    conflicts: list[Conflict] = []
    try:
        if effects.uncovered:  # first what can be made again, should this be cut off
            with layer.files() as files:
                conflicts += apply(root, effects.uncovered, files)
        if effects.real:
            layer.keep_bytes(root, effects.changes, journal.objects)
            effect = journal.seal(effects.changes, kind="command", result=result)
            try:
                with layer.files() as files:
                    conflicts += apply(root, effects.changes, files)
            except BaseException:
                journal.take_back(root, effect)
                raise
            journal.finish(effect)
        layer.touch(root, effects.touched)
    except OSError as error:
        raise ToolExecutionError(
            f"the command ran, and what it changed could not be kept: {explain(error, '.').message}"
        ) from error
    return _said(
        {conflict.path for conflict in conflicts},
        "was changed by somebody else just now: their version stays",
    )


def read_changes(effects: Effects, layer: Layer, root: int) -> Iterator[FileChange]:
    """The files that differ, as far as a person would look at them; nothing of git's own."""
    files = [c for c in effects.real if not is_git(c.path.partition("/")[0]) and _is_shown(c)]
    with Tree(root) as lower:
        for change in files[:SHOWN_MAX]:
            with contextlib.suppress(OSError):  # gone meanwhile, or closed to us
                yield FileChange(
                    path=change.path,
                    change_type=kind_of(change),
                    before=_content(change.before, layer, lower, change.path),
                    after=_content(change.after, layer, layer, change.path),
                )


def _content(node: Node | None, layer: Layer, place: Layer | Tree, path: str) -> bytes | None:
    if node is None:
        return None
    known = layer.known(node)
    return place.read(path) if known is None else known


def _rules(path: str, layer: Layer, lower: Tree) -> bytes | None:
    """A file of rules as the command left it."""
    for read in (layer.read, lower.read):
        with contextlib.suppress(OSError):
            return read(path)
    return None


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _said(paths: set[str], words: str) -> list[str]:
    told = [f"{shown(path)} {words}" for path in sorted(paths)[:SAID_MAX]]
    return told + ([f"and {len(paths) - SAID_MAX} more such files"] if len(paths) > SAID_MAX else [])


def _is_shown(change: Change) -> bool:
    nodes = [node for node in (change.before, change.after) if node]
    return all(node.kind == "file" and node.size <= SHOWN_BYTES for node in nodes)
