"""What differs between two states of a thread's files: by path, by lines, and as a unified diff.

Read from the journal and the kept contents alone: the disk is not looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.call_journal import letter_of
from lockstitch.tools.texts.diffs import Opcode, line_groups

COMPARED_BYTES: Final = 16 * 1024 * 1024  # of one file; a larger one is told like a binary one
BINARY_LOOK: Final = 8_000  # bytes in which git looks for a zero
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"
_NOTHING: Final = "/dev/null"
_LINK_MODE: Final = 0o120000
_FILE_MODE: Final = 0o100000


@dataclass(frozen=True)
class FileDelta:
    """One path between two states.

    Attributes:
        letter: as git's `--name-status`: added, modified, deleted.
        added: lines; None where they cannot be counted, as in a binary file, a folder or a new mode alone.
        removed: lines, likewise.
    """

    path: str
    letter: Literal["A", "M", "D"]
    added: int | None
    removed: int | None


def delta_of(change: Change, objects: ObjectStore) -> FileDelta:
    """The change in numbers.

    Raises:
        SystemFaultError: a content is missing or damaged.
    """
    texts = _texts(change, objects)
    if texts is None:
        return FileDelta(change.path, letter_of(change), None, None)
    codes = [code for group in line_groups(*texts) for code in group if code[0] != "equal"]
    added, removed = sum(code[4] - code[3] for code in codes), sum(code[2] - code[1] for code in codes)
    return FileDelta(change.path, letter_of(change), added, removed)


def unified_diff(changes: Iterable[Change], objects: ObjectStore) -> Iterator[str]:
    """The changes as `git diff` writes them, line by line with their ends; a binary file is named.

    Bytes that are no UTF-8 are surrogates. Folders are named as comments, since git knows none.

    Raises:
        SystemFaultError: a content is missing or damaged.
    """
    for change in changes:
        yield from _unified(change, objects)


def _unified(change: Change, objects: ObjectStore) -> Iterator[str]:
    before, after = change.before, change.after
    if all(node is None or node.kind == "folder" for node in (before, after)):
        yield f"# folder {change.path}: {_mode_words(before)} -> {_mode_words(after)}\n"
        return
    old, new = f"a/{change.path}", f"b/{change.path}"
    yield f"diff --git {old} {new}\n"
    yield from _mode_lines(before, after)
    texts = _texts(change, objects)
    if texts is None:
        if before is None or after is None or before.digest != after.digest:
            old, new = old if before else _NOTHING, new if after else _NOTHING
            yield f"Binary files {old} and {new} differ\n"
        return
    groups = list(line_groups(*texts))
    if groups:
        yield f"--- {old if before else _NOTHING}\n"
        yield f"+++ {new if after else _NOTHING}\n"
    for group in groups:
        yield from _hunk(group, *texts)


def _mode_lines(before: Node | None, after: Node | None) -> Iterator[str]:
    if before is None or before.kind == "folder":
        yield f"new file mode {_git_mode(after)}\n"
    elif after is None or after.kind == "folder":
        yield f"deleted file mode {_git_mode(before)}\n"
    elif _git_mode(before) != _git_mode(after):
        yield f"old mode {_git_mode(before)}\n"
        yield f"new mode {_git_mode(after)}\n"


def _git_mode(node: Node | None) -> str:
    if node is None or node.kind == "link":
        return f"{_LINK_MODE:o}"
    return f"{_FILE_MODE | node.mode:o}"  # all bits, where git knows 644 and 755: they are restored, too


def _mode_words(node: Node | None) -> str:
    return f"mode {node.mode:o}" if node else "none"


def _texts(change: Change, objects: ObjectStore) -> tuple[list[str], list[str]] | None:
    """The lines before and after; None where one side is binary, too large, or no file."""
    sides = [_bytes(node, objects) for node in (change.before, change.after)]
    if any(side is None or b"\0" in side[:BINARY_LOOK] for side in sides):
        return None
    old, new = (side.decode("utf-8", "surrogateescape") for side in sides if side is not None)
    return _lines(old), _lines(new)


def _bytes(node: Node | None, objects: ObjectStore) -> bytes | None:
    if node is None:
        return b""
    if node.kind == "link":
        return node.digest.encode("utf-8", "surrogateescape")
    if node.kind == "folder" or node.size > COMPARED_BYTES:
        return None
    return objects.read(node.digest)


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + [last] * bool(last)


def _hunk(group: list[Opcode], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
    yield f"@@ -{_range(old_from, old_to)} +{_range(new_from, new_to)} @@\n"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from (_ended(" ", line) for line in old[a:b])
        else:
            yield from (_ended("-", line) for line in old[a:b])
            yield from (_ended("+", line) for line in new[c:d])


def _range(start: int, end: int) -> str:
    return f"{start + (end > start)},{end - start}"


def _ended(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else sign + line + _NO_NEWLINE
