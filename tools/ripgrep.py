"""ripgrep: where its program lies, and a run of it that reads the workspace and nowhere else."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.child import Child
from lockstitch.tools.commands.landlock import run_restricted

IGNORE_FILES: Final = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")  # what it obeys
NO_PERSONS_RULES: Final = "--no-ignore-global"  # else it looks for their home, for a ninth of a small search
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}!]")  # what a glob reads as more than itself


class Place(NamedTuple):
    """Where it runs: a folder of the workspace, both held open."""

    root: Path  # of the workspace
    root_fd: int
    folder_fd: int


def run_ripgrep(
    options: Sequence[str],
    *,
    child: Child,
    place: Place,
    timeout_s: float,
    on_output: Callable[[bytes], None],
) -> int | None:
    """Run it to its end, or to `timeout_s`: its exit code, 128 + N after signal N, None then.

    Raises:
        ToolExecutionError: it is not here, or could not be started.
    """
    program = find_ripgrep(place.root)
    run = partial(
        child.run,
        [program, NO_PERSONS_RULES, *options],
        folder_fd=place.folder_fd,
        env={},  # nothing of ours
        timeout_s=timeout_s,
        on_output=on_output,
    )
    # it goes by path: a folder that becomes a link under its feet must not lead it out
    return run_restricted(run, folder_fd=place.root_fd, places=_also_read(program, place.root))


def hiding_options(hidden: Iterable[Path], folder: Path) -> list[str]:
    """What keeps it out of those folders that lie below the one it searches."""
    base, paths = folder.resolve(), [path.resolve() for path in hidden]
    below = [path.relative_to(base) for path in paths if path.is_relative_to(base)]
    return ["--glob=!/" + _SPECIAL.sub(r"\\\g<0>", path.as_posix()) for path in below]


def find_ripgrep(root: Path, *, beside: Path | None = None, path: str | None = None) -> str:
    """The `rg` to run: the one installed with us, else that of the system, but none from the workspace.

    Args:
        root: of the workspace, whose programs are not run unasked.
        beside: a program whose folder comes first; our interpreter if None.
        path: where to look then; `PATH` if None.

    Raises:
        ToolExecutionError: there is none.
    """
    installed = (beside or Path(sys.executable)).with_name("rg")
    if os.access(installed, os.X_OK):
        return str(installed)
    found = shutil.which("rg", path=path)
    if found is None or not Path(found).is_absolute() or Path(found).resolve().is_relative_to(root.resolve()):
        raise ToolExecutionError(
            "grep_files needs ripgrep, which is not here: `pip install ripgrep` brings it."
        )
    return found


@lru_cache(maxsize=16)  # workspaces
def _also_read(program: str, root: Path) -> tuple[str, ...]:
    """What it needs outside the workspace: itself, its libraries, and the ignore files above."""
    file = Path(program).resolve()
    above = (folder / name for folder in root.resolve().parents for name in IGNORE_FILES)
    return tuple(map(str, (file, file.parent.parent / "lib", *above)))
