"""What `rewind`, `undo` and `redo` have in common at the command line: shown, asked about, then made."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.confirm import confirm
from lockstitch.studio.file_deltas import FileDelta
from lockstitch.studio.move_request import Moved, MoveRequest, Preview
from lockstitch.studio.service import open_service
from lockstitch.studio.terminal import person_is_here, write_json
from lockstitch.studio.visible import make_visible, one_line

PATHS_SHOWN: Final = 50  # two screens; --json has them all
LINE_CHARS: Final = 76  # beside an indent of 2 within 80 columns

Function = TypeVar("Function", bound=Callable[..., Any])


def absolute(ctx: click.Context, param: click.Parameter, value: Path | None) -> str | None:  # noqa: ARG001  click's signature
    """The folder that an option names."""
    return str(value.expanduser().absolute()) if value else None


_OPTIONS: Final = (
    click.option(
        "--keep-changed", is_flag=True, help="Leave files that somebody else changed; take back the rest."
    ),
    click.option(
        "--workspace",
        type=click.Path(path_type=Path),
        callback=absolute,
        help="Where the thread's folder is now, if it was moved.",
    ),
    click.option("--dry-run", is_flag=True, help="Only show what would change."),
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--json", "as_json", is_flag=True, help="Write one JSON object."),
)


def move_options(function: Function) -> Function:
    """Add the shared options to a command's function."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def run_move(home: Path | None, request: MoveRequest, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show what the move would do, ask, and make it.

    Raises:
        FilesChangedError: somebody else changed files, and nobody said that they are to be kept.
        UsageError: nobody is here who could be asked, and `yes` was not given; or as `Stitches.move`.
    """
    settings = load_settings(home=home)
    preview = asyncio.run(_preview(settings, request))
    if not as_json:
        for line in preview_lines(preview):
            click.echo(line)
    if dry_run:
        if as_json:
            write_json(asdict(preview))
        return
    if preview.conflicts and not request.keep_changed and not yes and person_is_here():
        question = "Leave what somebody else changed as it is, and take back the rest?"
        request = replace(request, keep_changed=confirm(question, yes=False))
    elif not (preview.conflicts and not request.keep_changed) and not confirm("Do it?", yes=yes):
        click.echo("Nothing was changed.")
        return
    moved = asyncio.run(_move(settings, replace(request, seen=preview.token)))
    if as_json:
        write_json(asdict(moved))
    else:
        _tell(moved)


async def _preview(settings: Settings, request: MoveRequest) -> Preview:
    async with open_service(settings) as service:
        return await service.stitches.preview(request)


async def _move(settings: Settings, request: MoveRequest) -> Moved:
    async with open_service(settings) as service:
        return await service.stitches.move(request)


def preview_lines(preview: Preview) -> Iterator[str]:
    """The preview for a terminal: where it leads, each file, and what to know."""
    yield _heading(preview)
    for delta in preview.files[:PATHS_SHOWN]:
        yield f"  {delta_line(delta)}"
    if len(preview.files) > PATHS_SHOWN:
        yield f"  and {len(preview.files) - PATHS_SHOWN} more"
    if not preview.files and preview.what != "conversation":
        yield "  no file changes"
    if preview.messages_gone:
        verb = "leaves" if preview.messages_gone == 1 else "leave"
        yield f"  {_count(preview.messages_gone, 'message')} {verb} the conversation"
    for path in preview.conflicts:
        yield f"  ! {one_line(path, max_chars=LINE_CHARS)}: somebody else changed it since; it stays as it is"
    for path in preview.staying:
        yield f"  ! {one_line(path, max_chars=LINE_CHARS)}: the folder stays, it holds what others put there"
    for warning in preview.warnings:
        yield f"  ! {make_visible(warning)}"


def _heading(preview: Preview) -> str:
    parts = {"both": "", "files": " (files only)", "conversation": " (conversation only)"}
    return f"{preview.kind}: step {preview.from_step} -> step {preview.step}{parts[preview.what]}"


def delta_line(delta: FileDelta) -> str:
    """One changed path as `M src/app.py +3 -1`."""
    lines = "" if delta.added is None else f" +{delta.added} -{delta.removed}"
    return f"{delta.letter} {one_line(delta.path, max_chars=LINE_CHARS)}{lines}"


def _tell(moved: Moved) -> None:
    preview = moved.preview
    files = _count(len(preview.files), "file")
    click.echo(
        f"Done: the thread is at step {preview.step}, {files} changed."
        if preview.what == "both"
        else f"Done: {files} changed."
    )
    for path in moved.left:
        click.echo(f"Left as it is: {one_line(path, max_chars=LINE_CHARS)}")
    other = "redo" if preview.kind == "undo" else "undo"
    click.echo(f"Take it back: lockstitch {other} {preview.thread_id}")
    click.echo(f'Go on: lockstitch run --thread {preview.thread_id} "..."')


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
