"""Running one program: bounded in time and memory, with nothing of it left afterwards."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.commands.hearing import Hearing, Stop, Stopped
from lockstitch.tools.commands.kept_output import KeptOutput
from lockstitch.tools.commands.process_tree import ProcessTree

EOF_S: Final = 0.3  # after the exit, for the rest of the output: a child left behind may hold the pipe
REAP_S: Final = 1.0  # for the kernel to tell of the exit of what was killed
SIGNAL_EXIT_BASE: Final = 128  # a program ended by signal N counts as exit code 128 + N, as in every shell

# What a command is given of our own environment. A list of what is allowed: secrets have any name.
PASSED_ON: Final = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *("LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT"),
    }
)
WINDOWS: Final = frozenset(  # without these no program starts there, or finds its files
    {
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE"),
        *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "USERNAME"),
    }
)
# Nobody sits at the terminal: no pager, no editor, no question, no buffered or coloured output.
UNATTENDED: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "TERM": "dumb",
    "CI": "1",
    "PYTHONUNBUFFERED": "1",
}

OutputWatcher = Callable[[bytes], None]


class Tree(Protocol):
    """A program's processes, which can be ended: a `ProcessTree`, a `SandboxTree` or a `LandlockTree`.

    Attributes:
        environment: what the program is given of it beside its own.
        descriptors: that the program inherits.
        started: the program, where it was started before and waits for `begin`.
    """

    environment: dict[str, str]
    descriptors: tuple[int, ...]
    started: "subprocess.Popen[bytes] | None"

    def begin(self, leader: int, hearing: Hearing) -> None:
        """The program has started, as that pid."""

    def end(self, hearing: Hearing, *, exited: bool) -> None:
        """End what is left; `exited` when the program itself has."""

    def close(self) -> None:
        """Give back what it holds open."""


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """How a program ended. Between `head` and `tail`, `cut_bytes` of its output were dropped.

    Attributes:
        exit_code: None when it timed out; 128 + N when signal N ended it.
        signal_number: of the signal that ended it, if one did and we did not.
        total_bytes: of stdout and stderr together.
    """

    exit_code: int | None
    signal_number: int | None
    head: bytes
    tail: bytes
    total_bytes: int
    timed_out: bool
    duration_s: float

    @property
    def cut_bytes(self) -> int:
        """How many bytes are missing between head and tail."""
        return self.total_bytes - len(self.head) - len(self.tail)


def run_process(
    argv: Sequence[str],
    *,
    folder_fd: int,
    env: Mapping[str, str],
    timeout_s: float,
    keep_bytes: int,
    on_output: OutputWatcher | None = None,
    tree: Tree | None = None,
    stop: Stop | None = None,
) -> ProcessResult:
    """Run a program to its end, or to `timeout_s`, and end whatever it started and left behind.

    Waits for the exit and not for the output's end: call it from a worker thread, which lives as long as it.

    Args:
        argv: the program and its arguments; no shell reads them.
        folder_fd: descriptor of the folder it runs in.
        env: its whole environment.
        timeout_s: seconds until it is ended.
        keep_bytes: of the output, stdout and stderr as one; half from its beginning, half from its end.
        on_output: given each piece of output as it comes; must be quick.
        tree: what ends its processes, to be closed by the caller; `None` finds and ends them one by one.
        stop: ends its processes within a second.

    Raises:
        Stopped: it was; all its processes are ended.
        ToolValidationError: an argument holds a NUL byte or half a surrogate pair.
        ToolExecutionError: the program could not be started.
    """
    output, tree = KeptOutput(keep_bytes), tree or ProcessTree()
    takers = (output.add, on_output) if on_output else (output.add,)
    if stop and stop.is_told:
        raise Stopped
    process = tree.started or start_program(
        argv, folder_fd=folder_fd, env={**env, **tree.environment}, pass_fds=tree.descriptors
    )
    with _output_of(process) as pipe:
        timed_out, duration_s = _watch(process, tree, Hearing(pipe, takers, stop), timeout_s)
    return _result(output, None if timed_out else process.returncode, duration_s)


def _watch(
    process: "subprocess.Popen[bytes]", tree: Tree, hearing: Hearing, timeout_s: float
) -> tuple[bool, float]:
    """Let a program live to its end, or to `timeout_s`: whether that came first, and how long it lived."""
    began = time.monotonic()
    with _end_of(process) as ended:
        try:
            tree.begin(process.pid, hearing)
            timed_out = not hearing.wait(ended, timeout_s, stoppable=True)
            duration_s = time.monotonic() - began
            if not timed_out:
                hearing.drain(EOF_S)
        finally:
            tree.end(hearing, exited=process.poll() is not None)
            hearing.wait(ended, REAP_S)
            hearing.drain(EOF_S)  # what they said at their end
    return timed_out, duration_s


def command_environment(parent: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: what `PASSED_ON` names of `parent`, and our own virtual environment out.

    Without that, `python` in a command would be ours, with our packages, and not the project's.
    """
    names = PASSED_ON | WINDOWS if sys.platform == "win32" else PASSED_ON
    passed = {name: parent[name] for name in names if name in parent}
    return {**passed, **UNATTENDED, "PATH": _foreign_path(parent.get("PATH", ""))}


