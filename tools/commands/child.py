"""Running one program that starts no others, such as ripgrep: all of it in one worker thread.

`run_process` is for commands, which may start anything, and looks for what they left behind.
"""

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.finished import settled
from lockstitch.tools.commands.process import SIGNAL_EXIT_BASE, start_program

LOOK_S: Final = 0.4  # between two looks at a program that takes long
NO_WRITER: Final = (
    b"wait_for_partner",
    b"fifo_open",
)  # the kernel's functions in which an open pipe's file waits
CHUNK_BYTES: Final = 65_536  # of one reading: what a Linux pipe holds
# ripgrep writes 8 KB at a time, and to wake up for each costs a sixth of a search that finds very much. After
# so much output we read only every PAUSE_S, of a pipe that takes twice as long to fill.
FLOOD_BYTES: Final = 4 * CHUNK_BYTES
PIPE_BYTES: Final = 512 * 1024
PAUSE_S: Final = 0.004

T = TypeVar("T")


class Child:
    """At most one program at a time, started in a worker thread and ended from anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False
        self._waited = False

    def run(
        self,
        argv: Sequence[str],
        *,
        folder_fd: int,
        env: Mapping[str, str],
        timeout_s: float,
        on_output: Callable[[bytes], None],
    ) -> int | None:
        """Run a program to its end, or to `timeout_s`: its exit code, 128 + N after signal N, None then.

        Args:
            argv: the program and its arguments; no shell reads them.
            folder_fd: descriptor of the folder it runs in.
            env: its whole environment.
            timeout_s: seconds until it is ended.
            on_output: given each piece of its output, stdout and stderr as one.

        Raises:
            ToolValidationError: an argument holds a NUL byte or half a surrogate pair.
            ToolExecutionError: the program could not be started, or waits for a pipe, see `look`.
        """
        deadline = time.monotonic() + timeout_s
        with self._start(argv, folder_fd, env) as process:
            assert process.stdout is not None
            timed_out = not _read_all(process.stdout.fileno(), deadline, on_output)
            if timed_out:
                process.kill()
            code = process.wait()
        if self._waited:
            raise ToolExecutionError(
                "the search waits for a pipe (FIFO) that nobody writes to: one is named like an ignore file, "
                "such as .gitignore. Delete it (`find . -type p` finds it), or narrow path."
            )
        if timed_out:
            return None
        return code if code >= 0 else SIGNAL_EXIT_BASE - code

    def end(self) -> None:
        """End the program that runs, and let no other start."""
        with self._lock:
            self._unwanted = True
            if self._process is not None:
                self._process.kill()  # does nothing when it has ended

    def look(self) -> None:
        """End a program that waits for the writer of a pipe it opens, which may never come.

        Not called in the thread that runs it: one that Landlock restricts cannot read /proc.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is None and _waits(self._process.pid):
                self._waited = True
                self._process.kill()

    def _start(self, argv: Sequence[str], folder_fd: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._unwanted:
                raise asyncio.CancelledError
            self._process = start_program(argv, folder_fd=folder_fd, env=env)
            return self._process


async def in_thread(work: Callable[[Child], T]) -> T:
    """The result of `work` in a worker thread; cancelled, its program is ended before that is told."""
    child = Child()
    working = asyncio.ensure_future(asyncio.to_thread(work, child))
    try:
        while not (await asyncio.wait([working], timeout=LOOK_S))[0]:
            child.look()
        return working.result()
    except asyncio.CancelledError:
        child.end()
        await settled(working)
        raise


def _waits(pid: int) -> bool:
    """Whether one of its threads waits for the writer of a pipe; never where that cannot be seen."""
    for task in Path("/proc", str(pid), "task").glob("*/wchan"):
        with contextlib.suppress(OSError):  # it ended
            if task.read_bytes().strip() in NO_WRITER:
                return True
    return False


def _read_all(fd: int, deadline: float, on_output: Callable[[bytes], None]) -> bool:
    """Hand on what comes until the end of the output; False when the time is up first."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    total, is_wide = 0, _widen(fd)
    while (left_s := deadline - time.monotonic()) > 0:
        if poll.poll(left_s * 1000):
            data = os.read(fd, CHUNK_BYTES)
            if not data:
                return True
            on_output(data)
            total += len(data)
            if is_wide and total > FLOOD_BYTES and len(data) < CHUNK_BYTES:
                time.sleep(PAUSE_S)
    return False


def _widen(fd: int) -> bool:
    """Let a pipe hold more; False where it cannot: not on Linux, or too many such pipes are open."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        return False
    return True
