"""The process that helps looks, from its start to its end. Whatever becomes of it, nobody waits for it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from lockstitch.tools.changes import scan_stamps

PATIENCE_S: Final = 5.0  # after a look, for the process to be done with it too: it starts in 0.02 s
END_S: Final = 0.2  # for the kernel to tell of the exit of what was killed
LOSSES_MAX: Final = 3  # processes in a row that never answered; then no more are started
PROGRAM: Final = (os.path.realpath(sys.executable), "-I", "-S", scan_stamps.__file__)
_LIBRARIES: Final = "LD_LIBRARY_PATH"  # some Pythons do not start without it


class SecondProcess:
    """At most one process with one request at a time. For one thread at a time, too."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        """`program` is given the number of its end of a socket as one more argument."""
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: socket.socket | None = None
        self._is_free = True
        self._released_s = 0.0  # when the last request was over for us, on the monotonic clock
        self._losses = 0

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return self._process.pid if self._process else None

    def is_free(self) -> bool:
        """Whether it takes a request now. Starts the process if there is none."""
        self._hear()
        if self._wire is None and self._losses < LOSSES_MAX:
            self._start()
        return self._wire is not None and self._is_free

    def ask(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Hand over a request, with open files.

        Raises:
            OSError: the process is gone.
        """
        assert self._wire is not None
        self._is_free = False
        self.release()
        socket.send_fds(self._wire, [request], descriptors)

    def release(self) -> None:
        """The request is over for us: the process has to say soon that it is done."""
        self._released_s = time.monotonic()

    def end(self) -> None:
        """End the process, if there is one."""
        process, wire = self._process, self._wire
        self._process = self._wire = None
        if wire:
            wire.close()
        if process:
            self._losses += 1
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)

    def forget(self) -> None:
        """Leave the process to another: for the copy of ours that fork(2) makes."""
        if self._wire:
            self._wire.close()
        if self._process:
            self._process.returncode = 0  # not ours to wait for
        self._process = self._wire = None

    def _hear(self) -> None:
        """Learn whether it is done with the last request, or gone; one that is neither for long is ended."""
        if self._wire is None or self._process is None:
            return
        try:
            said = self._wire.recv(1)
        except BlockingIOError:
            is_lost = not self._is_free and time.monotonic() - self._released_s > PATIENCE_S
        except OSError:
            is_lost = True
        else:
            is_lost = not said
            if said:
                self._is_free, self._losses = True, 0
        if is_lost or self._process.poll() is not None:
            self.end()

    def _start(self) -> None:
        try:
            self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:  # no descriptor is left
            return
        self._wire.settimeout(0)
        self._is_free = True
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*self._program, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    cwd="/",
                    env={_LIBRARIES: os.environ[_LIBRARIES]} if _LIBRARIES in os.environ else {},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # no Ctrl-C but ours
                )
            except OSError:
                self._losses += 1
                self.end()
