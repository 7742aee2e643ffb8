"""The `*** Begin Patch` envelope: Add File, Update File with `@@` anchors, Move to, Delete File."""

import re
from collections import deque
from typing import Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.texts.patch_hunk import FilePatch, Hunk, Sign

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
ADD: Final = "*** Add File:"
UPDATE: Final = "*** Update File:"
DELETE: Final = "*** Delete File:"
HEADERS: Final = (ADD, UPDATE, DELETE)
MOVE: Final = "*** Move to:"
END_OF_FILE: Final = "*** End of File"
NO_NEWLINE: Final = "\\ "  # begins `\ No newline at end of file`, in whatever language
_NUMBERED: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_SHOWN_CHARS: Final = 60  # of a line of the patch in an error


class _Lines:
    """The lines still to read, and the number of the next one from 1."""

    def __init__(self, lines: list[str]) -> None:
        self._left = deque(lines)
        self.number = 1

    @property
    def next(self) -> str | None:
        """The next line, not taken; None at the end."""
        return self._left[0] if self._left else None

    def take(self) -> str:
        """The next line; it is gone then."""
        self.number += 1
        return self._left.popleft()


def parse_envelope(lines: list[str]) -> list[FilePatch]:
    """The files of an envelope. What stands before its begin or after its end is no part of it.

    Args:
        lines: of the whole text, without newlines.

    Raises:
        ToolValidationError: it is cut off, or a line is none of the format; the message has its number.
    """
    last = next((at for at in reversed(range(len(lines))) if lines[at].strip() == END), None)
    if last is None:
        raise ToolValidationError(f"the patch has no {END!r} line, so it may be cut off: send it whole.")
    left = _Lines(lines[:last])
    if any(line.strip() == BEGIN for line in lines[:last]):
        while left.take().strip() != BEGIN:
            pass
    files: list[FilePatch] = []
    while left.next is not None:
        line = left.take().strip()
        if line.startswith(HEADERS):
            files.append(_file(line, left))
        elif line not in {"", BEGIN, END}:
            raise _unexpected(left.number - 1, line, "a line such as '*** Update File: path'")
    return files


def _file(header: str, left: _Lines) -> FilePatch:
    path = header.partition(":")[2].strip()
    if not path:
        raise ToolValidationError(f"line {left.number - 1} of the patch names no file: {header!r}.")
    if header.startswith(ADD):
        return FilePatch(action="add", path=path, content=_content(left))
    if header.startswith(DELETE):
        return FilePatch(action="delete", path=path)
    move_to = None
    if left.next is not None and left.next.strip().startswith(MOVE):
        move_to = left.take().partition(":")[2].strip()
    hunks = _hunks(left)
    if not hunks and not move_to:
        raise ToolValidationError(f"the patch changes nothing in {path}: give it lines with - or +.")
    return FilePatch(action="update", path=path, hunks=tuple(hunks), move_to=move_to or None)


def _content(left: _Lines) -> str:
    """Of an added file; an empty line without its `+` counts when more of them follow."""
    lines: list[str] = []
    blank = 0
    while left.next is not None and not left.next.strip().startswith("***"):
        line = left.take()
        if line.startswith("+"):
            lines += [""] * blank + [line[1:]]
            blank = 0
        elif line.startswith(NO_NEWLINE):
            return "\n".join(lines)
        elif line.strip():
            raise _unexpected(left.number - 1, line, "lines of an added file that begin with +")
        else:
            blank += 1
    return "".join(f"{line}\n" for line in lines)


def _hunks(left: _Lines) -> list[Hunk]:
    hunks: list[Hunk] = []
    while left.next is not None and not _ends_file(left.next):
        if not left.next.strip():
            left.take()
            continue
        began = left.number
        anchors, line = _anchors(left)
        hunk = _hunk(left, anchors, line)
        if not any(sign != " " for sign, _ in hunk.lines):
            raise ToolValidationError(f"the hunk on line {began} of the patch has no line with - or +.")
        hunks.append(hunk)
    return hunks


def _ends_file(line: str) -> bool:
    return line.startswith("***") and line.strip() != END_OF_FILE


def _anchors(left: _Lines) -> tuple[tuple[str, ...], int | None]:
    anchors: list[str] = []
    number = None
    while left.next is not None and left.next.startswith("@@"):
        line = left.take().rstrip()
        numbered = _NUMBERED.match(line)
        if numbered:
            number = int(numbered[1])
        elif anchor := line.removeprefix("@@").removesuffix("@@").strip():
            anchors.append(anchor)
    return tuple(anchors), number


def _hunk(left: _Lines, anchors: tuple[str, ...], number: int | None) -> Hunk:
    lines: list[tuple[Sign, str]] = []
    at_end = False
    opens = {"-": False, "+": False}
    while left.next is not None and not left.next.startswith("@@") and not _ends_file(left.next):
        line = left.take()
        if line.strip() == END_OF_FILE:
            at_end = True
            break
        if line.startswith(NO_NEWLINE):
            opens |= dict.fromkeys(_open_sides(lines), True)
            continue
        lines.append(_signed(line, left.number - 1))
    while lines and lines[-1] == (" ", "") and not at_end:  # an empty line parts sections, too
        lines.pop()
    return Hunk(
        lines=tuple(lines),
        anchors=anchors,
        line=number,
        at_end=at_end,
        old_open=opens["-"],
        new_open=opens["+"],
    )


def _open_sides(lines: list[tuple[Sign, str]]) -> str:
    sign = lines[-1][0] if lines else " "
    return "-+" if sign == " " else sign


def _signed(line: str, number: int) -> tuple[Sign, str]:
    sign = line[:1] or " "  # an empty line is one of context whose blank was lost
    if sign not in {" ", "-", "+"}:
        raise _unexpected(number, line, "lines that begin with a blank, - or +")
    return sign, line[1:]  # type: ignore[return-value]


def _unexpected(number: int, line: str, wanted: str) -> ToolValidationError:
    return ToolValidationError(
        f"line {number} of the patch is {line[:_SHOWN_CHARS]!r}, where the format has {wanted}."
    )
