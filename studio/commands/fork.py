"""`lockstitch fork`: begins a new thread at any step of another one."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.fork import Forked, ForkRequest
from lockstitch.studio.moving import PATHS_SHOWN, absolute, delta_line
from lockstitch.studio.service import open_service
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible


@click.command(name="fork")
@click.argument("thread_id", metavar="ID")
@click.option(
    "--at",
    "step",
    type=click.IntRange(min=0),
    help="The step it begins at; 0 is the beginning, and the last one the default.",
)
@click.option(
    "--workspace",
    type=click.Path(path_type=Path),
    callback=absolute,
    help="A new or empty folder: the workspace is copied there, with the files of that step.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_obj
def command(
    home: Path | None, /, *, thread_id: str, step: int | None, workspace: str | None, as_json: bool
) -> None:
    """Begin a new thread at a step of this one, which stays as it is."""
    request = ForkRequest(thread_id=check_thread_id(thread_id), at=step, workspace=workspace)
    forked = asyncio.run(_fork(load_settings(home=home), request))
    if as_json:
        write_json(asdict(forked))
    else:
        _tell(forked)


async def _fork(settings: Settings, request: ForkRequest) -> Forked:
    async with open_service(settings) as service:
        return await service.stitches.fork(request)


def _tell(forked: Forked) -> None:
    click.echo(f"Forked at step {forked.step}: {forked.thread_id}")
    click.echo(f"Folder: {make_visible(forked.workspace)}{' (a copy)' if forked.own_folder else ''}")
    if forked.files:
        newer = "Newer than that step in the folder; the model is told:"
        click.echo("Files as at that step:" if forked.own_folder else newer)
    for delta in forked.files[:PATHS_SHOWN]:
        click.echo(f"  {delta_line(delta)}")
    if len(forked.files) > PATHS_SHOWN:
        click.echo(f"  and {len(forked.files) - PATHS_SHOWN} more")
    for path in forked.left:
        click.echo(f"  ! {make_visible(path)}: somebody else changed it; it is a copy of what there is now")
    if forked.linked_git:
        click.echo("  ! the workspace is a linked worktree of git: the copy has no `.git`")
    if forked.files and not forked.own_folder:
        back = f"lockstitch rewind {forked.thread_id} --to {forked.step} --files"
        click.echo(f"Take the files back, too: {back}")
    click.echo(f'Go on: lockstitch run --thread {forked.thread_id} "..."')
