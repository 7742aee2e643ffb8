"""The home folder: where everything this program keeps lies, readable by its owner alone."""

import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.state.errors import HomeUnusableError

FOLDER_MODE: Final = 0o700
PROOF_BYTES: Final = 4096  # one block of most file systems: a full disk has no room for it

_WORDS: Final = {
    errno.EEXIST: "is no folder",
    errno.ENOTDIR: "is no folder",
    errno.EROFS: "lies on a read-only file system",
    errno.EACCES: "may not be written by you",
    errno.EPERM: "may not be written by you",
    errno.ENOSPC: "lies on a full disk",
    errno.EDQUOT: "lies on a disk where your quota is used up",
}

_ELSEWHERE: Final = "Set LOCKSTITCH_HOME to a folder you can write."
_MAKE_ROOM: Final = "Free some space there, then go on: nothing that was kept is lost."


@dataclass(frozen=True)
class Home:
    """The places in the home folder. Made by `prepare_home`, which has proved that they can be used."""

    path: Path

    @property
    def threads_db(self) -> Path:
        """Checkpoints."""
        return self.path / "threads.db"

    @property
    def ledger_db(self) -> Path:
        """What outlives a run beside the checkpoints: the index of threads."""
        return self.path / "ledger.db"

    @property
    def objects(self) -> Path:
        """Folder of the contents of files, from before and after each change."""
        return self.path / "objects"

    @property
    def spill(self) -> Path:
        """Folder of texts too long for a conversation, one folder a thread."""
        return self.path / "spill"

    @property
    def locks(self) -> Path:
        """Folder of the threads' lock files."""
        return self.path / "locks"


def prepare_home(path: Path) -> Home:
    """Create the folder where it is missing, make it private, and prove that it can be written.

    Raises:
        HomeUnusableError: it is no folder, cannot be written, or is shared with other users.
    """
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        _make_private(path)
        _prove_writable(path)
    except OSError as error:
        advice = _MAKE_ROOM if error.errno in {errno.ENOSPC, errno.EDQUOT} else _ELSEWHERE
        raise _unusable(path, explain_refusal(error), advice) from error
    return Home(path)


def explain_refusal(error: OSError) -> str:
    """What the operating system's refusal means, as the end of a sentence about the folder."""
    words = _WORDS.get(error.errno or 0)
    return words or f"cannot be used: {(error.strerror or 'unknown error').lower()}"


def _make_private(path: Path) -> None:
    found = path.stat()
    if found.st_mode & stat.S_ISVTX or path == path.parent:  # /tmp and its like, and / itself
        raise _unusable(path, "is shared with other users and programs")
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(FOLDER_MODE)


def _prove_writable(path: Path) -> None:
    with tempfile.TemporaryFile(dir=path) as proof:
        proof.write(bytes(PROOF_BYTES))
        proof.flush()


def _unusable(path: Path, words: str, advice: str = _ELSEWHERE) -> HomeUnusableError:
    return HomeUnusableError(f"the home folder {path} {words}. {advice}")
