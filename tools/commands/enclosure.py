"""One command's surroundings: the sandbox with its view, its network and its processes, or none of it."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.changes.transaction import Layer, open_layer
from lockstitch.tools.commands.finished import finished
from lockstitch.tools.commands.landlock_hold import open_hold
from lockstitch.tools.commands.landlock_tree import LandlockTree
from lockstitch.tools.commands.process import ProcessResult, Tree
from lockstitch.tools.commands.process_tree import ProcessTree
from lockstitch.tools.commands.protected import open_protected
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.commands.sandbox_tree import SandboxTree
from lockstitch.tools.commands.sandbox_view import Bounds, bubblewrap_arguments, descriptors_for
from lockstitch.tools.context import ToolContext

PROXY_SEEN: Final = "/run/proxy.sock"  # where a command finds the way out to the named domains
FORWARDER_SEEN: Final = "/run/domain_forward.py"
PYTHON: Final = os.path.realpath(
    sys.executable
)  # seen in a sandbox, also where our own environment is in /tmp
SAID_CHARS: Final = 200  # of bubblewrap's own words: one line


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """How to start a command.

    Attributes:
        before: makes what comes before the command's own arguments; it looks at the disk. None: nothing does.
        tree: ends its processes.
        refused: hosts it asked for in vain, each with the reason.
        layer: that takes what the command writes; None where it writes into the workspace.
    """

    tree: Tree
    layer: Layer | None = None
    before: Callable[[], Sequence[str]] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """What a command in it is given: temporary files belong into its own /tmp."""
        outside = {"TMPDIR"} if self.before else set()
        return {name: value for name, value in given.items() if name not in outside}

    def check(self, result: ProcessResult) -> None:
        """Make sure that a result is the command's.

        Raises:
            ToolExecutionError: the sandbox could not be set up, and nothing ran.
        """
        if isinstance(self.tree, SandboxTree | LandlockTree) and not (result.timed_out or self.tree.has_run):
            said = result.head.decode("utf-8", "replace").strip().rpartition("\n")[2][:SAID_CHARS]
            raise ToolExecutionError(f"the sandbox could not be set up, so nothing ran ({said}).")


@asynccontextmanager
async def open_enclosure(call: ToolContext, folder: str) -> AsyncIterator[Enclosure]:
    """The enclosure of a command that starts in that folder of the workspace; nothing of it is left.

    Raises:
        ToolExecutionError: what the run asks for needs a sandbox that is not there.
        RecoverableError: the folder or a domain of the network is none.
    """
    stack = ExitStack()
    try:
        sandbox, bounds, layer = await finished(lambda: _look(call, folder, stack))
        if sandbox.backend == "landlock":
            async with open_hold(call) as (held, launcher):
                yield Enclosure(tree=held, before=lambda: launcher)
        elif bounds is None:
            yield Enclosure(tree=ProcessTree())
        else:
            async with AsyncExitStack() as network:
                tree = SandboxTree(also=descriptors_for(sandbox, bounds))
                stack.callback(tree.close)  # a stop may come before there is a process to end
                yield replace(await _enclose(sandbox, bounds, call, network=network, tree=tree), layer=layer)
    finally:
        await finished(stack.close)


def _check(sandbox: Sandbox, call: ToolContext) -> None:
    if call.discard and not sandbox.can_discard:
        raise ToolExecutionError(f"mode plan cannot hold back what a command changes here: {sandbox.reason}.")
    if sandbox.backend != "bubblewrap" and not isinstance(call.network, str):
        raise ToolExecutionError(
            f"a network of named domains needs bubblewrap: {sandbox.reason}. Choose off or on."
        )


def _look(call: ToolContext, folder: str, stack: ExitStack) -> tuple[Sandbox, Bounds | None, Layer | None]:
    """Find the sandbox and, for bubblewrap, make what it needs on the disk; `stack` puts it back."""
    sandbox = call.find_sandbox()
    _check(sandbox, call)
    if sandbox.backend != "bubblewrap":
        return sandbox, None, None
    root = Path(os.path.realpath(call.workspace.root))
    layered = call.layers is not None and not call.discard
    layer = stack.enter_context(open_layer(root, home=call.layers)) if call.layers and layered else None
    bounds = Bounds(
        root=root,
        root_fd=stack.enter_context(call.workspace.open_folder(".")),
        folder=call.workspace.relative(folder),
        home=Path(os.path.realpath(Path.home())),
        hidden=call.workspace.hidden,
        discard=call.discard,
        layer=layer.bwrap_options() if layer else (),
        network=call.network == "on",
    )
    if call.discard:
        return sandbox, bounds, None
    protected = stack.enter_context(open_protected(root, layered=layered))
    return sandbox, replace(bounds, protected=protected), layer


async def _enclose(
    sandbox: Sandbox, bounds: Bounds, call: ToolContext, *, network: AsyncExitStack, tree: SandboxTree
) -> Enclosure:
    refused: Mapping[str, str] = {}
    forward: tuple[str, ...] = ()
    if not isinstance(call.network, str):
        from lockstitch.tools.commands import domain_forward
        from lockstitch.tools.commands.domain_proxy import open_proxy

        proxy = await network.enter_async_context(
            open_proxy(call.network, folder=Path(tempfile.gettempdir()))
        )
        brought = {PROXY_SEEN: proxy.socket, FORWARDER_SEEN: Path(domain_forward.__file__)}
        bounds, refused = replace(bounds, brought=brought), proxy.refused
        forward = (PYTHON, "-I", "-S", FORWARDER_SEEN, "--socket", PROXY_SEEN, "--")
    shared = call.processes.shared_network(call.network) if call.processes else None
    if shared:  # asked for once: without its entrance these bounds would open the machine's own network
        bounds = replace(bounds, network=True)

    def before() -> tuple[str, ...]:
        program, *arguments = bubblewrap_arguments(sandbox, bounds)
        return (*(shared.entrance if shared else ()), program, *tree.options, *arguments, "--", *forward)

    return Enclosure(tree=tree, before=before, refused=refused)
