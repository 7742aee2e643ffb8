"""What a command must not find in a home: one layer of whiteouts over it hides all of that at once.

A mount for each secret costs every command 0.1 ms, and a home has a dozen of them. The layers hold names
alone. They stay among the machine's temporary files, in a folder that is ours, and are looked through at
every use: what somebody took out of one is put back, and one that cannot be trusted is not used.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from lockstitch.tools.commands.mounts import read_mounts

OURS: Final = 0o700  # mode of what nobody else is to look into, or change
LAID_UNDER: Final = frozenset({"tmpfs", "ext4", "xfs", "btrfs"})  # file systems that an overlay can read from
WHITEOUT: Final = (
    0  # of a character device that is one, major and minor number; see the kernel's overlayfs.rst
)

Entry = tuple[str, int, int, int]
"""A name in a layer: its path there, its mode as lstat has it, its owner and group."""


def whiteout_layer(home: str, hidden: tuple[str, ...], *, apart_from: str) -> str | None:
    """A folder that hides these of a home when it is laid over it; None where none can be made.

    Args:
        home: absolute and without links, as all paths here.
        hidden: below it.
        apart_from: a folder that a command can write to, in which it must not lie.
    """
    place = f"{_real(tempfile.gettempdir())}/lockstitch-whiteouts-{os.geteuid()}"
    if any(
        f"{place}/".startswith(f"{one}/") or f"{one}/".startswith(f"{place}/") for one in (home, apart_from)
    ):
        return None
    try:
        entries = _entries(home, *_names(home, hidden))
        layer = f"{place}/{_digest(entries)}"
        if not _is_whole(place, layer, entries):
            _make(Path(layer), entries)
            if not _is_whole(place, layer, entries):
                return None
        return layer if _can_be_laid_over(layer, home) else None
    except OSError:
        return None


_real: Final = lru_cache(os.path.realpath)


@lru_cache
def _names(home: str, hidden: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The folders on the way, outer ones first, and what is hidden, as paths from the home."""
    top, wanted = Path(home), sorted(map(Path, hidden))
    outermost = [path for path in wanted if not set(path.parents) & set(wanted)]
    ways = {folder for path in outermost for folder in path.parents if top in folder.parents}
    return [str(way.relative_to(top)) for way in sorted(ways)], [
        str(path.relative_to(top)) for path in outermost
    ]


def _entries(home: str, ways: Sequence[str], names: Sequence[str]) -> tuple[Entry, ...]:
    """The folders on the way, which are seen as the layer has them, and the whiteouts."""
    folders = ((way, *_looks(os.lstat(f"{home}/{way}"))) for way in ways)
    return (*folders, *((name, stat.S_IFCHR, os.geteuid(), os.getegid()) for name in names))


@lru_cache
def _digest(entries: tuple[Entry, ...]) -> str:
    return sha256(repr(entries).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _looks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode, status.st_uid, status.st_gid


def _is_whole(place: str, layer: str, entries: Iterable[Entry]) -> bool:
    """Whether all of it is there and nobody else can change it."""
    try:
        for folder in (place, layer):
            mode, owner, _ = _looks(os.lstat(folder))
            if mode != stat.S_IFDIR | OURS or owner != os.geteuid():
                return False
        return all(_is_one(os.lstat(f"{layer}/{name}"), looks) for name, *looks in entries)
    except OSError:
        return False


def _is_one(status: os.stat_result, looks: Sequence[int]) -> bool:
    if stat.S_ISCHR(status.st_mode):
        return stat.S_ISCHR(looks[0]) and status.st_rdev == WHITEOUT
    return [*_looks(status)] == looks


def _make(layer: Path, entries: Iterable[Entry]) -> None:
    """Make what is missing of it. To add a whiteout under a running command's feet only hides more."""
    for folder in (layer.parent, layer):
        folder.mkdir(OURS, exist_ok=True)
    for name, mode, owner, group in entries:
        path = layer / name
        with contextlib.suppress(FileExistsError):  # made by another process, or left over
            if stat.S_ISCHR(mode):
                os.mknod(path, mode, WHITEOUT)
            else:
                path.mkdir(OURS)
                os.chown(path, owner, group)
                path.chmod(stat.S_IMODE(mode))


def _can_be_laid_over(layer: str, home: str) -> bool:
    """Whether the file system can; that of the home can, since commands have an overlay of it anyway."""
    device = os.lstat(layer).st_dev
    if device == os.lstat(home).st_dev:
        return True
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {mount.kind for mount in read_mounts() if mount.device == number}
    return bool(kinds) and kinds <= LAID_UNDER
