"""Running one program: bounded in time and memory, with nothing of it left afterwards."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.state.finished import to_the_end
from lockstitch.tools.commands.kept_output import KeptOutput
from lockstitch.tools.commands.process_tree import ProcessTree

EOF_S: Final = 0.3  # after the exit, for the rest of the output: a child left behind may hold the pipe
REAP_S: Final = 1.0  # for the event loop to hear of the exit of what was killed
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
    """A program's processes, which can be ended: a `ProcessTree` or a `SandboxTree`.

    Attributes:
        environment: what the program is given of it beside its own.
        descriptors: that the program inherits.
    """

    environment: dict[str, str]
    descriptors: tuple[int, ...]

    async def begin(self, leader: int) -> None:
        """The program has started, as that pid."""

    async def end(self, *, exited: bool) -> None:
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


async def run_process(
    argv: Sequence[str],
    *,
    folder_fd: int,
    env: Mapping[str, str],
    timeout_s: float,
    keep_bytes: int,
    on_output: OutputWatcher | None = None,
    tree: Tree | None = None,
) -> ProcessResult:
    """Run a program to its end, or to `timeout_s`, and end whatever it started and left behind.

    Waits for the exit and not for the output's end. On cancellation its processes are ended within a
    second, then the cancellation goes on.

    Args:
        argv: the program and its arguments; no shell reads them.
        folder_fd: descriptor of the folder it runs in.
        env: its whole environment.
        timeout_s: seconds until it is ended.
        keep_bytes: of the output, stdout and stderr as one; half from its beginning, half from its end.
        on_output: given each piece of output as it comes, in the event loop's thread; must be quick.
        tree: what ends its processes; `None` finds and ends them one by one.

    Raises:
        ToolValidationError: an argument holds a NUL byte or half a surrogate pair.
        ToolExecutionError: the program could not be started.
    """
    watch = _Watch(keep_bytes, on_output)
    began = time.monotonic()
    async with _open_process(argv, watch, tree or ProcessTree(), folder_fd=folder_fd, env=env) as transport:
        timed_out = not await _within(watch.exited, timeout_s)
        duration_s = time.monotonic() - began
        if not timed_out:
            await _within(watch.drained, EOF_S)
    return watch.result(None if timed_out else transport.get_returncode(), duration_s)


def command_environment(parent: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: what `PASSED_ON` names of `parent`, and our own virtual environment out.

    Without that, `python` in a command would be ours, with our packages, and not the project's.
    """
    names = PASSED_ON | WINDOWS if sys.platform == "win32" else PASSED_ON
    passed = {name: value for name, value in parent.items() if name in names}
    return {**passed, **UNATTENDED, "PATH": _foreign_path(parent.get("PATH", ""))}


@lru_cache(maxsize=8)
def _foreign_path(path: str) -> str:
    entries = path.split(os.pathsep)
    if sys.prefix != sys.base_prefix:
        own = os.path.realpath(Path(sys.prefix, "bin"))
        entries = [entry for entry in entries if os.path.realpath(entry) != own]
    return os.pathsep.join(filter(None, entries)) or os.defpath


class _Watch(asyncio.SubprocessProtocol):
    """Hears of output and exit; asyncio's `Process.wait` waits for the pipe as well, in some versions."""

    def __init__(self, keep_bytes: int, on_output: OutputWatcher | None) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self._on_output = on_output
        self._output = KeptOutput(keep_bytes)

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002  asyncio's signature
        self._output.add(data)
        if self._on_output is not None:
            self._on_output(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    def result(self, returncode: int | None, duration_s: float) -> ProcessResult:
        """What came of it; `returncode` as asyncio has it, None after a timeout."""
        number = -returncode if returncode is not None and returncode < 0 else None
        return ProcessResult(
            exit_code=returncode if number is None else SIGNAL_EXIT_BASE + number,
            signal_number=number,
            head=self._output.head,
            tail=self._output.tail,
            total_bytes=self._output.total_bytes,
            timed_out=returncode is None,
            duration_s=duration_s,
        )


@contextlib.asynccontextmanager
async def _open_process(
    argv: Sequence[str], watch: _Watch, tree: Tree, *, folder_fd: int, env: Mapping[str, str]
) -> AsyncIterator[asyncio.SubprocessTransport]:
    """Start a program; afterwards it and all it started are ended."""
    transport = None
    try:
        starting = asyncio.ensure_future(_start(argv, watch, tree, folder_fd=folder_fd, env=env))
        try:
            transport = await to_the_end(starting)
        except asyncio.CancelledError:  # the tree ends it; asyncio would kill the program alone
            if not (starting.cancelled() or starting.exception()):
                transport = starting.result()
            raise
        await tree.begin(transport.get_pid())
        yield transport
    finally:
        try:
            await tree.end(exited=watch.exited.is_set())
        finally:  # a second cancellation may have come
            tree.close()
            await _close(transport, watch)


async def _start(
    argv: Sequence[str], watch: _Watch, tree: Tree, *, folder_fd: int, env: Mapping[str, str]
) -> asyncio.SubprocessTransport:
    with explained_start(argv[0]):
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: watch,
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder_path(folder_fd),
            env={**env, **tree.environment},
            pass_fds=tree.descriptors,
            start_new_session=True,  # a process group of its own, and no terminal to ask questions at
        )
    return transport


@contextlib.contextmanager
def explained_start(program: str) -> Iterator[None]:
    """Say for the model why a program could not be started.

    Raises:
        ToolValidationError: an argument holds a NUL byte or half a surrogate pair.
        ToolExecutionError: the system refused.
    """
    try:
        yield
    except ValueError as error:
        raise ToolValidationError("an argument holds a NUL byte or half of a surrogate pair.") from error
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ToolExecutionError(f"{Path(program).name} could not be started: {reason}.") from error


def folder_path(folder_fd: int) -> str:
    """A path the new process can change to: the descriptor itself where that can be named.

    Elsewhere, as on macOS, the folder's present path; it could be moved before the process is there.
    """
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(folder_fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return f"/proc/self/fd/{folder_fd}"


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _close(transport: asyncio.SubprocessTransport | None, watch: _Watch) -> None:
    if transport is not None:
        try:
            await _within(watch.exited, REAP_S)
            await _within(watch.drained, EOF_S)  # what they said at their end
        finally:
            transport.close()
