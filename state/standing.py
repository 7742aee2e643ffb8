"""Whether what is written now will be found later: the file is still there, and the clock goes forward."""

import os
from pathlib import Path

from lockstitch.state.errors import SystemFaultError


class OpenFile:
    """An open database, and the name by which the next process looks for it."""

    def __init__(self, path: Path) -> None:
        """Remember the file that has this name now."""
        self._path = str(path)
        self._name = path.name
        self._opened = _identity(self._path)

    def check(self) -> None:
        """See that the file still has its name: SQLite goes on writing to one that was deleted.

        Raises:
            SystemFaultError: it was deleted or replaced.
        """
        try:
            found = _identity(self._path)
        except OSError:
            found = None
        if found != self._opened:
            raise SystemFaultError(
                f"{self._name} was taken from the home folder while it was in use, so nothing can be "
                "kept any more. Put the home folder back, or begin a new thread."
            )


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116  half the time of Path.stat
    return found.st_dev, found.st_ino


def check_order(checkpoint_id: str, parent_id: str | None) -> None:
    """See that a checkpoint sorts after the one before it: ids are times, and the last one is the thread.

    Raises:
        SystemFaultError: the clock was set back, so the thread would stay as it was.
    """
    if parent_id and checkpoint_id <= parent_id:
        raise SystemFaultError(
            "this machine's clock is behind the thread's last step, so a new step would not be found again. "
            "Set the clock right, then go on; nothing of the thread is lost."
        )