@lru_cache(maxsize=8)
def _foreign_path(path: str) -> str:
    entries = path.split(os.pathsep)
    if sys.prefix != sys.base_prefix:
        own = os.path.realpath(Path(sys.prefix, "bin"))
        entries = [entry for entry in entries if os.path.realpath(entry) != own]
    return os.pathsep.join(filter(None, entries)) or os.defpath


@contextlib.contextmanager
def _output_of(process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """A program's output; afterwards that is closed, and its exit is known if it has ended."""
    assert process.stdout is not None
    try:
        yield process.stdout.fileno()
    finally:
        process.stdout.close()
        process.poll()


@contextlib.contextmanager
def _end_of(process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """A descriptor that can be read once the process has ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # no Linux, or one before 5.3
        fd, told = os.pipe()
        threading.Thread(target=_tell, args=(process, told), daemon=True).start()
    try:
        yield fd
    finally:
        os.close(fd)


def _tell(process: "subprocess.Popen[bytes]", told: int) -> None:
    process.wait()
    os.close(told)


def _result(output: KeptOutput, returncode: int | None, duration_s: float) -> ProcessResult:
    """What came of it; `returncode` as Popen has it, None after a timeout."""
    number = -returncode if returncode is not None and returncode < 0 else None
    return ProcessResult(
        exit_code=returncode if number is None else SIGNAL_EXIT_BASE + number,
        signal_number=number,
        head=output.head,
        tail=output.tail,
        total_bytes=output.total_bytes,
        timed_out=returncode is None,
        duration_s=duration_s,
    )


def start_program(
    argv: Sequence[str], *, folder_fd: int, env: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a program with no input, whose output and errors come as one through its pipe.

    Raises:
        ToolValidationError: an argument holds a NUL byte or half a surrogate pair.
        ToolExecutionError: the system refused; the message is for the model.
    """
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd=folder_path(folder_fd),
            env=env,
            pass_fds=pass_fds,
            start_new_session=True,  # a process group of its own, no terminal to ask at, no Ctrl-C but ours
        )
    except ValueError as error:
        raise ToolValidationError("an argument holds a NUL byte or half of a surrogate pair.") from error
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ToolExecutionError(f"{Path(argv[0]).name} could not be started: {reason}.") from error


def folder_path(folder_fd: int) -> str:
    """A path the new process can change to: the descriptor itself where that can be named.

    Elsewhere, as on macOS, the folder's present path; it could be moved before the process is there.
    """
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(folder_fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return f"/proc/self/fd/{folder_fd}"
