"""Asking the system's git about a repository that may be hostile: nothing else runs, nothing is written.

What a configuration could start is switched off by name; where it may hold names we do not see, git is not
asked. The person's own configuration is not read, so neither are their filters. Not asked either is a
repository whose `.git` is a file or a link, since that may name any folder on the disk.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.texts.text_file import LAST_RESORT
from lockstitch.tools.workspace import Workspace

GIT: Final = ".git"
OUTPUT_BYTES: Final = 1024 * 1024  # of one answer: some 20,000 changed paths
CONFIG_BYTES: Final = 256 * 1024  # of a repository's configuration; real ones have a few kB
CONFIGS: Final = ("config", "config.worktree")
COMMON_FOLDER: Final = "commondir"  # a file that names the folder the configuration is really in
FILTERS_MAX: Final = 50  # switched off on one command line

# Sections that name filters or further files of configuration, and the one spelling of a filter we take.
_RISKY: Final = re.compile(r"\[\s*(?:filter|include)", re.IGNORECASE)
_FILTER: Final = re.compile(r'\[filter[ \t]+"([\w.+-]+)"\]', re.IGNORECASE)

_OPTIONS: Final = (
    "--git-dir=.git",  # no search for another repository
    "--work-tree=.",  # core.worktree could name any folder on the disk
    "--no-pager",
    "--no-optional-locks",  # nothing is written
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
)
_ENVIRONMENT: Final = {
    "PATH": os.defpath,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",  # and no HOME, for a git that does not know this variable
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone would fetch what is missing, by a program of its choice
    "GIT_ALLOW_PROTOCOL": "none",  # the same for a git that does not know that variable
}


class GitQuery:
    """Questions to the repository in a workspace's root, within one time limit."""

    def __init__(self, workspace: Workspace, *, program: str, timeout_s: float) -> None:
        """Check that the repository may be asked; the clock starts here.

        Args:
            workspace: its root is the top of the working tree.
            program: git.
            timeout_s: for all questions together.

        Raises:
            RecoverableError: it may not be asked.
        """
        self._folder = workspace.root
        self._deadline = time.monotonic() + timeout_s
        self._command = [program, *_OPTIONS, *_without_filters(_configuration(workspace))]

    def ask(self, *arguments: str) -> bytes:
        """What git prints for these arguments, at most `OUTPUT_BYTES` of it.

        The arguments must be those of a command that shows no difference and follows no submodule.

        Raises:
            ToolExecutionError: git fails, or takes too long.
        """
        with _started([*self._command, *arguments], self._folder) as process:
            assert process.stdout is not None
            alarm = threading.Timer(max(0.0, self._deadline - time.monotonic()), _end, [process])
            alarm.start()
            try:
                output = process.stdout.read(OUTPUT_BYTES)
                if len(output) == OUTPUT_BYTES:
                    return output
                code = process.wait()
            finally:
                alarm.cancel()
                _end(process)
        if code == -signal.SIGKILL:
            raise ToolExecutionError("git gave no answer in time.")
        if code:
            raise ToolExecutionError(f"git cannot read this repository (exit code {code}).")
        return output


def find_git(root: Path) -> str | None:
    """The system's git; None when there is none, or only one within the workspace."""
    found = shutil.which("git")
    if found is None or not Path(found).is_absolute() or Path(found).resolve().is_relative_to(root.resolve()):
        return None
    return found


def find_filters(config: str) -> list[str] | None:
    """The filters that a configuration names; None when it may name others in a way we do not read."""
    filters = sorted(set(_FILTER.findall(config)))
    all_read = len(_FILTER.findall(config)) == len(_RISKY.findall(config))
    return filters if all_read and len(filters) <= FILTERS_MAX else None


def _configuration(workspace: Workspace) -> str:
    with workspace.open_folder(GIT) as fd:
        if os.fstat(fd).st_uid != os.geteuid():
            raise ToolExecutionError("its .git belongs to another user.")
    names = {entry.name for entry in workspace.entries(GIT)}
    if COMMON_FOLDER in names:
        raise ToolExecutionError("its .git stands for one elsewhere.")
    files = [f"{GIT}/{name}" for name in CONFIGS if name in names]
    # git ends a line at a newline alone, and so does this; Latin-1 takes any bytes
    return "\n".join(workspace.read_bytes(file, max_bytes=CONFIG_BYTES).decode(LAST_RESORT) for file in files)


def _without_filters(config: str) -> list[str]:
    filters = find_filters(config)
    if filters is None:
        raise ToolExecutionError("its configuration includes other files, or filters we cannot switch off.")
    settings = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")]
    return [part for name in filters for key, to in settings for part in ("-c", f"filter.{name}.{key}={to}")]


def _started(command: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, so that nothing outlives the time limit
        )
    except OSError as error:
        raise ToolExecutionError("git could not be started.") from error


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
