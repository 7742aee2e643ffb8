"""What a command changed and a person has not said yes to: shown as a diff, and kept or thrown away later.

Until then it lies in its layer on the disk, whoever dies meanwhile.
"""

from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.run_state import Pending, Shown
from lockstitch.tools.changes.commit import Effects, commit, find_effects, read_changes
from lockstitch.tools.changes.shown_changes import digest_of_changes, show_changes
from lockstitch.tools.changes.transaction import Layer, reopen_layer
from lockstitch.tools.context import ToolContext
from lockstitch.tools.paths import ROOT
from lockstitch.tools.result import ToolResult

GONE: Final = "what the command changed is gone, so nothing of it was kept: run it again."


def hold(effects: Effects, layer: Layer, root: int, *, told: str, owner: str) -> tuple[Pending, Shown]:
    """Leave the layer on the disk, and give what a person is asked about.

    Args:
        effects: as `find_effects` gave them.
        layer: that holds them.
        root: the workspace's descriptor.
        told: to the model, once they are kept.
        owner: the thread that asks.
    """
    layer.keep(owner)
    seen = show_changes(effects.real, read_changes(effects, layer, root))
    return Pending(layer=str(layer.folder), told=told), seen


def keep_held(pending: Pending, digest: str, call: ToolContext) -> ToolResult:
    """Make what was shown true in the workspace, now that a person has said yes. Waits for the disk.

    Args:
        pending: as `hold` gave it.
        digest: of what was shown.
        call: of the tool.

    Raises:
        ToolExecutionError: it is gone, or something else than what was shown; nothing is changed.
    """
    assert call.journal is not None
    with _reopened(pending, call) as layer, call.workspace.open_folder(ROOT) as root:
        effects = find_effects(layer, root, call.is_denied)
        if not effects.remarks and digest_of_changes(effects.real) != digest:
            layer.discard()
            raise ToolExecutionError("the command's changes are not those that were shown: run it again.")
        left = commit(effects, layer, root, call.journal, result=pending["told"])
        layer.discard()
    news = [words for words in (*effects.remarks, *left) if words not in pending["told"]]
    return ToolResult(output=pending["told"] + "".join(f"\n[{words}]" for words in news))


def drop_held(pending: Pending, workspace: Path) -> None:
    """Throw it away; where it is gone already, nothing happens. Waits for the disk."""
    try:
        layer = reopen_layer(Path(pending["layer"]), workspace)
    except ToolExecutionError:
        return
    with layer:
        layer.discard()


def _reopened(pending: Pending, call: ToolContext) -> Layer:
    try:
        return reopen_layer(Path(pending["layer"]), call.workspace.root)
    except ToolExecutionError as error:
        raise ToolExecutionError(GONE) from error
