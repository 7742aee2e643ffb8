"""What in a workspace a command must not change: places that git, or we, read as instructions later.

A hook, a setting such as `core.fsmonitor`, a file that names other settings: written inside a sandbox, they
would run outside of it with a person's next git command.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.tools.paths import SETTINGS_FOLDER

GITDIR: Final = "gitdir: "  # begins the file that a linked worktree has in the place of a folder
POINTER_BYTES: Final = 8192  # of such a file: a path and a line's end
RUNS: Final = ("hooks", "config", "modules", "config.worktree", "commondir", "gitdir")
FOLDERS: Final = ("hooks", "modules")  # of these an empty one in the place of a missing one does no harm
FILES: Final = ("commondir", "config.worktree")  # an empty one of these would break git: not masked


@dataclass(frozen=True)
class Protected:
    """Absolute paths. None of them is a link.

    Attributes:
        writable: the repository's own folder; of a linked worktree it lies outside the workspace. A mount of
            its own: such a folder cannot be moved away, with another one put in its place.
        kept: what is there and stays as it is.
        masked: folders that are missing, or empty, and must stay so.
        unwanted: files that are missing, and are deleted if a command makes them.
    """

    writable: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    masked: tuple[Path, ...] = ()
    unwanted: tuple[Path, ...] = ()


@contextlib.contextmanager
def open_protected(root: Path) -> Iterator[Protected]:
    """What to protect of the workspace while a command runs; afterwards nothing of ours is left there."""
    found = find_protected(root)
    with contextlib.ExitStack() as stack:
        for path in found.unwanted:
            stack.callback(_delete, path)
        for path in found.masked:
            stack.enter_context(_mount_point(path))
        yield found


def find_protected(root: Path) -> Protected:
    """Look at the workspace's own `.git`, be it a folder, a worktree's file, or missing; and our settings."""
    git, ours = root / ".git", root / SETTINGS_FOLDER
    places = [_of_git(git)] if not git.is_symlink() else []
    if not ours.is_symlink():
        places.append(Protected(kept=(ours,)) if ours.exists() else Protected(masked=(ours,)))
    return _joined(places)


def _of_git(git: Path) -> Protected:
    if _is_repository(git):
        return _of_repository(git)
    return _of_pointer(git) if git.is_file() else Protected(masked=(git,))


def _of_pointer(pointer: Path) -> Protected:
    """A linked worktree's: its repository is written to, too. Of any other pointer nothing but itself."""
    own = _linked_folder(pointer)
    if own is None:
        return Protected(kept=(pointer,))
    worktree = Protected(kept=(pointer, *_there(own)), unwanted=tuple(_missing(own, FILES)))
    return _joined([_of_repository(own.parents[1]), worktree])


def _linked_folder(pointer: Path) -> Path | None:
    """The folder of a worktree in its repository.

    Only where that folder names the pointer in return: what lies in the workspace alone can be the work of
    a command, and must not open any other place.
    """
    line = _line_of(pointer)
    if not line.startswith(GITDIR):
        return None
    own = Path(os.path.realpath(pointer.parent / line.removeprefix(GITDIR)))
    if own.parent.name != "worktrees" or not _is_repository(own.parents[1]):
        return None
    return own if os.path.realpath(own / _line_of(own / "gitdir")) == os.path.realpath(pointer) else None


def _of_repository(folder: Path) -> Protected:
    return Protected(
        writable=(folder,),
        kept=tuple(_there(folder)),
        masked=tuple(_missing(folder, FOLDERS)),
        unwanted=tuple(_missing(folder, FILES)),
    )


def _there(folder: Path) -> Iterator[Path]:
    paths = (folder / name for name in RUNS)
    return (path for path in paths if path.exists() and not path.is_symlink())


def _missing(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    return (path for name in names if not os.path.lexists(path := folder / name))


def _joined(places: Sequence[Protected]) -> Protected:
    return Protected(
        writable=tuple(path for place in places for path in place.writable),
        kept=tuple(path for place in places for path in place.kept),
        masked=tuple(path for place in places for path in place.masked),
        unwanted=tuple(path for place in places for path in place.unwanted),
    )


def _is_repository(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _line_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            line = opened.read(POINTER_BYTES).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
    return "" if "\0" in line else line  # no path holds that


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):  # no command made it; or a folder, which git does not read
        path.unlink()


@contextlib.contextmanager
def _mount_point(folder: Path) -> Iterator[None]:
    """An empty folder to mount on; the last one who needs it deletes it.

    Deleting it under another command would take that one's mask away, hence the lock.
    """
    import fcntl  # not everywhere, and neither are sandboxes

    fd = _open_locked(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # another command has it, or somebody put something in
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.rmdir()
        os.close(fd)


def _open_locked(folder: Path) -> int:
    import fcntl

    while True:
        folder.mkdir(exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(fd, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), folder.lstat()):
                return fd
        os.close(fd)  # deleted meanwhile by the one before
