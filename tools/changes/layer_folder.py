"""A layer's folder: where it can lie, who holds it, and how all of it goes."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.mounts import read_mounts
from lockstitch.tools.confined.tree import FOLDER

LAYERS: Final = "layers"  # in the home folder
PREFIX: Final = ".lockstitch-layer-"  # of a layer's name, which may lie beside a workspace
FOLDER_MODE: Final = 0o700


def find_place(root: Path, home: Path) -> Path:
    """Where a layer over the workspace can be made: if possible on its own device.

    An overlay's own files can lie neither below it nor on another overlay, and it shows no other mounts.

    Raises:
        ToolExecutionError: nowhere, and why.
        OSError: the workspace or the home cannot be used.
    """
    mounts = read_mounts()
    inside = f"{root}/"
    below = next((mount.point for mount in mounts if str(mount.point).startswith(inside)), None)
    if below:
        raise ToolExecutionError(f"{below.relative_to(root)} is a mount of its own, which no overlay shows.")
    ours = Path(os.path.realpath(home)) / LAYERS
    ours.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    device = root.stat().st_dev
    overlays = {mount.device for mount in mounts if mount.kind == "overlay"}
    near = [
        place
        for place in (ours, root.parent)
        if place.stat().st_dev == device and os.access(place, os.R_OK | os.W_OK)
    ]
    for place in (*near, ours):
        number = place.stat().st_dev
        if not place.is_relative_to(root) and f"{os.major(number)}:{os.minor(number)}" not in overlays:
            return place
    raise ToolExecutionError("an overlay needs a place outside of the workspace that is no overlay itself.")


def make_layer_folder(place: Path) -> tuple[Path, int]:
    """A new folder in that place, and the lock that keeps others away from it while this process lives.

    Raises:
        OSError: the place cannot be used.
    """
    folder = place / f"{PREFIX}{secrets.token_hex(6)}"
    with _alone(place):
        folder.mkdir(FOLDER_MODE)
        held = _lock(folder)
    try:
        for name in ("upper", "work"):
            (folder / name).mkdir(FOLDER_MODE)
    except BaseException:
        delete_layer_folder(folder)
        os.close(held)
        raise
    return folder, held


def lock_layer_folder(folder: Path) -> int:
    """The lock of a layer that is there.

    Raises:
        OSError: it is gone, or another process has it.
    """
    with _alone(folder.parent):  # who makes one has it for an instant without its lock
        return _lock(folder)


def fit_layer_folder(folder: Path, top: os.stat_result) -> None:
    """Make an empty layer one over a workspace as it is now, which is seen with its mode and owner."""
    upper = folder / "upper"
    own = upper.stat()
    if (top.st_uid, top.st_gid) != (own.st_uid, own.st_gid):
        os.chown(upper, top.st_uid, top.st_gid)
    upper.chmod(stat.S_IMODE(top.st_mode))
    os.utime(upper)
    mark_beginning(folder / "clock")


def mark_beginning(marker: Path) -> None:
    """Let the marker have a later ctime than any change made so far: old kernels count in 1 to 10 ms."""
    marker.touch()
    first = marker.stat().st_ctime_ns
    while marker.stat().st_ctime_ns <= first:
        os.utime(marker)


def delete_layer_folder(folder: Path) -> None:
    """Delete all of it, whatever modes are in it: the overlay itself leaves a folder with mode 000.

    Raises:
        OSError: the disk fails, or something still writes there.
    """
    _empty(folder, folder)
    folder.rmdir()


def empty_layer_folder(folder: Path) -> None:
    """Let nothing of a command be left in it.

    Raises:
        OSError: the disk fails.
    """
    upper = folder / "upper"
    upper.chmod(FOLDER_MODE)
    _empty(upper, folder)
    for name in os.listxattr(upper):
        os.removexattr(upper, name)


def _empty(place: Path, top: Path) -> None:
    """Folder by folder, each brought up to the top first: so none is too deep."""
    left = [place]
    while left:
        folder = left.pop()
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                Path(entry.path).chmod(FOLDER_MODE)
                left.append(Path(entry.path).rename(top / secrets.token_hex(8)))
            else:
                Path(entry.path).unlink()
        if folder != place:
            folder.rmdir()


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Only one process at a time makes or takes over a layer there."""
    import fcntl  # not everywhere, and neither are overlays

    fd = os.open(place, FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _lock(folder: Path) -> int:
    import fcntl

    fd = os.open(folder, FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd
