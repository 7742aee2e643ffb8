"""Changes as a person is shown them before they say yes: the files with their lines, and one diff."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from lockstitch.state.events import ChangeType
from lockstitch.state.run_state import PendingChange, Shown
from lockstitch.state.tree_change import Change, to_json
from lockstitch.tools.changes.call_journal import letter_of
from lockstitch.tools.output import cut_note
from lockstitch.tools.paths import shown
from lockstitch.tools.texts.diffs import FileChange, count_lines, unified_diff

SHOWN_BYTES: Final = 256 * 1024  # of a file that is shown: what is larger was made by a program
CHANGES_SHOWN: Final = 50  # a screen; the diff goes on where it has room
DIFF_CHARS: Final = 20_000  # of all files together: it lies in the checkpoint, and a person reads it


def show_changes(changes: Sequence[Change], files: Iterable[FileChange]) -> Shown:
    """The changes in short; `files` are those of them whose bytes are known."""
    known = {file.path: file for file in files}
    return Shown(
        changes=[_told(change, known.get(change.path)) for change in changes[:CHANGES_SHOWN]],
        total=len(changes),
        diff=_diff(list(known.values())),
        digest=digest_of_changes(changes),
    )


def digest_of_changes(changes: Sequence[Change]) -> str:
    """The sha256 in hex of every path with its nodes before and after."""
    return hashlib.sha256(to_json(changes).encode("ascii")).hexdigest()


def kind_of(change: Change) -> ChangeType:
    """The kind of the change as events name it."""
    if change.before is None:
        return "create"
    return "modify" if change.after else "delete"


def _told(change: Change, file: FileChange | None) -> PendingChange:
    counts = count_lines(file) if file else None
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
