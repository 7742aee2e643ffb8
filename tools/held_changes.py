"""What a command changed and a person has not said yes to: shown as a diff, and kept or thrown away later.

Until then it lies in its layer on the disk, whoever dies meanwhile.
"""

import hashlib
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.run_state import Pending, PendingChange
from lockstitch.state.tree_change import Change, to_json
from lockstitch.tools.call_journal import letter_of
from lockstitch.tools.commit import Effects, commit, find_effects, read_changes
from lockstitch.tools.context import ToolContext
from lockstitch.tools.diffs import FileChange, count_lines, unified_diff
from lockstitch.tools.output import cut_note
from lockstitch.tools.paths import ROOT, shown
from lockstitch.tools.result import ToolResult
from lockstitch.tools.transaction import Layer, reopen_layer

CHANGES_SHOWN: Final = 50  # a screen; the diff goes on where it has room
DIFF_CHARS: Final = 20_000  # of all files together: it lies in the checkpoint, and a person reads it
GONE: Final = "what the command changed is gone, so nothing of it was kept: run it again."


def hold(effects: Effects, layer: Layer, root: int, *, told: str, owner: str) -> Pending:
    """Leave the layer on the disk, and give what a person is asked about.

    Args:
        effects: as `find_effects` gave them.
        layer: that holds them.
        root: the workspace's descriptor.
        told: to the model, once they are kept.
        owner: the thread that asks.
    """
    files = {file.path: file for file in read_changes(effects, layer, root)}
    layer.keep(owner)
    return Pending(
        layer=str(layer.folder),
        told=told,
        changes=[_told(change, files) for change in effects.real[:CHANGES_SHOWN]],
        total=len(effects.real),
        diff=_diff(list(files.values())),
        digest=_digest(effects.real),
    )


def keep_held(pending: Pending, call: ToolContext) -> ToolResult:
    """Make what was shown true in the workspace, now that a person has said yes. Waits for the disk.

    Raises:
        ToolExecutionError: it is gone, or something else than what was shown; nothing is changed.
    """
    assert call.journal is not None
    with _reopened(pending, call) as layer, call.workspace.open_folder(ROOT) as root:
        effects = find_effects(layer, root, call.may_not_change)
        if not effects.remarks and _digest(effects.real) != pending["digest"]:
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


def _told(change: Change, files: dict[str, FileChange]) -> PendingChange:
    counts = count_lines(files[change.path]) if change.path in files else None
    added, removed = counts if counts else (None, None)
    return PendingChange(path=shown(change.path), change=letter_of(change), added=added, removed=removed)


def _diff(files: list[FileChange]) -> str:
    text = ""
    for at, file in enumerate(files):
        more = unified_diff(file)
        if len(text) + len(more) > DIFF_CHARS:
            note = cut_note(shown=at, total=len(files), unit="files", rest="the workspace will have the rest")
            return f"{text}{note}"
        text += f"{more}\n" if more else ""
    return text


def _digest(changes: list[Change]) -> str:
    return hashlib.sha256(to_json(changes).encode("ascii")).hexdigest()
