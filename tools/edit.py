"""edit_file: one text in a file replaced by another."""

from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.context import CallContext
from lockstitch.tools.paths import FilePath
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.changed_file import store_file
from lockstitch.tools.texts.fitting import fit_all
from lockstitch.tools.texts.matching import Place, find_places, lines_of
from lockstitch.tools.texts.nearest import show_candidates
from lockstitch.tools.texts.text_file import decode_text


@tool(extras={"effect": "edit"})
def edit_file(
    path: FilePath,
    old_text: Annotated[str, Field(description="copied exactly, without line numbers", min_length=1)],
    new_text: Annotated[str, Field(description="what takes its place; empty deletes it")],
    call: CallContext,
    *,
    replace_all: Annotated[bool, Field(description="replace every place, not only one")] = False,
) -> ToolResult:
    """Replace one text in a file by another and show what changed.

    old_text must stand in the file exactly once, indents included: copy it from read_file with a few
    lines around it, or set replace_all. Newline style and encoding are kept. When it does not match, the
    answer shows the nearest lines. For a new file use write_file.
    Example: edit_file(path="src/app.py", old_text="retries = 1", new_text="retries = 3").
    """
    if old_text == new_text:
        raise ToolValidationError("old_text and new_text are the same: nothing would change.")
    before = call.workspace.read_bytes(path, max_bytes=call.settings.file_bytes)
    file = decode_text(before)
    places = find_places(file.text, old_text)
    _check_places(places, file.text, old_text, replace_all=replace_all)
    fitted = fit_all(file.text, places, old=old_text, new=new_text)
    note = f" Matched although {fitted.although}." if fitted.differences else ""
    after = file.with_text(fitted.text).to_bytes()
    return store_file(call, path, before=before, after=after, note=note, create_dirs=False)


def _check_places(places: list[Place], text: str, old_text: str, *, replace_all: bool) -> None:
    if not places:
        raise ToolExecutionError(f"old_text is not in the file. {show_candidates(text, old_text)}")
    if len(places) > 1 and not replace_all:
        how = "" if places[0].level == "exact" else f", when read without regard to {places[0].level}"
        raise ToolExecutionError(
            f"old_text is in the file {len(places)} times{how}, on lines {lines_of(places)}. Add the lines "
            "around the one you mean, or set replace_all."
        )
