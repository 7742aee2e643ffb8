"""A changed file: written through the workspace, and shown to the person and the model."""

from lockstitch.state.errors import ResourceLimitError
from lockstitch.tools.context import ToolContext
from lockstitch.tools.output import clip_middle
from lockstitch.tools.paths import shown
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.diffs import FileChange, diff_preview, unified_diff
from lockstitch.tools.texts.text_file import decode_text, split_lines


def store_file(
    call: ToolContext, path: str, *, before: bytes | None, after: bytes, note: str, create_dirs: bool
) -> ToolResult:
    """Write the file, report the change, and show it to the model.

    Args:
        call: of the tool.
        path: as the model wrote it.
        before: what is there; None for a new file.
        after: what will be there.
        note: follows the first line of the answer; begins with a space, or is empty.
        create_dirs: make the folders that are missing.

    Raises:
        ResourceLimitError: it is larger than the settings allow.
    """
    change = FileChange(
        path=call.workspace.relative(path),
        change_type="create" if before is None else "modify",
        before=before,
        after=after,
    )
    check_size(change.path, len(after), call)
    lines = len(split_lines(decode_text(after).text))
    data = {"path": change.path, "change_type": change.change_type, "lines": lines, **change.hashes}
    if before == after:
        return ToolResult(
            output=f"{shown(change.path)} has this content already: nothing was changed.", data=data
        )
    call.workspace.write_bytes(path, after, create_dirs=create_dirs)
    call.emit(diff_preview(change, call_id=call.call_id))
    done = "Created" if before is None else "Changed"
    head = f"{done} {shown(change.path)}: {lines} lines, {len(after)} bytes.{note}"
    text = f"{head}\n{unified_diff(change)}".rstrip("\n")
    return ToolResult(
        output=clip_middle(text, max_chars=call.settings.output_chars, spill=call.spill), data=data
    )


def check_size(path: str, size: int, call: ToolContext) -> None:
    """Refuse a file of `size` bytes that we could not read again.

    Raises:
        ResourceLimitError: it is larger than the settings allow.
    """
    if size > call.settings.file_bytes:
        raise ResourceLimitError(
            f"{shown(path)} would have {size} bytes, the limit is {call.settings.file_bytes}: split it."
        )
