"""What changed in a file, as an event for people and as a unified diff for the model."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import StringIO
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.events import AgentDiffPreview, ChangeType, DiffLine, DiffLineType
from lockstitch.tools.output import cut_note
from lockstitch.tools.texts.page import LINE_CHARS
from lockstitch.tools.texts.text_file import DEFAULT_ENCODING, TextFile, decode_text
from lockstitch.tools.texts.text_lines import common_ends

CONTEXT_LINES: Final = 3  # as diff -u
PREVIEW_LINES: Final = 400  # of one event: more is not looked through, and every door carries it
UNIFIED_LINES: Final = 100  # for the model, which wrote the new lines itself
MATCHED_LINES: Final = 2_000  # a side; difflib needs quadratic time, beyond it all is shown as replaced
_NO_NEWLINE: Final = "\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]  # difflib's: tag, lines of the old file, lines of the new


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """One file before and after, as bytes; None where there is no file, or its bytes are not known."""

    path: str
    change_type: ChangeType
    before: bytes | None = None
    after: bytes | None = None

    @property
    def hashes(self) -> dict[str, str]:
        """`original_hash` and `new_hash`: sha256 of the bytes in hex, empty for None."""
        return {"original_hash": hash_bytes(self.before), "new_hash": hash_bytes(self.after)}


def hash_bytes(data: bytes | None) -> str:
    """The sha256 in hex; empty for None."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def diff_preview(change: FileChange, *, call_id: str) -> AgentDiffPreview:
    """The event of a change: at most 400 lines, the last of which says so when there are more."""
    lines = [line for hunk in _hunks(change) for line in hunk.lines]
    if len(lines) > PREVIEW_LINES:
        note = _cut(PREVIEW_LINES - 1, len(lines), change.path)
        last = DiffLine(line_number=lines[PREVIEW_LINES - 1].line_number, type="context", content=note)
        lines = [*lines[: PREVIEW_LINES - 1], last]
    return AgentDiffPreview(
        call_id=call_id,
        file_path=change.path,
        change_type=change.change_type,
        diff_lines=lines,
        **change.hashes,
    )


def unified_diff(change: FileChange, *, max_lines: int = UNIFIED_LINES) -> str:
    """The change in the form of `diff -u`, cut after `max_lines`; empty when no line of text differs."""
    lines = list(_unified(change))
    if len(lines) <= max_lines:
        return "\n".join(lines)
    return "\n".join([*lines[:max_lines], _cut(max_lines, len(lines), change.path)])


def count_lines(change: FileChange) -> tuple[int, int] | None:
    """Added and removed lines; None where it has no lines to count."""
    try:
        decode_text(change.before or b"")
        decode_text(change.after or b"")
    except ToolExecutionError:
        return None
    types = [line.type for hunk in _hunks(change) for line in hunk.lines]
    return types.count("add"), types.count("remove")


def _cut(shown: int, total: int, path: str) -> str:
    return cut_note(
        shown=shown, total=total, unit="diff lines", rest=f"read_file with path={path!r} shows the file"
    )


@dataclass(frozen=True)
class _Hunk:
    """Changed lines with those around them; starts count from 0."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list[DiffLine]
    open_ends: frozenset[int]  # which of `lines` end a file without a newline

    @property
    def header(self) -> str:
        old = f"{self.old_start + bool(self.old_count)},{self.old_count}"
        return f"@@ -{old} +{self.new_start + bool(self.new_count)},{self.new_count} @@"


def _unified(change: FileChange) -> Iterator[str]:
    signs: dict[DiffLineType, str] = {"add": "+", "remove": "-", "context": " "}
    for count, hunk in enumerate(_hunks(change)):
        if count == 0:
            yield "--- /dev/null" if change.change_type == "create" else f"--- a/{change.path}"
            yield "+++ /dev/null" if change.change_type == "delete" else f"+++ b/{change.path}"
        yield hunk.header
        for at, line in enumerate(hunk.lines):
            yield signs[line.type] + line.content
            if at in hunk.open_ends:
                yield _NO_NEWLINE


def _hunks(change: FileChange) -> Iterator[_Hunk]:
    try:
        old = decode_text(change.before or b"")
        new = decode_text(change.after or b"", old.encoding if change.before else DEFAULT_ENCODING)
    except ToolExecutionError:  # binary: it has no lines to show
        return
    before, after = _lines(old), _lines(new)
    for group in line_groups(before, after):
        yield _hunk(group, before, after)


def _hunk(group: list[Opcode], old: list[str], new: list[str]) -> _Hunk:
    shown: list[tuple[DiffLineType, int, str]] = []
    for tag, old_from, old_to, new_from, new_to in group:
        if tag == "equal":
            shown += [("context", at, new[at]) for at in range(new_from, new_to)]
        else:
            shown += [("remove", at, old[at]) for at in range(old_from, old_to)]
            shown += [("add", at, new[at]) for at in range(new_from, new_to)]
    lines = [DiffLine(line_number=at + 1, type=kind, content=_content(line)) for kind, at, line in shown]
    open_ends = frozenset(at for at, (_, _, line) in enumerate(shown) if not line.endswith("\n"))
    _, old_from, _, new_from, _ = group[0]
    _, _, old_to, _, new_to = group[-1]
    return _Hunk(old_from, old_to - old_from, new_from, new_to - new_from, lines, open_ends)


def _content(line: str) -> str:
    text = line.removesuffix("\n")
    if len(text) <= LINE_CHARS:
        return text
    note = cut_note(
        shown=LINE_CHARS, total=len(text), unit="characters", rest="run_command shows such a line"
    )
    return f"{text[:LINE_CHARS]} {note}"


def _lines(file: TextFile) -> list[str]:
    r"""The lines with `\n`, however the file writes it; the last one without when it has none."""
    return StringIO(file.text.replace("\r\n", "\n"), newline="\n").readlines()


def line_groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """Difflib's opcodes of each hunk. Only what lies between the first and last difference is compared."""
    head, tail = common_ends(old, new)
    old_end, new_end = len(old) - tail, len(new) - tail
    if head == old_end == new_end:
        return
    if max(old_end, new_end) - head > MATCHED_LINES:
        changes = [("replace", head, old_end, head, new_end)]
    else:
        found = SequenceMatcher(None, old[head:old_end], new[head:new_end]).get_opcodes()
        changes = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in found]
    above, below = min(head, CONTEXT_LINES), min(tail, CONTEXT_LINES)
    # compared along with the rest, these could be found elsewhere, and a hunk would end before its context
    before = ("equal", head - above, head, head - above, head)
    after = ("equal", old_end, old_end + below, new_end, new_end + below)
    yield from _groups([*[before] * bool(above), *changes, *[after] * bool(below)])


def _groups(codes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """The opcodes, parted where more lines are equal than the context of two hunks."""
    group: list[Opcode] = []
    for tag, a, b, c, d in codes:
        if tag == "equal" and b - a > 2 * CONTEXT_LINES:
            yield [*group, (tag, a, a + CONTEXT_LINES, c, c + CONTEXT_LINES)]
            group = [(tag, b - CONTEXT_LINES, b, d - CONTEXT_LINES, d)]
        else:
            group.append((tag, a, b, c, d))
    yield group
