"""One command's surroundings: the sandbox with its view, its network and its processes, or none of it."""

import math
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.finished import finished
from lockstitch.tools.changes.transaction import Layer, open_layer
from lockstitch.tools.commands.landlock_hold import hold_back
from lockstitch.tools.commands.landlock_tree import LandlockTree
from lockstitch.tools.commands.process import ProcessResult, Tree, command_environment
from lockstitch.tools.commands.process_tree import ProcessTree
from lockstitch.tools.commands.protected import open_protected
from lockstitch.tools.commands.ready_sandbox import Surroundings, end_with_layer
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.commands.sandbox_tree import SandboxTree
from lockstitch.tools.commands.sandbox_view import Bounds, bubblewrap_arguments, descriptors_for
from lockstitch.tools.context import ToolContext

if TYPE_CHECKING:
    from lockstitch.tools.commands.domain_proxy import Proxy

PROXY_SEEN: Final = "/run/proxy.sock"  # where a command finds the way out to the named domains
FORWARDER_SEEN: Final = "/run/domain_forward.py"
PYTHON: Final = os.path.realpath(
    sys.executable
)  # seen in a sandbox, also where our own environment is in /tmp
SAID_CHARS: Final = 200  # of bubblewrap's own words: one line

Shell = Callable[[str, Mapping[str, str]], Sequence[str]]
"""Makes of a command, and its environment, the program to start and its arguments."""


