"""`lockstitch import`: a thread out of an archive that `lockstitch export` wrote."""

import shlex
from pathlib import Path

import click

from lockstitch.state.settings import load_settings
from lockstitch.studio.incoming import import_thread
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.visible import make_visible


@click.command(name="import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Make the thread's files in this folder, which must be new or empty, and go on there.",
)
@click.option("--as-new", is_flag=True, help="Give the thread an id of its own; needed where it is there.")
@click.pass_obj
def command(home: Path | None, /, *, file: Path, workspace: Path | None, as_new: bool) -> None:
    """Take in a thread from an archive.

    All of it or nothing. Look at a thread that others gave you with `lockstitch show` before you go on: one
    that was cut off goes on with what it was about to do.
    """
    done = import_thread(load_settings(home=home), file, workspace=workspace, as_new=as_new)
    for words in done.left_out:
        click.echo(make_visible(words), err=True)
    standing = done.row.reason or done.row.phase
    click.echo(f"Imported thread {done.thread_id} ({standing}).")
    elsewhere = ["--home", str(home)] if home else []
    click.echo(f"See it: {shlex.join(['lockstitch', *elsewhere, 'show', done.thread_id])}")
    click.echo(f'Go on: {RunOptions(home=home).command_for(done.thread_id)} "..."')
