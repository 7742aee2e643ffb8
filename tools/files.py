"""The file tools: read, write, list, move, delete; all through the workspace."""

import codecs
from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.spill import SPILL_PREFIX
from lockstitch.tools.confined.listing import list_entries, render_listing
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.output import clip_middle
from lockstitch.tools.paths import PATH_CHARS, FilePath, shown
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.changed_file import store_file
from lockstitch.tools.texts.diffs import FileChange, diff_preview, hash_bytes
from lockstitch.tools.texts.page import build_page, fold_lines
from lockstitch.tools.texts.text_file import DEFAULT_ENCODING, TextFile, decode_text, split_lines, to_newlines

LINES_MAX = 50_000  # of one read_file, as promised; output_chars is met long before
DEPTH_MAX = 32  # folders below each other; deeper trees are generated


@tool(extras={"effect": "read"})
def read_file(
    path: Annotated[
        str, Field(description="relative to the workspace, or spill:ID", min_length=1, max_length=PATH_CHARS)
    ],
    call: CallContext,
    *,
    offset: Annotated[int, Field(description="first line, counted from 1", ge=1)] = 1,
    limit: Annotated[int | None, Field(description="most lines; 500 if left out", ge=1, le=LINES_MAX)] = None,
    encoding: Annotated[str, Field(description="tried first", max_length=40)] = DEFAULT_ENCODING,
) -> ToolResult:
    """Read a text file: numbered lines, and how to get the rest when there are more.

    Read a file before you edit it. Not for searching many files (grep_files) or binary files
    (run_command). The number and the tab before a line are not part of the file. What was cut, such as
    the end of a line over 2,000 characters, is read by the name spill:ID that stands where it was cut.
    Example: read_file(path="src/app.py", offset=120, limit=60).
    """
    if path.startswith(SPILL_PREFIX):
        lines = fold_lines(split_lines(call.spill.read(path.removeprefix(SPILL_PREFIX))))
        note, data = "", {"path": path}
    else:
        raw = call.workspace.read_bytes(path, max_bytes=call.settings.file_bytes)
        text = decode_text(raw, encoding)
        lines, note = split_lines(text.text), _encoding_note(text, encoding)
        data = {"path": call.workspace.relative(path), "encoding": text.encoding, "hash": hash_bytes(raw)}
    most = limit or call.settings.read_lines
    page = build_page(
        lines, offset=offset, limit=most, max_chars=call.settings.output_chars, spill=call.spill
    )
    where = {"first_line": page.first, "last_line": page.last, "lines": page.total}
    return ToolResult(output=note + page.text, data={**data, **where})


@tool(extras={"effect": "edit"})
def write_file(
    path: FilePath,
    content: Annotated[str, Field(description="the whole new content")],
    call: CallContext,
    *,
    create_dirs: Annotated[bool, Field(description="make the folders that are missing")] = True,
) -> ToolResult:
    r"""Create a file, or replace all of an existing one, and show what changed.

    For a new file or a full rewrite; to change a part of a file use edit_file. Up to 10 MB. An existing
    file keeps its mode, encoding, newline style and, where it has none, its missing final newline.
    Example: write_file(path="src/hello.py", content="print('hello')\n").
    """
    before = call.workspace.read_bytes_or_none(path, max_bytes=call.settings.file_bytes)
    after, note = _written_like(before, content)
    return store_file(call, path, before=before, after=after, note=note, create_dirs=create_dirs)


