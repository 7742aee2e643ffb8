"""What was typed, kept in the home folder for the next talk; for its owner alone."""

import os
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory

ENTRY_CHARS: Final = 10_000  # a longer one is a paste, and nobody looks for it with Ctrl-R
FILE_MODE: Final = 0o600


class TypedHistory(FileHistory):
    """Lines of all talks, the latest last. A line that begins with a blank is in no file, as in a shell."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE))
        path.chmod(FILE_MODE)
        super().__init__(str(path))

    def store_string(self, string: str) -> None:
        """Write one entry to the file."""
        if not string.startswith((" ", "\t")) and len(string) <= ENTRY_CHARS:
            super().store_string(string)
