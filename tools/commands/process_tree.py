"""All processes one command started: found, and ended.

On Linux a process belongs to the tree when its session is the leader's, its environment holds the mark of
this tree, or its parent belongs: so those are found, too, that left the group or lost their parent.
Elsewhere the tree is the leader's process group, and a process that leaves it is not found.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lockstitch.tools.commands.hearing import Hearing

MARK: Final = "_COMMAND_MARK"  # the name of the variable that every process of a tree inherits
TERM_S: Final = 0.3  # to clean up after SIGTERM; a stop must work within a second, KILL_S included
KILL_S: Final = 0.3  # for the kernel to end them; one that waits for a dead disk may take longer
POLL_S: Final = 0.01  # a scan of 100 processes takes about 2 ms
LOOK: Final = 0  # the number of no signal: whoever sends it hears whether the process is there
PROC: Final = Path("/proc")
_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19  # places in /proc/PID/stat after the name, see proc(5)


@dataclass(frozen=True)
class _Process:
    """One living process. `started`, in clock ticks, tells it from a later one with the same pid."""

    pid: int
    parent: int
    session: int
    started: int


class ProcessTree:
    """The processes of one command.

    Attributes:
        leader: pid of the first one, which leads a session of its own; None until it has started.
        environment: what the leader's environment must hold.
        descriptors: that the leader must inherit: none.
        started: the leader, where it waits to begin: none does.
    """

    descriptors: tuple[int, ...] = ()
    started: "subprocess.Popen[bytes] | None" = None

    def __init__(self, proc: Path = PROC) -> None:
        """`proc` is for tests: without such a folder there is only the process group."""
        self._proc = proc
        self.leader: int | None = None
        self._mark = secrets.token_hex(8)
        self.environment = {MARK: self._mark}
        self._known: dict[int, _Process] = {}

    def begin(self, leader: int, hearing: Hearing) -> None:  # noqa: ARG002  it needs no word of it
        """The first one has started."""
        self.leader = leader

    def end(self, hearing: Hearing, *, exited: bool = False) -> None:  # noqa: ARG002  what it left goes, too
        """End all of them: SIGTERM, a moment to clean up, SIGKILL. At once when none is left."""
        if not self.ask_to_end(hearing):
            self._press(signal.SIGKILL, KILL_S, hearing)

    def ask_to_end(self, hearing: Hearing) -> bool:
        """SIGTERM, and a moment to clean up; False when some are alive after it.

        Only those alive now are asked: what they start to clean up, such as `rm`, is let work.
        """
        return self._press(signal.SIGTERM, TERM_S, hearing)

    def close(self) -> None:
        """Nothing is held open."""

    def _press(self, number: int, seconds: float, hearing: Hearing) -> bool:
        """Signal, SIGTERM once, until none is alive; False when some are after that time."""
        deadline = time.monotonic() + seconds
        while self._send(number):
            if time.monotonic() > deadline:
                return False
            if number == signal.SIGTERM:
                number = LOOK
            hearing.pause(POLL_S)
        return True

    def _send(self, number: int) -> bool:
        """Signal all that are alive; whether any was."""
        if not self._proc.is_dir():
            return self._send_to_group(number)
        living = self._living()
        for process in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or set-id
                os.kill(process.pid, number)
        return bool(living)

    def _send_to_group(self, number: int) -> bool:
        if self.leader is None:
            return False
        try:
            os.killpg(self.leader, number)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM when only zombies are left
            return False
        return True

    def _living(self) -> list[_Process]:
        every = list(_processes(self._proc))
        by_parent: dict[int, list[_Process]] = {}
        for process in every:
            by_parent.setdefault(process.parent, []).append(process)
        pending = [process for process in every if self._is_root(process)]
        found: dict[int, _Process] = {}
        while pending:
            process = pending.pop()
            if process.pid not in found and process.pid != os.getpid():
                found[process.pid] = process
                pending += by_parent.get(process.pid, ())
        self._known |= found
        # parents first: a shell that saw its child end by a signal would print so
        return sorted(found.values(), key=lambda process: (process.started, process.pid))

    def _is_root(self, process: _Process) -> bool:
        known = self._known.get(process.pid)
        if known is not None and known.started == process.started:
            return True  # its parent may have ended between two scans
        if self.leader is not None and self.leader in {process.pid, process.session}:
            return True
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            return f"{MARK}={self._mark}".encode() in (self._proc / str(process.pid) / "environ").read_bytes()
        return False


def _processes(proc: Path) -> Iterable[_Process]:
    for name in os.listdir(proc):  # noqa: PTH208  names are enough, and this is polled
        if name.isdecimal():
            with contextlib.suppress(OSError):  # ended meanwhile
                stat = (proc / name / "stat").read_bytes()
                fields = stat[stat.rindex(b")") + 2 :].split()  # the name before may hold anything
                if fields[_STATE] not in {b"Z", b"X"}:
                    parent, session, started = (int(fields[at]) for at in (_PARENT, _SESSION, _STARTED))
                    yield _Process(int(name), parent, session, started)
