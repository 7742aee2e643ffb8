"""A sandbox that stands ready for a command that is not known yet.

It has its layer, its mounts and its limits, and waits at its gate. It is used only where a new one would be
the same: what bubblewrap would be told, where each of these paths and the folders on the way to it lead, and
the machine's mounts are compared with what they were. What is in the other folders need not be: the overlay
has not been looked through yet, and shows them as they are. None waits where a mount hides a file or folder
of the machine's: such a mount is gone, unseen by us, when somebody deletes what it lies on.
"""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from lockstitch.state.errors import AgentError, ToolExecutionError
from lockstitch.tools.changes.transaction import Layer, open_layer
from lockstitch.tools.commands.hearing import Hearing
from lockstitch.tools.commands.mounts import read_mount_table
from lockstitch.tools.commands.process import REAP_S, start_program
from lockstitch.tools.commands.protected import Protected, find_protected
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.commands.sandbox_tree import SandboxTree
from lockstitch.tools.commands.sandbox_view import Bounds, View, view_of
from lockstitch.tools.confined.tree import FOLDER

Identity = tuple[int, int, int, int, int]
"""Of what a path leads to: device, inode, mode, owner, group."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a command's sandbox is made of, but for its layer.

    Attributes:
        bounds: without a layer.
        home: our own, in which layers may lie.
        environment: all that the command is given.
        shell: bash, absolute.
    """

    sandbox: Sandbox
    bounds: Bounds
    home: Path
    environment: Mapping[str, str]
    shell: str

    def view(self, layer: Layer) -> View:
        """What the command will see."""
        return view_of(self.sandbox, replace(self.bounds, layer=layer.bwrap_options()))


class ReadySandbox:
    """One that waits.

    Attributes:
        close: ends it if it still waits, and gives back all that it or its command has used.
        tree: its processes.
        layer: that takes what the command writes.
    """

    def __init__(self, around: Surroundings) -> None:
        """Make it. Waits for bubblewrap.

        Raises:
            AgentError: it cannot be made.
            OSError: the disk fails.
        """
        with ExitStack() as closing:
            self._around = around
            self._mounts = read_mount_table()
            self.layer = closing.enter_context(open_layer(around.bounds.root, home=around.home))
            view = around.view(self.layer)
            # but for our own home, which cannot go without the layer in it
            if any(not self.layer.folder.is_relative_to(path) for path in view.masked):
                raise ToolExecutionError("no sandbox can wait that hides by mounts.")
            self._told = view.options
            self._identities = _identities(self._told)
            self._command = os.memfd_create("command")
            closing.callback(self._close_command)
            self.tree = SandboxTree(lambda: self._told, also=[self._command])
            closing.callback(end_with_layer, self.tree, self.layer)
            self.tree.started = self._process = self._start()
            closing.callback(self._give_up)
            self.tree.set_up(self._process.pid, self._hearing())
            self.close = closing.pop_all().close

    def _start(self) -> "subprocess.Popen[bytes]":
        shell, fd, status = self._around.shell, self._command, self.tree.status
        # bash reads a file in one go, and what it executes is the very program that would have been started
        wait = f'IFS= read -r -d "" c <&{fd}; exec {fd}<&- {status}<&-; exec "$0" -c -- "$c"'
        return start_program(
            (self._around.sandbox.program, *self.tree.options, "--", shell, "-c", wait, shell),
            folder_fd=self._around.bounds.root_fd,
            env={**self._around.environment, **self.tree.environment},
            # it hears itself: if we die now, it does not die of that, and lets go of what it has begun
            pass_fds=(*self.tree.descriptors, status),
        )

    def _hearing(self) -> Hearing:
        assert self._process.stdout is not None
        return Hearing(self._process.stdout.fileno(), ())

    def fits(self, around: Surroundings) -> bool:
        """Whether it is what would be made for a command now."""
        try:
            return (
                self._process.poll() is None
                and (around.home, around.shell) == (self._around.home, self._around.shell)
                and around.environment == self._around.environment
                and find_protected(around.bounds.root, layered=True) == Protected()
                and around.view(self.layer).options == self._told
                and _identities(self._told) == self._identities
                and read_mount_table() == self._mounts
            )
        except (AgentError, OSError):  # which the command is told when it starts as any other
            return False

    def tell(self, command: bytes) -> None:
        """Give it its command, which begins when `tree` does.

        Raises:
            OSError: the disk fails.
        """
        os.pwrite(self._command, command, 0)
        self._close_command()
        self.layer.begin_now()

    def _close_command(self) -> None:
        if self._command >= 0:
            os.close(self._command)
        self._command = -1

    def _give_up(self) -> None:
        assert self._process.stdout is not None
        if self.tree.is_waiting:  # closed, its gate would be open
            self.tree.end(self._hearing(), exited=self._process.poll() is not None)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_S)
        self._process.stdout.close()


def end_with_layer(tree: SandboxTree, layer: Layer | None) -> None:
    """Close a sandbox; its layer can be used again if nothing of the sandbox is left."""
    tree.close()
    if layer:
        layer.is_over = tree.is_gone


def make_ready(around: Surroundings) -> ReadySandbox | None:
    """None where it cannot be, or where something of ours would lie about meanwhile in a person's folders."""
    root = around.bounds.root
    try:
        if find_protected(root, layered=True) != Protected():
            return None
        root_fd = os.open(root, FOLDER)
        try:
            return ReadySandbox(replace(around, bounds=replace(around.bounds, root_fd=root_fd)))
        finally:
            os.close(root_fd)
    except (AgentError, OSError):
        return None


def _identities(options: Sequence[str]) -> dict[str, Identity | None]:
    """Of all paths in them, and of the folders on the way, which an overlay keeps as it has met them."""
    paths = {word for word in options if word.startswith("/")}
    ways = {path[:end] for path in paths for end, letter in enumerate(path) if end and letter == "/"}
    return {path: _identity(path) for path in paths | ways}


def _identity(path: str) -> Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116  for each command
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid
