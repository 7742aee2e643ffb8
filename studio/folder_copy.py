"""A workspace copied for a fork: all of it, also what git ignores, since the copy must build and run."""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SystemFaultError, WorkspaceError

_CLONE: Final = 0x40049409  # FICLONE of ioctl(2): the copy shares its blocks until one of them is written


def check_new_folder(folder: Path, *, source: Path, home: Path) -> None:
    """Refuse a place for the copy that would mix it with something else.

    Raises:
        WorkspaceError: it is no folder, not empty, or lies in the workspace or in our home.
    """
    try:
        taken = any(folder.iterdir())
    except FileNotFoundError:
        taken = False
    except OSError as error:
        raise WorkspaceError(f"{folder} cannot be used: {(error.strerror or '').lower()}.") from error
    if taken:
        raise WorkspaceError(f"{folder} is not empty: name a new or empty folder with --workspace.")
    for above in (source.resolve(), home.resolve()):
        if above in (folder.resolve(), *folder.resolve().parents):
            raise WorkspaceError(f"{folder} lies in {above}, which must stay as it is: name another folder.")


def copy_folder(source: Path, target: Path, *, leave_out: Sequence[Path]) -> None:
    """Copy a folder into a new or empty one: modes, times and links too, blocks shared where the disk can.

    Sockets, pipes and devices are left out. Where it fails nothing is left of it.

    Raises:
        SystemFaultError: something cannot be read or written.
    """
    out = {path.resolve() for path in leave_out}

    def ignored(folder: str, names: list[str]) -> set[str]:
        here = Path(folder).resolve()
        return {name for name in names if here / name in out or _is_special(here / name)}

    existed = target.exists()
    try:
        shutil.copytree(
            source, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file, ignore=ignored
        )
    except (OSError, shutil.Error) as error:
        remove_copy(target, keep_folder=existed)
        raise SystemFaultError(
            f"the workspace could not be copied: {_first(error)}. Nothing is left of it."
        ) from error


def remove_copy(target: Path, *, keep_folder: bool) -> None:
    """Delete what was copied; the folder itself stays where it was there before."""
    shutil.rmtree(target, ignore_errors=True)
    if keep_folder:
        target.mkdir(exist_ok=True)


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _copy_file(source: str, target: str) -> str:
    if not (Path(source).is_symlink() or _cloned(source, target)):
        shutil.copyfile(source, target)
    shutil.copystat(source, target, follow_symlinks=False)
    return target


def _cloned(source: str, target: str) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
        except OSError:
            return False
    return os.path.getsize(target) == os.path.getsize(source)  # noqa: PTH202


def _first(error: OSError | shutil.Error) -> str:
    if isinstance(error, shutil.Error):
        path, _, why = error.args[0][0]
        return f"{path}: {why}"
    return (error.strerror or "unknown error").lower()
