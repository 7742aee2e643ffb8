"""What a door asks of a thread's past, and what it is answered: rewinds, undos and redos."""

import hashlib
from dataclasses import dataclass
from typing import Final

from lockstitch.state.errors import UsageError
from lockstitch.studio.file_deltas import FileDelta
from lockstitch.studio.timeline import Move, MoveKind, Place, What
from lockstitch.tools.paths import shown

NAMED_MAX: Final = 10  # conflicts in an error; the preview has them all


class FilesChangedError(UsageError):
    """Somebody else changed files since; nothing was touched. `paths` has all of them."""

    def __init__(self, message: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.paths = paths


class MovedOnError(UsageError):
    """The move is not the one a person was shown, or the thread went on since; nothing was touched."""


@dataclass(frozen=True, kw_only=True)
class MoveRequest:
    """One rewind, undo or redo.

    Attributes:
        to: the step to rewind to; None for undo and redo.
        what: what a rewind takes back; undo and redo take back what the move or step before did.
        keep_changed: leave files that somebody else changed as they are, and restore the others.
        workspace: where the thread's folder is now, if it was moved.
        seen: the `token` of the preview a person said yes to; refused if the thread went on since.
        holder: named to others who find the thread busy.
    """

    thread_id: str
    kind: MoveKind = "rewind"
    to: int | None = None
    what: What = "both"
    keep_changed: bool = False
    workspace: str | None = None
    seen: str = ""
    holder: str = "lockstitch rewind"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a move would do.

    Attributes:
        step: the last step afterwards; of `what="files"` the one whose files come.
        from_step: the last step now.
        messages_gone: messages that leave the conversation; they stay in the branch that is left.
        files: what would change on the disk.
        conflicts: paths that somebody else changed: the move is refused unless they are to be kept.
        staying: folders that would go but hold files of somebody else.
        warnings: sentences for the person.
        token: names the move, and the thread's state that was looked at.
    """

    thread_id: str
    kind: MoveKind
    what: What
    step: int
    from_step: int
    messages_gone: int
    files: tuple[FileDelta, ...]
    conflicts: tuple[str, ...]
    staying: tuple[str, ...]
    warnings: tuple[str, ...]
    token: str


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What a move did.

    Attributes:
        preview: as it was made.
        left: paths that were left as they are: conflicts that were kept, and what changed in that moment.
    """

    preview: Preview
    left: tuple[str, ...]


def token_of(here: Place, target: Place, move: Move) -> str:
    """Names one move of one state of the thread: of the next state, or of another move, it is another."""
    named = [*here, *target, move.kind, move.what, str(move.step)]
    return hashlib.sha256("\0".join(named).encode()).hexdigest()


def check_seen(request: MoveRequest, preview: Preview) -> None:
    """Refuse a move that is not what the person said yes to, or would overwrite another's work.

    Raises:
        FilesChangedError: somebody else changed files, and they are not to be kept.
        MovedOnError: the thread went on since it was shown.
    """
    if request.seen and request.seen != preview.token:
        raise MovedOnError("the thread went on since this was shown, so nothing was changed: look again.")
    if preview.conflicts and not request.keep_changed:
        named = ", ".join(shown(path) for path in preview.conflicts[:NAMED_MAX])
        more = len(preview.conflicts) - NAMED_MAX
        raise FilesChangedError(
            f"somebody else changed since: {named}{f' and {more} more' if more > 0 else ''}. Nothing was "
            "touched. Add --keep-changed to leave these as they are and take back the rest.",
            preview.conflicts,
        )