@dataclass(frozen=True)
class Job:
    """A command of a shell, in a folder of the workspace.

    Attributes:
        timeout_s: seconds until it is ended; infinite for one that goes on between calls.
        keep_bytes: of its output, half from the beginning and half from the end.
    """

    shell: Shell
    command: str
    folder: str
    timeout_s: float
    keep_bytes: int


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """How to start a command, and what becomes of it.

    Attributes:
        argv: the program and its arguments.
        environment: all that it is given.
        folder_fd: of the folder it starts in.
        tree: ends its processes.
        around: what a sandbox for the next command like it is made of, where one can stand ready.
        refused: hosts it asked for in vain, each with the reason.
        layer: that takes what the command writes; None where it writes into the workspace.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder_fd: int
    tree: Tree
    layer: Layer | None = None
    around: Surroundings | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    def check(self, result: ProcessResult) -> None:
        """Make sure that a result is the command's.

        Raises:
            ToolExecutionError: the sandbox could not be set up, and nothing ran.
        """
        if isinstance(self.tree, SandboxTree | LandlockTree) and not (result.timed_out or self.tree.has_run):
            said = result.head.decode("utf-8", "replace").strip().rpartition("\n")[2][:SAID_CHARS]
            raise ToolExecutionError(f"the sandbox could not be set up, so nothing ran ({said}).")


@contextmanager
def open_enclosure(job: Job, call: ToolContext, *, proxy: "Proxy | None") -> Iterator[Enclosure]:
    """The enclosure of a command; nothing of it is left. Waits for the disk: open it in a worker thread.

    Args:
        job: the command.
        call: the tool's.
        proxy: of `open_way_out`.

    Raises:
        ToolExecutionError: what the run asks for needs a sandbox that is not there.
        RecoverableError: the folder or a domain of the network is none.
    """
    with ExitStack() as closing:
        enclosure = _enclose(job, call, closing, proxy)
        yield enclosure
    if enclosure.around and call.processes:  # nothing failed: there may be another command
        call.processes.ready.prepare(enclosure.around)


@asynccontextmanager
async def open_way_out(call: ToolContext) -> AsyncIterator["Proxy | None"]:
    """The proxy to the named domains; None where the network is off or on.

    Raises:
        ToolExecutionError: there is no sandbox that could be held to it.
    """
    if isinstance(call.network, str):
        yield None
        return
    from lockstitch.tools.commands.domain_proxy import open_proxy

    await finished(lambda: _check(call))
    async with open_proxy(call.network, folder=Path(tempfile.gettempdir())) as proxy:
        yield proxy


def _enclose(job: Job, call: ToolContext, closing: ExitStack, proxy: "Proxy | None") -> Enclosure:
    """Find the sandbox, and make what it needs on the disk; `closing` puts it back."""
    sandbox = _check(call)
    # handed on to a child, not read as a setting; temporary files belong into the command's own /tmp
    outside = {"TMPDIR"} if sandbox.backend != "none" else set()
    given = command_environment(os.environ)
    environment = {name: value for name, value in given.items() if name not in outside}
    plain = Enclosure(
        argv=job.shell(job.command, environment),
        environment=environment,
        folder_fd=closing.enter_context(call.workspace.open_folder(job.folder)),
        tree=ProcessTree(),
    )
    if sandbox.backend == "bubblewrap":
        return _in_bubblewrap(plain, job, call, closing=closing, proxy=proxy)
    if sandbox.backend == "landlock":
        tree, launcher = hold_back(call, closing)
        return replace(plain, argv=(*launcher, *plain.argv), tree=tree)
    return plain


def _check(call: ToolContext) -> Sandbox:
    """The sandbox, which can do what the run asks for."""
    sandbox = call.find_sandbox()
    if call.discard and not sandbox.can_discard:
        raise ToolExecutionError(f"mode plan cannot hold back what a command changes here: {sandbox.reason}.")
    if sandbox.backend != "bubblewrap" and not isinstance(call.network, str):
        raise ToolExecutionError(
            f"a network of named domains needs bubblewrap: {sandbox.reason}. Choose off or on."
        )
    return sandbox


def _in_bubblewrap(
    plain: Enclosure, job: Job, call: ToolContext, *, closing: ExitStack, proxy: "Proxy | None"
) -> Enclosure:
    sandbox, bounds = call.find_sandbox(), _bounds(call, job, closing)
    shared = call.processes.shared_network(call.network) if call.processes else None
    if call.layers and not (call.discard or proxy or shared):
        around = _around(plain, job, sandbox, bounds, home=call.layers)
        plain = replace(plain, around=around)
        if around and call.processes and (ready := call.processes.ready.take(around, job.command)):
            closing.callback(ready.close)
            return replace(plain, tree=ready.tree, layer=ready.layer)
    if proxy:
        from lockstitch.tools.commands import domain_forward

        brought = {PROXY_SEEN: proxy.socket, FORWARDER_SEEN: Path(domain_forward.__file__)}
        bounds = replace(bounds, brought=brought)
        forward = (PYTHON, "-I", "-S", FORWARDER_SEEN, "--socket", PROXY_SEEN, "--")
        plain = replace(plain, argv=(*forward, *plain.argv), refused=proxy.refused)
    if shared is None:
        return _in_new_sandbox(plain, call, sandbox, bounds, closing=closing)
    # asked for once: without its entrance these bounds would open the machine's own network
    made = _in_new_sandbox(plain, call, sandbox, replace(bounds, network=True), closing=closing)
    return replace(made, argv=(*shared.entrance, *made.argv))


def _in_new_sandbox(
    plain: Enclosure, call: ToolContext, sandbox: Sandbox, bounds: Bounds, *, closing: ExitStack
) -> Enclosure:
    layer = None
    if call.layers and not call.discard:
        layer = closing.enter_context(open_layer(bounds.root, home=call.layers))
        bounds = replace(bounds, layer=layer.bwrap_options())

    def arguments() -> list[str]:
        if call.discard:
            return bubblewrap_arguments(sandbox, bounds)
        protected = closing.enter_context(open_protected(bounds.root, layered=layer is not None))
        return bubblewrap_arguments(sandbox, replace(bounds, protected=protected))

    tree = SandboxTree(arguments, also=descriptors_for(sandbox, bounds))
    closing.callback(end_with_layer, tree, layer)
    argv = (sandbox.program, *tree.options, "--", *plain.argv)
    return replace(plain, argv=argv, tree=tree, layer=layer)


def _around(
    plain: Enclosure, job: Job, sandbox: Sandbox, bounds: Bounds, *, home: Path
) -> Surroundings | None:
    """What a sandbox of the next such command is made of; None where none can wait for it."""
    shell, *rest = plain.argv
    if rest != ["-c", "--", job.command] or Path(shell).name != "bash" or bounds.folder != ".":
        return None
    return Surroundings(sandbox=sandbox, bounds=bounds, home=home, environment=plain.environment, shell=shell)


def _bounds(call: ToolContext, job: Job, closing: ExitStack) -> Bounds:
    """What a command may reach, but for its layer, and for what is protected in the workspace."""
    return Bounds(
        root=Path(os.path.realpath(call.workspace.root)),
        root_fd=closing.enter_context(call.workspace.open_folder(".")),
        folder=call.workspace.relative(job.folder),
        home=Path(os.path.realpath(Path.home())),
        hidden=call.workspace.hidden,
        discard=call.discard,
        network=call.network == "on",
        lasting=math.isinf(job.timeout_s),
    )
