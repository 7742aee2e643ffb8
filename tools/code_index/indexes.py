"""The indexes of the home by workspace and name: where they lie, which there are, and their end."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from lockstitch.state.errors import HomeUnusableError, ToolValidationError
from lockstitch.tools.code_index.build import COMPLETE
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.index_file import MODEL, IndexFile
from lockstitch.tools.code_index.kept_tables import drop_tables, table_bytes

FOLDER: Final = "indexes"
DEFAULT_NAME: Final = "default"
WORKSPACE: Final = "workspace"  # the file in a folder of indexes that holds the path of their workspace
WORKSPACE_DIGITS: Final = 16  # 64 bits of a sha256 of the path
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_SIDE_FILES: Final = ("", "-wal", "-shm")  # that SQLite has beside each other


class IndexStatus(NamedTuple):
    """What an index holds; sizes in pieces and bytes."""

    name: str
    workspace: str
    files: int
    left_out: int
    chunks: int
    encoded: int
    model: str
    complete: bool
    size_bytes: int


def indexed_workspaces(home: Path) -> list[Path]:
    """The workspaces that have an index, by path; they need not be there any more."""
    files = (home / FOLDER).glob(f"*/{WORKSPACE}")
    having = (file for file in files if any(file.parent.glob("*.db")))
    return sorted(Path(os.fsdecode(file.read_bytes())) for file in having)


class Indexes:
    """The indexes of one workspace."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self._workspace = str(workspace)
        digest = hashlib.sha256(self._workspace.encode("utf-8", "surrogateescape")).hexdigest()
        self._folder = home / FOLDER / digest[:WORKSPACE_DIGITS]

    def names(self) -> list[str]:
        """Those there are."""
        return sorted(path.stem for path in self._folder.glob("*.db"))

    def path(self, name: str | None) -> Path:
        """Where an index lies, or would.

        Raises:
            ToolValidationError: that is no name.
        """
        name = name or DEFAULT_NAME
        if not _NAME.fullmatch(name):
            raise ToolValidationError("an index's name is up to 40 letters, digits, `-` and `_`.")
        return self._folder / f"{name}.db"

    def exists(self, name: str | None) -> bool:
        """Whether it was built, or begun."""
        return self.path(name).is_file()

    @contextmanager
    def open(self, name: str | None) -> Iterator[IndexFile]:
        """The index, made where it is missing; closed afterwards.

        Raises:
            ToolValidationError: that is no name.
            HomeUnusableError, SystemFaultError: it cannot be opened.
        """
        path = self.path(name)
        try:
            for folder in (path.parent.parent, path.parent):  # those above get no mode from `parents`
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_once(path.parent / WORKSPACE, self._workspace)
        except OSError as error:
            raise HomeUnusableError(f"the folder of indexes cannot be made: {error.strerror}.") from error
        with IndexFile(path) as index:
            yield index

    def drop(self, name: str | None) -> bool:
        """Delete it; whether there was one.

        Raises:
            IndexBusyError: it is being built.
        """
        path = self.path(name)
        if not path.is_file():
            return False
        with hold_index(path):
            for side in _SIDE_FILES:
                path.with_name(path.name + side).unlink(missing_ok=True)
            drop_tables(path)
        path.with_suffix(".lock").unlink(missing_ok=True)
        return True

    def status(self, name: str | None) -> IndexStatus:
        """What it holds; call it where it exists."""
        with self.open(name) as index:
            model = index.meta(MODEL)
            return IndexStatus(
                name=index.path.stem,
                workspace=self._workspace,
                files=index.count("files"),
                left_out=index.count("left_out"),
                chunks=index.count("chunks"),
                encoded=index.count("encoded", model),
                model=model,
                complete=bool(index.meta(COMPLETE)),
                size_bytes=index.path.stat().st_size + table_bytes(index.path),
            )


def _write_once(path: Path, text: str) -> None:
    """Write a private file where there is none; whole, or not at all."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_bytes(os.fsencode(text))
    draft.replace(path)
