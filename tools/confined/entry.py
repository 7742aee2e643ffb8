"""What is known of a name in a folder without opening it."""

import os
import stat
from collections.abc import Collection
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from lockstitch.tools.confined.confinement import Identity, identity_of

Kind = Literal["file", "folder", "link", "other"]
_KINDS: Final[dict[int, Kind]] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class Entry(NamedTuple):
    """One name; a link is not followed. `path` is relative to the workspace, `size` in bytes.

    A tuple: a listing makes tens of thousands, and a frozen dataclass takes twice as long.
    """

    name: str
    path: str
    kind: Kind
    size: int
    mtime_ns: int


def entry_of(name: str, path: str, status: os.stat_result) -> Entry:
    """The entry with that status."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return Entry(name, path, kind, status.st_size, status.st_mtime_ns)


def entries_in(folder: int, prefix: str, *, hidden: Collection[Identity]) -> list[Entry]:
    """What an open folder holds, by name, without the folders `hidden`; `prefix` comes before each path.

    Raises:
        OSError: as scandir(3); what is deleted meanwhile is left out.
    """
    entries = []
    with os.scandir(folder) as found:
        for item in found:
            try:
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not hidden or identity_of(status) not in hidden:
                entries.append(entry_of(item.name, prefix + item.name, status))
    return sorted(entries, key=itemgetter(0))
