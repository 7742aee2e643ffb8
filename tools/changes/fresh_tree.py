"""The files of a thread made in a folder of their own: what it left, with the folders they need."""

import posixpath
from collections.abc import Iterable
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.confined.apply import Source, apply
from lockstitch.tools.paths import is_git, is_protected, shown

FOLDER_MODE: Final = 0o755  # of a folder that was there before the thread, whose mode nobody noted
SAID_MAX: Final = 5  # paths that are named


def make_tree(root: int, changes: Iterable[Change], source: Source) -> list[str]:
    """Make what the changes come to in an empty folder; in words, what was left out.

    Left out are repositories, of which a thread knows a part only, our own settings, and links that lead out
    of the folder.

    Args:
        root: the folder's descriptor.
        changes: one a path, from the beginning of the thread on.
        source: of the contents.

    Raises:
        OSError: the disk is full or fails.
        SystemFaultError, ToolExecutionError: a content is missing, or something is in the way.
    """
    wanted = {change.path: change.after for change in changes if change.after is not None}
    out = sorted(path for path, node in wanted.items() if _stays_out(path, node))
    for path in out:
        del wanted[path]
    for path in list(wanted):
        while path := posixpath.dirname(path):
            wanted.setdefault(path, Node("folder", FOLDER_MODE))
    conflicts = apply(root, [Change(path, None, node) for path, node in wanted.items()], source)
    if conflicts:
        raise ToolExecutionError(f"{shown(conflicts[0].path)} cannot be made: something else is there.")
    words = [f"{shown(path)} was not made: see docs/threads.md" for path in out]
    if len(words) > SAID_MAX:
        words[SAID_MAX:] = [f"nor were {len(words) - SAID_MAX} more such files"]
    return words


def _stays_out(path: str, node: Node) -> bool:
    parts = path.split("/")
    if is_protected(parts[0]) or any(map(is_git, parts)):
        return True
    if node.kind != "link":
        return False
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), node.digest))
    return leads_to.startswith(("/", "../")) or leads_to == ".."