@tool(extras={"effect": "read"})
def list_directory(
    call: CallContext,
    *,
    path: Annotated[str, Field(description="a folder", max_length=PATH_CHARS)] = ".",
    recursive: Annotated[bool, Field(description="also the folders below")] = False,
    max_depth: Annotated[int, Field(description="how deep, when recursive", ge=1, le=DEPTH_MAX)] = 2,
    pattern: Annotated[
        str | None, Field(description="glob such as *.py or src/**/*.py", max_length=200)
    ] = None,
) -> ToolResult:
    """List a folder: kind, size in bytes and path of each entry; the first 200, and how to read the rest.

    To learn how a project is laid out, or to find files by name. For text in files use grep_files. A
    pattern with a / is held against the path below the folder and needs recursive. Shown is what there
    is, whatever .gitignore names; folders such as .git and node_modules are shown and not entered.
    Example: list_directory(path="src", recursive=true, max_depth=3, pattern="*.py").
    """
    inside = call.workspace.relative(path)
    listing = list_entries(
        call.workspace.entries,
        inside,
        pattern=pattern,
        depth=max_depth if recursive else 1,
        limit=call.settings.list_entries,
    )
    text = render_listing(listing, spill=call.spill)
    entries = [
        {**entry._asdict(), "path": shown(entry.path), "name": shown(entry.name)} for entry in listing.entries
    ]
    return ToolResult(
        output=clip_middle(text, max_chars=call.settings.output_chars, spill=call.spill),
        data={"path": inside, "entries": entries, "total": listing.total},
    )


@tool(extras={"effect": "edit"})
def move_file(source: FilePath, destination: FilePath, call: CallContext) -> ToolResult:
    """Move or rename a file, link or folder; missing folders of the destination are made.

    The destination is the full new path and must be free: nothing is overwritten. Not for anything in
    .git (use git mv by run_command for a history).
    Example: move_file(source="src/util.py", destination="src/text/words.py").
    """
    content = _content(call, source)
    call.workspace.move(source, destination, create_dirs=True)
    old, new = call.workspace.relative(source), call.workspace.relative(destination)
    change = FileChange(path=new, change_type="move", before=content, after=content)
    call.emit(diff_preview(change, call_id=call.call_id))
    return ToolResult(
        output=f"Moved {shown(old)} to {shown(new)}.", data={"path": new, "source": old, **change.hashes}
    )


@tool(extras={"effect": "delete"})
def delete_file(path: FilePath, call: CallContext) -> ToolResult:
    """Delete a file, a link (not what it leads to), or a folder with all that is in it.

    Only when the person asked for it or it is part of the work; it can be brought back by a rewind. Not
    for anything in .git. Example: delete_file(path="src/unused.py").
    """
    content = _content(call, path)
    call.workspace.delete(path)
    inside = call.workspace.relative(path)
    change = FileChange(path=inside, change_type="delete", before=content)
    call.emit(diff_preview(change, call_id=call.call_id))
    return ToolResult(output=f"Deleted {shown(inside)}.", data={"path": inside, **change.hashes})


def _written_like(before: bytes | None, content: str) -> tuple[bytes, str]:
    """The content as bytes in the style of the file that is there, and a note on what could not be kept."""
    old = _text_or_none(before)
    if old is None:
        return TextFile(content).to_bytes(), ""
    text = to_newlines(content, old.newline) if split_lines(old.text)[1:] else content
    if old.ends_open:
        text = text.removesuffix(old.newline)
    try:
        return old.with_text(text).to_bytes(), ""
    except ToolExecutionError:
        note = (
            f" It was {old.encoding}, which lacks a character of this content, and now is {DEFAULT_ENCODING}."
        )
        return TextFile(text).to_bytes(), note


def _text_or_none(data: bytes | None) -> TextFile | None:
    try:
        return None if data is None else decode_text(data)
    except ToolExecutionError:  # binary: it has no style to keep
        return None


def _encoding_note(text: TextFile, wanted: str) -> str:
    """Say which encoding it is when it is not the wanted one."""
    if text.encoding == codecs.lookup(wanted).name:
        return ""
    guessed = f"since it is no valid {wanted}; set encoding if it looks wrong"
    why = "by its byte order mark" if text.mark else guessed
    return f"[read as {text.encoding}, {why}]\n"


def _content(call: ToolContext, path: str) -> bytes | None:
    """A regular file's bytes, for the preview; None when it is something else or too large."""
    entry = call.workspace.entry(path)
    if entry is None or entry.kind != "file" or entry.size > call.settings.file_bytes:
        return None
    return call.workspace.read_bytes_or_none(path, max_bytes=call.settings.file_bytes)
