"""What in a workspace a command must not change: places that git, or we, read as instructions later.

A hook, a setting such as `core.fsmonitor`, a file that names other settings: written inside a sandbox, they
would run outside of it with a person's next git command.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.tools.paths import SETTINGS_FOLDER

GITDIR: Final = "gitdir: "  # begins the file that a linked worktree has in the place of a folder
POINTER_BYTES: Final = 8192  # of such a file: a path and a line's end
RUNS: Final = ("hooks", "config", "modules", "config.worktree", "commondir", "gitdir")
FOLDERS: Final = ("hooks", "modules")  # of these an empty one in the place of a missing one does no harm
WORKTREES: Final = "worktrees"  # holds a folder for each linked worktree, see gitrepository-layout(5)
FILES: Final = ("commondir", "config.worktree")  # an empty one of these would break git: not masked


@dataclass(frozen=True)
class Protected:
    """Absolute paths. None of them is a link.

    Attributes:
        writable: the repository's own folder, which of a linked worktree lies outside the workspace, and
            those in it that hold what is kept. Mounts of their own, outer ones first: such a folder cannot
            be moved away, with another one put in its place.
        kept: what is there and stays as it is.
        masked: folders that are missing, or empty, and must stay so.
        unwanted: files that are missing, and are deleted if a command makes them.
        links: with their targets. No mount can hold one, so it is put back if a command replaces it.
    """

    writable: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    masked: tuple[Path, ...] = ()
    unwanted: tuple[Path, ...] = ()
    links: tuple[tuple[Path, Path], ...] = ()


@contextlib.contextmanager
def open_protected(root: Path, *, layered: bool = False) -> Iterator[Protected]:
    """What to protect of the workspace while a command runs; afterwards nothing of ours is left there.

    Of one that a layer covers only what lies outside of it, in the repository of a linked worktree: the rest
    is judged before anything of the layer is kept.
    """
    found = find_protected(root, layered=layered)
    with contextlib.ExitStack() as stack:
        for path in found.unwanted:
            stack.callback(_delete, path)
        for path, target in found.links:
            stack.callback(_link_again, path, target)
        for path in found.masked:
            stack.enter_context(_mount_point(path))
        yield found


def find_protected(root: Path, *, layered: bool = False) -> Protected:
    """Look at the workspace's own `.git`, be it a folder, a worktree's file, or missing; and our settings.

    `layered` as in `open_protected`.
    """
    git, ours = root / ".git", root / SETTINGS_FOLDER
    places = [_of_git(git)] if not git.is_symlink() else []
    if not ours.is_symlink():
        places.append(Protected(kept=(ours,)) if ours.exists() else Protected(masked=(ours,)))
    found = _joined(places)
    return _outside(found, root) if layered else found


def _of_git(git: Path) -> Protected:
    if _is_repository(git):
        return _of_repository(git, git.parent)
    return _of_pointer(git) if git.is_file() else Protected(masked=(git,))


def _of_pointer(pointer: Path) -> Protected:
    """A linked worktree's: its repository is written to, too. Of any other pointer nothing but itself."""
    own = _linked_folder(pointer)
    if own is None:
        beside = _beside(pointer)
        repository = [_of_repository(beside, pointer.parent)] if beside else []
        return _joined([*repository, Protected(kept=(pointer,))])
    return _joined([_of_repository(own.parents[1], pointer.parent, own=own), Protected(kept=(pointer,))])


def _beside(pointer: Path) -> Path | None:
    """The repository a `git init --separate-git-dir` made in the same folder; a deeper one could be moved."""
    line = _line_of(pointer)
    target = Path(os.path.normpath(pointer.parent / line.removeprefix(GITDIR)))
    is_one = line.startswith(GITDIR) and target.parent == pointer.parent and not target.is_symlink()
    return target if is_one and _is_repository(target) else None


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


def _of_repository(folder: Path, root: Path, *, own: Path | None = None) -> Protected:
    """A repository's folder. `own` is the workspace's in it, where that is a linked worktree."""
    repository = Protected(
        writable=(folder,),
        kept=tuple(_there(folder)),
        masked=tuple(_missing(folder, FOLDERS)),
        unwanted=tuple(_missing(folder, FILES)),
        links=tuple((path, path.readlink()) for name in RUNS if (path := folder / name).is_symlink()),
    )
    linked = [one for one in _worktrees(folder) if one == own or _is_elsewhere(one, root)]
    lead = Protected(writable=(folder / WORKTREES,) if linked else ())
    return _joined([repository, lead, *map(_of_worktree, linked)])


def _of_worktree(own: Path) -> Protected:
    return Protected(writable=(own,), kept=tuple(_there(own)), unwanted=tuple(_missing(own, FILES)))


def _worktrees(folder: Path) -> Iterator[Path]:
    place = folder / WORKTREES
    if place.is_dir() and not place.is_symlink():
        yield from (one for one in sorted(place.iterdir()) if one.is_dir() and not one.is_symlink())


def _is_elsewhere(own: Path, root: Path) -> bool:
    """Whether a worktree out of the workspace reads its settings by way of that folder.

    What lies in the workspace is left alone: a command can have made both ends of it.
    """
    pointer = Path(os.path.realpath(own / _line_of(own / "gitdir")))
    return not pointer.is_relative_to(root) and _linked_folder(pointer) == Path(os.path.realpath(own))


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
        links=tuple(link for place in places for link in place.links),
    )


def _outside(place: Protected, root: Path) -> Protected:
    def beyond(paths: Sequence[Path]) -> tuple[Path, ...]:
        return tuple(path for path in paths if not path.is_relative_to(root))

    return Protected(
        writable=beyond(place.writable),
        kept=beyond(place.kept),
        masked=beyond(place.masked),
        unwanted=beyond(place.unwanted),
        links=tuple((path, target) for path, target in place.links if not path.is_relative_to(root)),
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


def _link_again(path: Path, target: Path) -> None:
    if path.is_symlink() and path.readlink() == target:
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    _delete(path)
    with contextlib.suppress(OSError):  # the repository itself is gone
        path.symlink_to(target)


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
