"""What a patch says of one file, whatever format it was written in."""

from dataclasses import dataclass
from typing import Literal

PatchAction = Literal["add", "update", "delete"]
Sign = Literal[" ", "-", "+"]


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """One change of a file: lines with their signs, and what narrows down where they stand.

    Attributes:
        lines: sign and content without newline, in order.
        anchors: lines that stand before it, from the outermost to the nearest.
        line: the first of its lines in the file as it was, from 1; None when the patch does not say.
        at_end: the patch says that its last line is the file's last.
        old_open: the file's last line, which is in it, had no newline.
        new_open: the same of the file as it will be.
    """

    lines: tuple[tuple[Sign, str], ...]
    anchors: tuple[str, ...] = ()
    line: int | None = None
    at_end: bool = False
    old_open: bool = False
    new_open: bool = False

    @property
    def old(self) -> list[str]:
        """The lines it finds: kept and removed ones."""
        return [content for sign, content in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines it leaves: kept and added ones."""
        return [content for sign, content in self.lines if sign != "-"]


@dataclass(frozen=True, kw_only=True)
class FilePatch:
    """All that a patch does to one file.

    Attributes:
        path: as the patch has it; of an `add` the new file.
        content: of an `add`, with newlines as the patch has them.
        move_to: the new path of an `update`, or None.
        mode: of an added file, as git writes it (`100755`); empty when the patch does not say.
    """

    action: PatchAction
    path: str
    content: str = ""
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None
    mode: str = ""
