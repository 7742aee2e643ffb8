"""The processes of a command in bubblewrap: held to their limits, and ended with their namespace."""

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.hearing import Hearing
from lockstitch.tools.commands.process_tree import ProcessTree

FILE_BYTES: Final = 4 * 1024**3  # of one file; a bigger one is a mistake, and this fills no disk at once
PROCESSES_MIN: Final = 1024  # threads included: a fork bomb of so many ends in a moment
PROCESSES_A_CPU: Final = 128  # builds start as many compilers as there are processors, of many threads each
PIPE_BYTES: Final = 65_536  # what a pipe holds by itself; bubblewrap writes two short lines
SETUP_S: Final = 10.0  # for bubblewrap to make the first process, which takes 2 ms
KILL_S: Final = 0.5  # for the kernel to end a namespace; one of 1,000 processes takes 0.05 s


class SandboxTree:
    """One command's namespace. Its first process takes the others with it, whatever they did to get away.

    Attributes:
        environment: nothing needs to mark the processes: the namespace does.
        descriptors: that bubblewrap must inherit.
        options: that tell bubblewrap of them.
        status: descriptor that bubblewrap's words are read from.
        started: bubblewrap, where it was started before its command was known.
        is_gone: the last process has ended, and its mounts are gone; known from `close` on.
    """

    is_gone = False
    started: "subprocess.Popen[bytes] | None" = None

    def __init__(self, arguments: Callable[[], Sequence[str]], *, also: Sequence[int] = ()) -> None:
        """Make ready for one start of bubblewrap.

        Args:
            arguments: makes its other options. It is asked while bubblewrap starts, which takes as long.
            also: descriptors that they name; these stay the caller's.
        """
        self.environment: dict[str, str] = {}
        self._arguments = arguments
        self._rest_end, self._rest = os.pipe()  # bubblewrap reads the other options here
        self.status, self._status_end = os.pipe()  # it tells of the first process, and of the exit
        self._gate_end, self._gate = os.pipe()  # it waits here: the limits must come before the command
        os.set_blocking(self.status, False)
        os.set_blocking(self._rest, False)
        given = {"--args": self._rest_end, "--json-status-fd": self._status_end, "--block-fd": self._gate_end}
        self._given = tuple(given.values())
        self._open = {self._rest, self.status, self._gate, *self._given}
        self.descriptors = (*self._given, *also)
        self.options = tuple(word for option, fd in given.items() for word in (option, str(fd)))
        self._told = b""
        self._bubblewrap: int | None = None
        self._first: int | None = None  # process of the namespace, as we see it; `_first_fd` is its pidfd
        self._first_fd = -1

    def begin(self, leader: int, hearing: Hearing) -> None:
        """Bubblewrap has started as process `leader`: let the command begin, in all that was set up for it.

        Raises:
            ToolExecutionError: bubblewrap took too long, or cannot be told so much.
            Stopped: somebody wants it, and nothing has begun.
        """
        if self._bubblewrap is None:
            self.set_up(leader, hearing)
        self._close(self._gate)

    def set_up(self, leader: int, hearing: Hearing) -> None:
        """Tell bubblewrap the rest, and set limits; the command waits.

        Raises:
            ToolExecutionError: bubblewrap took too long, or cannot be told so much.
            Stopped: somebody wants it.
        """
        self._bubblewrap = leader
        self._tell_rest()
        if not self._hear_of_first(hearing, stoppable=True):
            raise ToolExecutionError("the sandbox could not be set up in time: try again.")
        if self._first is not None:
            _limit(self._first)

    def end(self, hearing: Hearing, *, exited: bool) -> None:
        """End all of them. Those that still work get SIGTERM and a moment to clean up."""
        if not self.is_waiting and self._first is not None and not exited:
            tree = ProcessTree()
            tree.begin(self._first, hearing)
            tree.ask_to_end(hearing)
        self._kill(hearing, exited=exited)
        self._hear()

    @property
    def is_waiting(self) -> bool:
        """Whether the command has not begun."""
        return self._gate in self._open

    @property
    def has_run(self) -> bool:
        """After the end: whether the exit was the command's own, and not bubblewrap's that ran nothing."""
        return b'"exit-code"' in self._told

    def close(self) -> None:
        """Wait until the namespace is gone, and give the descriptors back."""
        if self._first_fd in self._open:
            self.is_gone = _has_ended(self._first_fd)
            _reap(self._first_fd)
        self._close(*self._open)

    def _tell_rest(self) -> None:
        """Tell bubblewrap its other options, all at once: half of them would leave something unprotected."""
        self._close(*self._given)
        rest = b"".join(os.fsencode(word) + b"\0" for word in self._arguments())
        if len(rest) > PIPE_BYTES:
            _widen(self._rest, len(rest))
        try:
            whole = os.write(self._rest, rest) == len(rest)
        except BlockingIOError:
            whole = False
        except BrokenPipeError:  # bubblewrap could not be started, and says why
            whole = True
        if not whole:
            raise ToolExecutionError("there is more to hide from a command than a sandbox can be told.")
        self._close(self._rest)

    def _hear_of_first(self, hearing: Hearing, *, stoppable: bool = False) -> bool:
        """Until bubblewrap names the first process, or ends without one; False when it does neither."""
        while self._first is None:
            if not hearing.wait(self.status, SETUP_S, stoppable=stoppable):
                return False
            if not self._hear():
                break
        return True

    def _hear(self) -> bool:
        """Read what bubblewrap has told; False at the end."""
        try:
            told = os.read(self.status, PIPE_BYTES)
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
        if self._rest in self._open and self._bubblewrap and not exited:
            os.kill(self._bubblewrap, signal.SIGKILL)  # it has not been told all, so it must not go on
        # Bubblewrap is left alone until it has named its first process: that one would wait for it for ever.
        elif self._first is None and not self._hear_of_first(hearing) and self._bubblewrap and not exited:
            os.kill(self._bubblewrap, signal.SIGKILL)
        if self._first_fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first_fd, signal.SIGKILL)
            # Bubblewrap ends before its namespace does, and another process there may still write. One that
            # does not end waits for a dead disk, and can do nothing else. The first process holds the output
            # until it ends by itself, which it does when it is alone: then only the mounts are still to go,
            # and the kernel flushes those of an overlay.
            if not (exited and hearing.is_drained):
                hearing.wait(self._first_fd, KILL_S)

    def _close(self, *descriptors: int) -> None:
        for fd in descriptors:
            if fd in self._open:
                self._open.remove(fd)
                os.close(fd)


def _has_ended(pidfd: int) -> bool:
    """Whether a process ends within KILL_S."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(KILL_S * 1000))


def _widen(pipe: int, size: int) -> None:
    """Have a pipe hold so many bytes, if that is allowed."""
    import fcntl  # not everywhere, and neither are sandboxes

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)


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
