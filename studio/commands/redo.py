"""`lockstitch redo`: takes back the last undo or rewind. Shows it first, and asks."""

from pathlib import Path

import click

from lockstitch.state.threads import check_thread_id
from lockstitch.studio.move_request import MoveRequest
from lockstitch.studio.moving import move_options, run_move


@click.command(name="redo")
@click.argument("thread_id", metavar="ID")
@move_options
@click.pass_obj
def command(
    home: Path | None, /, *, thread_id: str, keep_changed: bool, workspace: str | None, **way: bool
) -> None:
    """Take back the last undo or rewind."""
    request = MoveRequest(
        thread_id=check_thread_id(thread_id),
        kind="redo",
        keep_changed=keep_changed,
        workspace=workspace,
        holder="lockstitch redo",
    )
    run_move(home, request, **way)
