"""What of a command's changes no rewind covers: large folders that .gitignore names, which are made again.

Dependencies and builds are that: tens of thousands of files, which would be read, compressed and kept.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lockstitch.state.tree_change import Change, Node

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILES_MAX: Final = 2_000  # changed in an ignored folder: more are dependencies, which a command makes again
BYTES_MAX: Final = 16 * 1024**2  # of these, before and after
RULES: Final = ".gitignore"
RULES_BYTES: Final = 1024 * 1024  # of such a file; a hundred rules take a few thousand

ReadFile = Callable[[str], bytes | None]
"""Gives a file of the workspace as it will be; None where there is none, or it cannot be read."""


def large_ignored(changes: Sequence[Change], read: ReadFile) -> list[str]:
    """The topmost ignored folders with more changes in them than a rewind covers.

    Args:
        changes: of one command.
        read: the files of rules.
    """
    sizes: dict[str, list[int]] = {}
    for change in changes:
        size = _size(change.before) + _size(change.after)
        for folder in _folders_above(change.path):
            counted = sizes.setdefault(folder, [0, 0])
            counted[0] += 1
            counted[1] += size
    large = [folder for folder, (files, size) in sizes.items() if files > FILES_MAX or size > BYTES_MAX]
    if not large:
        return []
    rules = _Rules(read)
    found = [folder for folder in sorted(large, key=lambda one: one.count("/")) if rules.name(folder)]
    return [folder for folder in found if not any(folder.startswith(f"{above}/") for above in found)]


class _Rules:
    """The rules of all folders, each read once."""

    def __init__(self, read: ReadFile) -> None:
        self._read = read
        self._known: dict[str, GitIgnoreSpec] = {}

    def name(self, folder: str) -> bool:
        """Whether they name the folder, or one above it."""
        parts = folder.split("/")
        return any(self._name("/".join(parts[: count + 1])) for count in range(len(parts)))

    def _name(self, folder: str) -> bool:
        named = False
        parts = folder.split("/")
        for count in range(len(parts)):  # the nearest file, and in it the last line, has the last word
            path = "/".join(parts[count:]) + "/"
            for pattern in self._of("/".join(parts[:count])).patterns:
                found = pattern.match_file(path)
                # to its end, or by the single sign that `*` alone becomes: else a folder above it is meant
                if found and found.match.end() in (1, len(path)):
                    named = bool(pattern.include)
        return named

    def _of(self, folder: str) -> "GitIgnoreSpec":
        from pathspec import GitIgnoreSpec

        if folder not in self._known:
            data = self._read(f"{folder}/{RULES}" if folder else RULES) or b""
            text = os.fsdecode(data[:RULES_BYTES])
            self._known[folder] = GitIgnoreSpec.from_lines(text.splitlines())
        return self._known[folder]


def _size(node: Node | None) -> int:
    return node.size if node else 0


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
