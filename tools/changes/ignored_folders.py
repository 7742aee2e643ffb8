"""Which folders of a workspace .gitignore names as a whole: those in which ripgrep finds no file to show."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from lockstitch.state.errors import RecoverableError
from lockstitch.tools.commands.child import Child
from lockstitch.tools.commands.process import folder_path
from lockstitch.tools.ripgrep import Place, run_ripgrep

LIST_TIMEOUT_S: Final = 60.0  # ripgrep lists 100,000 files a second; only a sick disk takes longer
IGNORE_FILE: Final = ".gitignore"
OPTIONS: Final = (
    *("--files", "--null", "--no-config", "--no-require-git", "--no-messages", "--hidden"),
    *("--no-ignore-dot", "--iglob=!.git"),
)


def find_ignored(root: int, folders: Iterable[str]) -> set[str]:
    """Those of the folders that are ignored; none where that cannot be told.

    Args:
        root: descriptor of the workspace.
        folders: paths in it, that hold files.
    """
    wanted = set(folders)
    if not wanted:
        return set()
    output = bytearray()
    place = Place(Path(os.path.realpath(folder_path(root))), root, root)
    try:
        exit_code = run_ripgrep(
            [*OPTIONS, "./"],
            child=Child(),
            place=place,
            timeout_s=LIST_TIMEOUT_S,
            on_output=output.extend,
        )
    except RecoverableError:
        return set()
    if (
        exit_code not in {0, 2} or not output
    ):  # 2: a folder is closed. Nothing: the workspace itself is ignored
        return set()
    shown = {folder for path in bytes(output).split(b"\0") for folder in _folders_above(path)}
    return {folder for folder in wanted if os.fsencode(folder) not in shown}


def _folders_above(path: bytes) -> Iterator[bytes]:
    folder = path.removeprefix(b"./").rpartition(b"/")[0]
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]
