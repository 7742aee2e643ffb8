"""What is known of a name in a folder without opening it."""

import os
import stat
from dataclasses import dataclass
from typing import Literal

Kind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class Entry:
    """One name; a link is not followed. `path` is relative to the workspace, `size` in bytes."""

    name: str
    path: str
    kind: Kind
    size: int
    mtime_ns: int


def entry_of(name: str, path: str, status: os.stat_result) -> Entry:
    """The entry with that status."""
    return Entry(name, path, _kind(status.st_mode), status.st_size, status.st_mtime_ns)


def status_of(item: "os.DirEntry[str]") -> os.stat_result | None:
    """The status of what a scan found; None when it was deleted since."""
    try:
        return item.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
