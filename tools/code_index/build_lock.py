"""One builder an index, across processes: a lock file that the kernel frees when its holder dies."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstitch.state.errors import SystemFaultError, ToolExecutionError


class IndexBusyError(ToolExecutionError):
    """Another process builds this index; it can be searched as it is."""


@contextmanager
def hold_index(path: Path) -> Iterator[None]:
    """Be the only one that writes the index at `path` until the block ends. Refuses at once.

    Raises:
        IndexBusyError: somebody else writes it.
        SystemFaultError: files cannot be locked here.
    """
    handle = _open(path.with_suffix(".lock"))
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)  # frees the lock


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SystemFaultError(f"the lock of an index cannot be made: {error.strerror}.") from error


def _lock(handle: int) -> None:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise IndexBusyError(
            "another process builds this index just now. Search it as it is, or wait until that one ends."
        ) from error
    except (ImportError, OSError) as error:
        raise SystemFaultError("the home folder's file system cannot lock files: choose another.") from error
