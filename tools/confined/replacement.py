"""Putting a whole file in the place of another, at once, inside a folder that is held open."""

import contextlib
import errno
import os
import secrets
import stat
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.paths import shown

NAME_CHARS: Final = 40  # of the name kept in the draft's: 160 bytes at most, of the 255 a name may have
PERMISSIONS: Final = 0o777  # what is kept of a mode: never set-user-id, set-group-id or sticky


def replace_file(folder: int, name: str, data: bytes) -> None:
    """Write `data` as the file `name` of the open `folder`: whole or not at all.

    Mode and, where allowed, owner of a file that is there are kept; its set-id bits are not. It is
    replaced by rename: a hard link elsewhere keeps the old bytes, and nothing is written through a link,
    FIFO or device. Not flushed to the disk: the promise is to survive the end of a process, not of power.

    Raises:
        ToolExecutionError: the name belongs to something that is no regular file.
        OSError: as open(2) and rename(2); no draft is left.
    """
    draft = stage_file(folder, name, data, existing_file(folder, name))
    try:
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def stage_file(folder: int, name: str, data: bytes, old: os.stat_result | None) -> str:
    """Write `data` beside the place of `name`, and give the name of that draft.

    Args:
        folder: open.
        name: that it will take by a rename.
        data: all of the content.
        old: of the file whose mode and owner it takes; None for those of a new file.

    Raises:
        OSError: as open(2) and write(2); no draft is left.
    """
    draft = name_beside(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(draft, flags, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if old is not None:
                _keep_rights(fd, old)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    return draft


def name_beside(name: str) -> str:
    """A free name for what stands beside `name` for a moment."""
    return f".{name[:NAME_CHARS]}.{secrets.token_hex(4)}.tmp"


def existing_file(folder: int, name: str) -> os.stat_result | None:
    """The status of a regular file that may be replaced; None when there is none.

    Raises:
        ToolExecutionError: the name belongs to something that is no regular file.
        OSError: it is a folder, or may not be written.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise ToolExecutionError(
            "the name belongs to a link, FIFO, socket or device: only regular files are written."
        )
    # a rename would go round the file's own mode; asked for who we act as, as opening it would be
    effective = os.access in os.supports_effective_ids
    if not os.access(name, os.W_OK, dir_fd=folder, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return status


def rename_entry(source: tuple[int, str], destination: tuple[int, str], path: str) -> None:
    """Rename from one open folder to another; `path` is what the source is called.

    Raises:
        ToolExecutionError: they lie on different file systems.
        OSError: as rename(2).
    """
    try:
        os.rename(source[1], destination[1], src_dir_fd=source[0], dst_dir_fd=destination[0])
    except OSError as error:
        if error.errno != errno.EXDEV:  # which elsewhere means a path that leads out
            raise
        raise ToolExecutionError(
            f"{shown(path)} cannot be renamed across file systems, nor a folder that came with a container's "
            "image: move it by run_command, which copies it."
        ) from error


def refuse_taken(folder: int, name: str, path: str) -> None:
    """Raise ToolExecutionError where something has that name; `path` is what it is called."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise ToolExecutionError(f"{shown(path)} is there already: choose another name, or delete it first.")


def _keep_rights(fd: int, old: os.stat_result) -> None:
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):  # only root may give a file away; then it becomes ours
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & PERMISSIONS)
