"""What a command must not find in a home: one layer of whiteouts over it hides all of that at once.

A mount for each secret costs every command 0.1 ms, and a home has a dozen of them. The layers hold names
alone. They lie where a machine keeps what is of this day, which no command sees and nobody tidies up, and are
looked through at every use: one that is not as it was made makes room for a new one.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from lockstitch.tools.commands.mounts import read_mounts

PLACES: Final = ("/run/user/{uid}", "/run", "/dev/shm")  # noqa: S108  the first that we can write to
OURS: Final = 0o700  # mode of what nobody else is to look into, or change
LAID_UNDER: Final = frozenset({"tmpfs", "ext4", "xfs", "btrfs"})  # file systems that an overlay can read from
WHITEOUT: Final = 0  # major and minor number of the device that is one; see the kernel's overlayfs.rst

Entry = tuple[str, int, int, int]
"""A name in a layer: its path there, its mode as lstat has it, its owner and group."""


def whiteout_layer(home: str, hidden: tuple[str, ...], *, apart_from: str) -> str | None:
    """A folder that hides these of a home when it is laid over it; None where none can be made.

    Args:
        home: absolute and without links, as all paths here.
        hidden: below it.
        apart_from: a folder that a command can write to, in which it must not lie.
    """
    place = _find_place(PLACES, os.geteuid())
    if place is None or any(_overlap(place, folder) for folder in (home, apart_from)):
        return None
    try:
        entries = _entries(home, *_names(home, hidden))
        layer = f"{place}/{_digest(entries)}"
        if not _is_whole(place, layer, entries):
            _make(place, layer, entries)
            if not _is_whole(place, layer, entries):
                return None
        return layer if _can_be_laid_over(layer, home) else None
    except OSError:
        return None


@lru_cache
def _find_place(among: tuple[str, ...], uid: int) -> str | None:
    places = (os.path.realpath(place.format(uid=uid)) for place in among)
    found = next((place for place in places if os.access(place, os.W_OK | os.X_OK)), None)
    return found and f"{found}/lockstitch-whiteouts-{uid}"


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


@lru_cache
def _names(home: str, hidden: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The folders on the way, outer ones first, and what is hidden, as paths from the home."""
    top, wanted = Path(home), sorted(map(Path, hidden))
    outermost = [path for path in wanted if not set(path.parents) & set(wanted)]
    ways = {folder for path in outermost for folder in path.parents if top in folder.parents}

    def short(paths: Sequence[Path]) -> list[str]:
        return [str(path.relative_to(top)) for path in paths]

    return short(sorted(ways)), short(outermost)


def _entries(home: str, ways: Sequence[str], names: Sequence[str]) -> tuple[Entry, ...]:
    """The folders on the way, which are seen as the layer has them, and the whiteouts."""
    folders = ((way, *_looks(os.lstat(f"{home}/{way}"))) for way in ways)
    return (*folders, *((name, stat.S_IFCHR, os.geteuid(), os.getegid()) for name in names))


@lru_cache
def _digest(entries: tuple[Entry, ...]) -> str:
    return sha256(repr(entries).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _looks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode, status.st_uid, status.st_gid


def _is_whole(place: str, layer: str, entries: tuple[Entry, ...]) -> bool:
    """Whether all of it is there and nothing else, and nobody else can change it."""
    try:
        for folder in (place, layer):
            mode, owner, _ = _looks(os.lstat(folder))
            if mode != stat.S_IFDIR | OURS or owner != os.geteuid():
                return False
        return all(_is_one(os.lstat(f"{layer}/{name}"), looks) for name, *looks in entries) and all(
            set(os.listdir(f"{layer}/{folder}")) == names  # noqa: PTH208  for each command
            for folder, names in _listings(entries).items()
        )
    except OSError:
        return False


@lru_cache
def _listings(entries: tuple[Entry, ...]) -> dict[str, set[str]]:
    """What is in each folder of a layer, by its path there."""
    found: dict[str, set[str]] = {}
    for path, *_ in entries:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, set()).add(name)
    return found


def _is_one(status: os.stat_result, looks: Sequence[int]) -> bool:
    if stat.S_ISCHR(status.st_mode):
        return stat.S_ISCHR(looks[0]) and status.st_rdev == WHITEOUT
    return [*_looks(status)] == looks


def _make(place: str, layer: str, entries: tuple[Entry, ...]) -> None:
    """Make it elsewhere, then give it its name: commands may be running over what has the name now."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, OURS)  # noqa: PTH102
    new = tempfile.mkdtemp(dir=place)
    try:
        _fill(Path(new), entries)
        with contextlib.suppress(OSError):  # it is there: by another process, or no more whole
            os.rename(new, layer)  # noqa: PTH104
        if not _is_whole(place, layer, entries):
            os.rename(layer, f"{new}-was")  # noqa: PTH104
            os.rename(new, layer)  # noqa: PTH104
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fill(layer: Path, entries: Iterable[Entry]) -> None:
    for name, mode, owner, group in entries:
        if stat.S_ISCHR(mode):
            os.mknod(layer / name, mode, WHITEOUT)
        else:
            (layer / name).mkdir(OURS)
            os.chown(layer / name, owner, group)
            (layer / name).chmod(stat.S_IMODE(mode))


def _can_be_laid_over(layer: str, home: str) -> bool:
    """Whether the file system can; that of the home can, since commands have an overlay of it anyway."""
    device = os.lstat(layer).st_dev
    if device == os.lstat(home).st_dev:
        return True
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {mount.kind for mount in read_mounts() if mount.device == number}
    return bool(kinds) and kinds <= LAID_UNDER
