"""apply_patch: several files changed by one patch, all of it or nothing."""

from dataclasses import dataclass
from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.state.events import ChangeType
from lockstitch.tools.confined.joint_change import FileAction
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.output import clip_middle
from lockstitch.tools.paths import shown
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.changed_file import check_size
from lockstitch.tools.texts.diffs import FileChange, diff_preview, unified_diff
from lockstitch.tools.texts.patch_format import parse_patch
from lockstitch.tools.texts.patch_hunk import FilePatch
from lockstitch.tools.texts.patch_place import Patched, apply_hunks
from lockstitch.tools.texts.text_file import TextFile, decode_text

DONE: dict[ChangeType, str] = {
    "create": "Created",
    "modify": "Changed",
    "delete": "Deleted",
    "move": "Moved",
}


@dataclass(frozen=True, kw_only=True)
class _Planned:
    """One file's change, worked out and not yet made."""

    change: FileChange
    source: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def step(self) -> FileAction:
        """As the workspace makes it."""
        moved_only = self.source is not None and self.change.before == self.change.after
        return FileAction(
            path=self.change.path,
            data=None if moved_only else self.change.after,
            source=self.source,
            is_new=self.change.change_type == "create",
        )


@tool(extras={"effect": "edit"})
def apply_patch(
    patch: Annotated[str, Field(description="the whole patch, in one of the two formats", min_length=1)],
    call: CallContext,
) -> ToolResult:
    r"""Change several places or files at once by one patch: all of it is made, or nothing.

    Either *** Begin Patch ... *** End Patch with *** Add File: PATH, *** Update File: PATH (then perhaps
    *** Move to: PATH) and *** Delete File: PATH, where lines begin with a blank (kept), - or +, and
    @@ def name before a hunk says where it stands; or a unified diff. Give 3 lines around a change. For
    one text in one file use edit_file. Nothing that is there is overwritten by an added or moved file.
    Example: apply_patch(patch="*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch").
    """
    planned = [_plan(call, file) for file in _distinct(call, parse_patch(patch))]
    call.workspace.change_all([plan.step for plan in planned])
    for plan in planned:
        call.emit(diff_preview(plan.change, call_id=call.call_id))
    text = "\n".join(_told(plan) for plan in planned)
    return ToolResult(
        output=clip_middle(text, max_chars=call.settings.output_chars, spill=call.spill),
        data={"files": [_facts(plan) for plan in planned]},
    )


def _distinct(call: ToolContext, files: list[FilePatch]) -> list[FilePatch]:
    """The files, when no path is named twice."""
    seen: set[str] = set()
    for path in (path for file in files for path in (file.path, file.move_to) if path is not None):
        inside = call.workspace.relative(path)
        if inside in seen:
            raise ToolValidationError(
                f"the patch names {shown(inside)} twice: put all hunks of a file into one part."
            )
        seen.add(inside)
    return files


def _plan(call: ToolContext, file: FilePatch) -> _Planned:
    path = call.workspace.relative(file.path)
    match file.action:
        case "add":
            return _plan_add(call, file, path)
        case "delete":
            return _plan_delete(call, file, path)
        case "update":
            return _plan_update(call, file, path)


def _plan_add(call: ToolContext, file: FilePatch, path: str) -> _Planned:
    if call.workspace.entry(path) is not None:
        raise ToolExecutionError(
            f"{shown(path)} is there already: update it, or add the new file under another name."
        )
    after = TextFile(file.content).to_bytes()
    check_size(path, len(after), call)
    notes = (f"its mode {file.mode} was not set",) if file.mode.endswith("755") else ()
    return _Planned(change=FileChange(path=path, change_type="create", after=after), notes=notes)


def _plan_delete(call: ToolContext, file: FilePatch, path: str) -> _Planned:
    entry = call.workspace.entry(path)
    if entry is not None and entry.kind == "folder":
        raise ToolExecutionError(f"{shown(path)} is a folder: a patch deletes files alone, use delete_file.")
    before = None
    if entry is None or (entry.kind == "file" and entry.size <= call.settings.file_bytes):
        before = call.workspace.read_bytes(path, max_bytes=call.settings.file_bytes)
    if file.hunks and before is not None:
        left = apply_hunks(decode_text(before), file.hunks, path=shown(path)).text
        if left.strip():
            raise ToolExecutionError(f"the patch deletes {shown(path)}, which has lines it does not show.")
    return _Planned(change=FileChange(path=path, change_type="delete", before=before))


def _plan_update(call: ToolContext, file: FilePatch, path: str) -> _Planned:
    before = call.workspace.read_bytes(path, max_bytes=call.settings.file_bytes)
    after, patched = before, Patched("")
    if file.hunks:
        text = decode_text(before)
        patched = apply_hunks(text, file.hunks, path=shown(path))
        after = text.with_text(patched.text).to_bytes()
        check_size(path, len(after), call)
    if file.move_to is None:
        if after == before:
            raise ToolExecutionError(f"the patch leaves {shown(path)} as it is: nothing was changed.")
        change = FileChange(path=path, change_type="modify", before=before, after=after)
        return _Planned(change=change, notes=patched.notes)
    new = call.workspace.relative(file.move_to)
    if call.workspace.entry(new) is not None:
        raise ToolExecutionError(f"{shown(new)} is there already: move {shown(path)} to another name.")
    entry = call.workspace.entry(path)
    if entry is not None and entry.kind == "link":
        raise ToolExecutionError(f"{shown(path)} is a link: name the file that it leads to.")
    change = FileChange(path=new, change_type="move", before=before, after=after)
    return _Planned(change=change, source=path, notes=patched.notes)


def _told(plan: _Planned) -> str:
    change = plan.change
    name = shown(change.path) if plan.source is None else f"{shown(plan.source)} to {shown(change.path)}"
    notes = "".join(f" Note: {note}." for note in plan.notes)
    head = f"{DONE[change.change_type]} {name}.{notes}"
    return f"{head}\n{unified_diff(change)}".rstrip("\n") if change.change_type != "delete" else head


def _facts(plan: _Planned) -> dict[str, str]:
    facts = {"path": plan.change.path, "change_type": plan.change.change_type, **plan.change.hashes}
    return facts if plan.source is None else {**facts, "source": plan.source}
