"""The paths of a workspace that `@` completes: asked of ripgrep, so that what git ignores is left out."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lockstitch.state.errors import AgentError
from lockstitch.tools.ripgrep import find_ripgrep

PATHS_MAX: Final = 50_000  # of a workspace; more are not offered
BYTES_MAX: Final = 16 * 1024 * 1024  # of ripgrep's list: 50,000 long paths
FRESH_S: Final = 5.0  # a list is asked for once in a burst of typing
TIMEOUT_S: Final = 5.0  # ripgrep lists a million files in that


class WorkspacePaths:
    """Files and folders of one workspace, relative to it; folders end in `/`. Blocks: for a worker thread."""

    def __init__(self, root: Path, *, home: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`home` is our own folder: what lies in there is never offered."""
        self._root = root.resolve()
        self._home = home.resolve()
        self._monotonic = monotonic
        self._listed: tuple[str, ...] = ()
        self._listed_at: float | None = None

    def paths(self) -> Sequence[str]:
        """All of them, sorted; at most FRESH_S old, none where ripgrep is missing or fails."""
        now = self._monotonic()
        if self._listed_at is None or now - self._listed_at > FRESH_S:
            inside = self._home.is_relative_to(self._root)
            home = f"{self._home.relative_to(self._root).as_posix()}/" if inside else "\0"
            files = [path for path in _ask_ripgrep(self._root) if not path.startswith(home)]
            self._listed = with_folders(files)
            self._listed_at = now
        return self._listed


def with_folders(files: Sequence[str]) -> tuple[str, ...]:
    """The files and the folders they lie in, sorted."""
    folders = {path[: at + 1] for path in files for at, letter in enumerate(path) if letter == "/"}
    return tuple(sorted({*files, *folders}))


def rank_paths(paths: Sequence[str], typed: str, *, limit: int) -> list[str]:
    """The paths that fit what was typed, the best first.

    Every part between blanks and slashes of `typed` must be found in that order, letters of either case;
    a hit in the name counts more than one in its folders, and a short path more than a long one.
    """
    parts = [part for part in typed.lower().replace("/", " ").split() if part]
    fitting = [(_distance(path, parts, typed.lower()), len(path), path) for path in paths]
    return [path for distance, _, path in sorted(one for one in fitting if one[0] is not None)][:limit]


def _distance(path: str, parts: Sequence[str], typed: str) -> int | None:
    """How far the path is from what was typed; None when it does not fit."""
    low = path.lower()
    if low.startswith(typed):
        return 0
    at = 0
    for part in parts:
        found = low.find(part, at)
        if found < 0:
            return None
        at = found + len(part)
    name = low.rstrip("/").rpartition("/")[2]
    last = parts[-1] if parts else ""
    return 1 if name.startswith(last) else 2 if last in name else 3


def _ask_ripgrep(root: Path) -> list[str]:
    try:
        command = [
            find_ripgrep(root),
            "--files",
            "--null",
            "--no-require-git",
            "--no-config",
            "--no-messages",
        ]
        with subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            return _read_paths(process)
    except (OSError, AgentError):  # without a list nothing is completed, and typing goes on
        return []


def _read_paths(process: "subprocess.Popen[bytes]") -> list[str]:
    """The paths that came in time, within the bounds."""
    from threading import Timer

    assert process.stdout
    watch = Timer(TIMEOUT_S, process.kill)
    watch.start()
    try:
        found = process.stdout.read(BYTES_MAX)
    finally:
        process.kill()
        watch.cancel()
    names = found.rpartition(b"\0")[0].split(b"\0")[:PATHS_MAX]
    return [name.decode("utf-8") for name in names if name and _is_text(name)]


def _is_text(name: bytes) -> bool:
    """Whether the name can be typed: UTF-8 without a character that ends a line."""
    try:
        return name.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False
