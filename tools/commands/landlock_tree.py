"""The processes of a command under Landlock: ended by their launcher, who is the parent of all of them."""

import contextlib
import marshal
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from lockstitch.tools.commands.hearing import Hearing
from lockstitch.tools.commands.process_tree import ProcessTree

TOLD_BYTES: Final = 16  # the launcher says one word
END_S: Final = 1.0  # for the launcher to end all, which takes it TERM_S and KILL_S at most


class LandlockTree:
    """One command's processes. None can leave: whoever loses its parent becomes the launcher's child.

    Attributes:
        environment: marks the processes, for the case that the launcher itself was killed.
        descriptors: that the launcher must inherit.
        started: the launcher, where it waits to begin: none does.
    """

    started: "subprocess.Popen[bytes] | None" = None

    def __init__(self, spec: Mapping[str, Any], *, rules: int, environment: Mapping[str, str]) -> None:
        """Hand the spec over, as `landlock_launcher` reads it.

        Args:
            spec: all of it but the descriptors.
            rules: the descriptor of a set of Landlock's, which stays the caller's.
            environment: what the command is given beside its own.
        """
        self._tree = ProcessTree()
        self.environment = {**self._tree.environment, **environment}
        self._told, told = os.pipe()
        self._spec, writing = os.pipe()
        os.set_blocking(self._told, False)
        self._open = {self._told, told, self._spec}
        with open(writing, "wb") as pipe:  # noqa: PTH123  some kB: a pipe holds 64
            marshal.dump({**spec, "parent": os.getpid(), "rules": rules, "told": told}, pipe)
        self._given = {told, self._spec}
        self.descriptors: tuple[int, ...] = (self._spec, rules, told)
        self._launcher = -1
        self.has_run = False

    @property
    def spec_fd(self) -> int:
        """The descriptor that the launcher reads first."""
        return self._spec

    def begin(self, leader: int, hearing: Hearing) -> None:
        """The launcher has started as that pid."""
        self._close(*self._given)
        self._tree.begin(leader, hearing)
        with contextlib.suppress(ProcessLookupError):
            self._launcher = os.pidfd_open(leader)
            self._open.add(self._launcher)

    def end(self, hearing: Hearing, *, exited: bool) -> None:
        """Have the launcher end what is left, then end what it could not."""
        if not exited and self._launcher >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._launcher, signal.SIGTERM)
            hearing.wait(self._launcher, END_S)
        self._tree.end(hearing, exited=exited)
        self._hear()

    def close(self) -> None:
        """Give the descriptors back."""
        self._close(*self._open)

    def _hear(self) -> None:
        """Whether the command was started: the launcher writes so."""
        if self._told in self._open:
            with contextlib.suppress(BlockingIOError):
                self.has_run = bool(os.read(self._told, TOLD_BYTES))

    def _close(self, *descriptors: int) -> None:
        for fd in descriptors:
            if fd in self._open:
                self._open.remove(fd)
                os.close(fd)
