"""`lockstitch rewind`: takes a thread's files and conversation back to any step. Shows it first, and asks."""

from pathlib import Path

import click

from lockstitch.state.threads import check_thread_id
from lockstitch.studio.move_request import MoveRequest
from lockstitch.studio.moving import move_options, run_move
from lockstitch.studio.timeline import What


@click.command(name="rewind")
@click.argument("thread_id", metavar="ID")
@click.option(
    "--to",
    "step",
    type=click.IntRange(min=0),
    required=True,
    help="The step whose end is gone back to; 0 is the beginning.",
)
@click.option("--both", "what", flag_value="both", default=True, help="Files and conversation; the default.")
@click.option("--files", "what", flag_value="files", help="The files alone; the model is told.")
@click.option(
    "--conversation", "what", flag_value="conversation", help="The conversation alone; the model is told."
)
@move_options
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    thread_id: str,
    step: int,
    what: What,
    keep_changed: bool,
    workspace: str | None,
    **way: bool,
) -> None:
    """Take files and conversation back to a step; asks first."""
    request = MoveRequest(
        thread_id=check_thread_id(thread_id),
        to=step,
        what=what,
        keep_changed=keep_changed,
        workspace=workspace,
    )
    run_move(home, request, **way)
