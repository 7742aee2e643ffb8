"""The processes of a command in bubblewrap: held to their limits, and ended with their namespace."""

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.hearing import Hearing
from lockstitch.tools.commands.process_tree import ProcessTree

FILE_BYTES: Final = 4 * 1024**3  # of one file; a bigger one is a mistake, and this fills no disk at once
PROCESSES_MIN: Final = 1024  # threads included: a fork bomb of so many ends in a moment
PROCESSES_A_CPU: Final = 128  # builds start as many compilers as there are processors, of many threads each
STATUS_BYTES: Final = 65_536  # what a pipe holds; bubblewrap writes two short lines
SETUP_S: Final = 10.0  # for bubblewrap to make the first process, which takes 2 ms
KILL_S: Final = 0.5  # for the kernel to end a namespace; one of 1,000 processes takes 0.05 s


class SandboxTree:
    """One command's namespace. Its first process takes the others with it, whatever they did to get away.

    Attributes:
        environment: nothing needs to mark the processes: the namespace does.
        descriptors: that bubblewrap must inherit.
        options: that tell bubblewrap of them.
        is_gone: the last process has ended.
    """

    is_gone = False

    def __init__(self, *, also: Sequence[int] = ()) -> None:
        """`also` are descriptors that bubblewrap needs beside; they stay the caller's."""
        self.environment: dict[str, str] = {}
        self._status, self._status_end = os.pipe()  # bubblewrap tells of the first process, and of the exit
        self._gate_end, self._gate = os.pipe()  # it waits here: the limits must come before the command
        os.set_blocking(self._status, False)
        self._open = {self._status, self._status_end, self._gate_end, self._gate}
        self.descriptors = (self._status_end, self._gate_end, *also)
        self.options = ("--json-status-fd", str(self._status_end), "--block-fd", str(self._gate_end))
        self._told = b""
        self._bubblewrap: int | None = None
        self._first: int | None = None  # process of the namespace, as we see it; `_first_fd` is its pidfd
        self._first_fd = -1

    def begin(self, leader: int, hearing: Hearing) -> None:
        """Bubblewrap has started as process `leader`: set the limits, then let the command begin.

        Raises:
            ToolExecutionError: bubblewrap took too long.
            Stopped: somebody wants it, and nothing has begun.
        """
        self._bubblewrap = leader
        if not self._hear_of_first(hearing, stoppable=True):
            raise ToolExecutionError("the sandbox could not be set up in time: try again.")
        if self._first is not None:
            _limit(self._first)
        self._close(self._gate)

    def end(self, hearing: Hearing, *, exited: bool) -> None:
        """End all of them. Those that still work get SIGTERM and a moment to clean up."""
        if self._gate not in self._open and self._first is not None and not exited:
            tree = ProcessTree()
            tree.begin(self._first, hearing)
            tree.ask_to_end(hearing)
        self._kill(hearing, exited=exited)

    @property
    def has_run(self) -> bool:
        """After the end: whether the exit was the command's own, and not bubblewrap's that ran nothing."""
        return b'"exit-code"' in self._told

    def close(self) -> None:
        """Give the descriptors back."""
        if self._status in self._open:
            self._hear()
        self._close(*self._open)

    def _hear_of_first(self, hearing: Hearing, *, stoppable: bool = False) -> bool:
        """Until bubblewrap names the first process, or ends without one; False when it does neither."""
        self._close(self._status_end, self._gate_end)
        while self._first is None:
            if not hearing.wait(self._status, SETUP_S, stoppable=stoppable):
                return False
            if not self._hear():
                break
        return True

    def _hear(self) -> bool:
        """Read what bubblewrap has told; False at the end."""
        try:
            told = os.read(self._status, STATUS_BYTES)
        except BlockingIOError:
            return True
        self._told += told
        line, ended, _ = self._told.partition(b"\n")
        if ended and self._first is None:
            self._first = int(json.loads(line)["child-pid"])
            with contextlib.suppress(ProcessLookupError):  # bubblewrap failed at once
                self._first_fd = os.pidfd_open(self._first)
                self._open.add(self._first_fd)
        return bool(told)

    def _kill(self, hearing: Hearing, *, exited: bool) -> None:
        # Bubblewrap is left alone until it has named its first process: that one would wait for it for ever.
        if self._first is None and not self._hear_of_first(hearing) and self._bubblewrap and not exited:
            os.kill(self._bubblewrap, signal.SIGKILL)
        if self._first_fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first_fd, signal.SIGKILL)
            # Bubblewrap ends before its namespace does, and that may still write. One that does not end waits
            # for a dead disk, and can do nothing else.
            self.is_gone = hearing.wait(self._first_fd, KILL_S)
            _reap(self._first_fd)

    def _close(self, *descriptors: int) -> None:
        for fd in descriptors:
            if fd in self._open:
                self._open.remove(fd)
                os.close(fd)


def _reap(pidfd: int) -> None:
    """Take leave of a process that became ours, as all orphans do where we are the system's first one."""
    with contextlib.suppress(ChildProcessError):  # it is somebody else's
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)


def _limit(pid: int) -> None:
    """Bound what a command and all it starts may use; as root the number of processes stays unbounded."""
    import resource

    processes = max(PROCESSES_MIN, PROCESSES_A_CPU * (os.cpu_count() or 1))
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NPROC: processes,
    }
    for kind, most in wanted.items():
        with contextlib.suppress(ProcessLookupError):  # bubblewrap failed meanwhile
            _, hard = resource.prlimit(pid, kind)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (least, least))
