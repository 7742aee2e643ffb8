"""What changed in a tree of files: for each path what was there before and what is there after.

A list of changes is plain data: it knows neither where the tree lies nor where the bytes are kept.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

Kind = Literal["file", "folder", "link"]


@dataclass(frozen=True)
class Node:
    """What lies at a path.

    Attributes:
        kind: anything else, such as a socket or a device, is never part of a change.
        mode: the permission bits, of a folder set-gid and sticky too; 0 for a link, whose bits mean nothing.
        digest: of a file the sha256 of its bytes in hex, of a link its target, of a folder nothing.
        size: bytes of a file; 0 for others.
    """

    kind: Kind
    mode: int
    digest: str = ""
    size: int = 0


@dataclass(frozen=True)
class Change:
    """One path; None stands for nothing being there.

    Attributes:
        path: relative to the workspace, posix, without `.` and `..`; undecodable bytes are surrogates, as
            `os.fsdecode` makes them.
    """

    path: str
    before: Node | None
    after: Node | None


def compose(changes: Iterable[Change]) -> list[Change]:
    """The changes made one after the other as one change a path, sorted by path.

    Of each path the first `before` and the last `after` count; a path that ends as it began is dropped.
    """
    met: dict[str, Change] = {}
    for change in changes:
        first = met.get(change.path)
        met[change.path] = change if first is None else replace(first, after=change.after)
    return [met[path] for path in sorted(met) if met[path].before != met[path].after]


def inverse(changes: Iterable[Change]) -> list[Change]:
    """The changes that take these back, the last first."""
    return [Change(change.path, change.after, change.before) for change in changes][::-1]


def digests_in(changes: Iterable[Change]) -> set[str]:
    """The digests of all files in the changes, before and after: the objects that they need."""
    nodes = (node for change in changes for node in (change.before, change.after))
    return {node.digest for node in nodes if node is not None and node.kind == "file"}


def to_json(changes: Iterable[Change]) -> str:
    """The changes in ASCII: rows of [path, before, after], a node being [kind, mode, digest, size]."""
    rows = [[change.path, _row(change.before), _row(change.after)] for change in changes]
    return json.dumps(rows, separators=(",", ":"))


def from_json(text: str | bytes) -> tuple[Change, ...]:
    """The changes that `to_json` wrote.

    Raises:
        ValueError: it wrote something else.
    """
    try:
        return tuple(
            Change(str(path), _node(before), _node(after)) for path, before, after in json.loads(text)
        )
    except TypeError as error:
        raise ValueError("no list of changes") from error


def _row(node: Node | None) -> list[Any] | None:
    return None if node is None else [node.kind, node.mode, node.digest, node.size]


def _node(row: list[Any] | None) -> Node | None:
    return None if row is None else Node(*row)
