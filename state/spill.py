"""Text too long for the conversation: kept whole on disk, read back by the thread that made it."""

import hashlib
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SystemFaultError, ToolValidationError

SPILL_PREFIX: Final = "spill:"  # how a kept text is named where a path is expected
ID_DIGITS: Final = 16  # 64 bits of a sha256: a thread would need billions of texts for two to meet
_ID: Final = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
_THREAD: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")  # one folder name, never `..`


class SpillStore:
    """The kept texts of one thread. The same text is kept once."""

    def __init__(self, folder: Path, thread_id: str) -> None:
        """Open the store without touching the disk.

        Raises:
            ToolValidationError: the thread's id could not be the name of one folder.
        """
        if not _THREAD.fullmatch(thread_id):
            raise ToolValidationError("the thread's id must be made of letters, digits, `-`, `_` and `.`.")
        self._folder = folder / thread_id

    def keep(self, text: str) -> str:
        """Store `text` and return its id, 16 hex digits.

        Raises:
            SystemFaultError: the folder cannot be written.
        """
        data = text.encode("utf-8", "surrogatepass")
        spill_id = hashlib.sha256(data).hexdigest()[:ID_DIGITS]
        try:
            self._store(spill_id, data)
        except OSError as error:
            raise SystemFaultError(f"a long result could not be kept: {error.strerror}.") from error
        return spill_id

    def read(self, spill_id: str) -> str:
        """The kept text.

        Raises:
            ToolValidationError: the id is malformed, or this thread kept no such text.
        """
        if not _ID.fullmatch(spill_id):
            raise ToolValidationError(f"a kept result is named `{SPILL_PREFIX}` and {ID_DIGITS} hex digits.")
        try:
            return (self._folder / spill_id).read_bytes().decode("utf-8", "surrogatepass")
        except FileNotFoundError as error:
            raise ToolValidationError(f"this thread kept no result {SPILL_PREFIX}{spill_id}.") from error
        except OSError as error:
            raise SystemFaultError(f"a kept result could not be read: {error.strerror}.") from error

    def ids(self) -> list[str]:
        """The ids of all kept texts, the oldest first; of a missing folder none."""
        try:
            found = [(entry.stat().st_mtime_ns, entry.name) for entry in os.scandir(self._folder)]
        except FileNotFoundError:
            return []
        return [name for _, name in sorted(found) if _ID.fullmatch(name)]

    def size(self) -> int:
        """Bytes of all kept texts."""
        return sum((self._folder / spill_id).stat().st_size for spill_id in self.ids())

    def share_with(self, other: "SpillStore") -> None:
        """Let another thread read these texts too: a fork names them. Each can be cleared without the other.

        Raises:
            SystemFaultError: they cannot be read or written.
        """
        try:
            for spill_id in self.ids():
                place = other._folder / spill_id  # noqa: SLF001  of another store
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    place.hardlink_to(self._folder / spill_id)
        except OSError as error:
            raise SystemFaultError(f"kept results could not be shared: {error.strerror}.") from error

    def clear(self) -> None:
        """Delete all kept texts and their folder.

        Raises:
            SystemFaultError: something of it cannot be deleted.
        """
        try:
            shutil.rmtree(self._folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise SystemFaultError(f"kept results could not be deleted: {error.strerror}.") from error

    def _store(self, spill_id: str, data: bytes) -> None:
        for folder in (
            self._folder.parent,
            self._folder,
        ):  # `parents` would give the first one the usual mode
            folder.mkdir(mode=0o700, exist_ok=True)
        place = self._folder / spill_id
        if place.exists():
            return
        draft = self._folder / f".{spill_id}.{os.urandom(4).hex()}"
        try:
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_bytes(data)
            draft.replace(place)  # whole or not at all: two workers may keep the same text at once
        finally:
            draft.unlink(missing_ok=True)
