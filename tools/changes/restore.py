"""Taking a workspace's files to another state of the thread: sealed, made, and noted as one effect."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lockstitch.state.errors import AgentError, SystemFaultError, WorkspaceError
from lockstitch.state.home import explain_refusal
from lockstitch.state.journal import Effect, Journal
from lockstitch.state.tree_change import Change, inverse
from lockstitch.tools.confined.apply import Conflict, apply
from lockstitch.tools.confined.confinement import FOLDER
from lockstitch.tools.confined.file_source import KeptBytes


def restore(journal: Journal, effect: Effect, root: int) -> list[Conflict]:
    """Seal an effect of what `look_ahead` found ready, make it below `root`, and note that it is made.

    What somebody changes in that very moment is left, and told. The caller holds the thread's lock. Killed
    behind the seal, the effect is finished by `recover`; failed, it is taken back.

    Raises:
        SystemFaultError: a content is not kept any more, or the disk failed; the files are as they were, or
            will be finished later where even that failed.
    """
    _check_kept(journal, effect.changes)
    journal.seal(effect)
    source = KeptBytes(journal.objects.pieces)
    try:
        left = apply(root, effect.changes, source)
    except (OSError, AgentError) as error:
        with contextlib.suppress(OSError, AgentError):
            apply(root, inverse(effect.changes), source)
            journal.void(effect.id)
        raise SystemFaultError(f"the files could not be restored: {_why(error)}") from error
    journal.finish(effect.id)
    return left


@contextlib.contextmanager
def open_root(workspace: Path) -> Iterator[int]:
    """The folder's descriptor.

    Raises:
        WorkspaceError: it is missing, no folder, or may not be read.
    """
    try:
        root = os.open(workspace, FOLDER)
    except OSError as error:
        raise WorkspaceError(
            f"the thread's folder {workspace} cannot be opened ({(error.strerror or '').lower()}). "
            "If it was moved, name its new place with --workspace."
        ) from error
    try:
        yield root
    finally:
        os.close(root)


def _check_kept(journal: Journal, changes: tuple[Change, ...]) -> None:
    for change in changes:
        after = change.after
        if after and after.kind == "file" and not journal.objects.has(after.digest):
            raise SystemFaultError(
                f"the content of {change.path!r} at that step is not kept any more, so nothing was "
                "restored. Run `lockstitch doctor`."
            )


def _why(error: OSError | AgentError) -> str:
    if isinstance(error, AgentError):
        return error.message
    return f"the folder {explain_refusal(error)}. Mend that and try again."
