"""`lockstitch undo`: takes back the last rewind, or else the last step. Shows it first, and asks."""

from pathlib import Path

import click

from lockstitch.state.threads import check_thread_id
from lockstitch.studio.move_request import MoveRequest
from lockstitch.studio.moving import move_options, run_move


@click.command(name="undo")
@click.argument("thread_id", metavar="ID")
@move_options
@click.pass_obj
def command(
    home: Path | None, /, *, thread_id: str, keep_changed: bool, workspace: str | None, **way: bool
) -> None:
    """Take back the last rewind, or else the last step."""
    request = MoveRequest(
        thread_id=check_thread_id(thread_id),
        kind="undo",
        keep_changed=keep_changed,
        workspace=workspace,
        holder="lockstitch undo",
    )
    run_move(home, request, **way)
