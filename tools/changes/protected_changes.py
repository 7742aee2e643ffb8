"""What of a command's changes is never committed: what git, or we, would read as instructions later.

The same places as `protected` holds while a command runs without a layer.
"""

from collections.abc import Iterable
from typing import Final

from lockstitch.state.tree_change import Change
from lockstitch.tools.commands.protected import RUNS
from lockstitch.tools.paths import is_git, is_protected, plain_name, shown

SAID_MAX: Final = 5  # paths that are named: what more there is would say nothing new


def take_out_protected(changes: Iterable[Change]) -> tuple[list[Change], list[str]]:
    """The changes that may be committed, and in words those that are left out.

    A repository at the workspace's root can be committed to. It cannot be made or removed, nor its hooks,
    settings and modules changed. Repositories below are files like others.
    """
    listed = list(changes)
    whole = any(is_git(change.path) and _is_remade(change) for change in listed)
    out = {change.path for change in listed if _is_protected(change.path, whole_git=whole)}
    words = [f"{shown(path)} was not kept: git or Lockstitch would run or obey it" for path in sorted(out)]
    if len(words) > SAID_MAX:
        words[SAID_MAX:] = [f"nor were {len(words) - SAID_MAX} more such files"]
    return [change for change in listed if change.path not in out], words


def _is_remade(change: Change) -> bool:
    kinds = {node.kind if node else None for node in (change.before, change.after)}
    return kinds != {"folder"}


def _is_protected(path: str, *, whole_git: bool) -> bool:
    top, _, below = path.partition("/")
    if not is_protected(top):
        return False
    return not is_git(top) or whole_git or plain_name(below.partition("/")[0]) in RUNS
