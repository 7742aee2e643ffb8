"""`lockstitch export`: a thread with the files it changed, in one archive. Does not load the graph."""

from datetime import UTC, datetime
from pathlib import Path

import click

from lockstitch.state.errors import UsageError
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import load_settings
from lockstitch.state.thread_export import export_thread
from lockstitch.studio.amounts import count_words, size_words
from lockstitch.studio.visible import make_visible


@click.command(name="export")
@click.argument("thread_id", metavar="ID")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.pass_obj
def command(home: Path | None, /, *, thread_id: str, file: Path, force: bool) -> None:
    """Write a thread, with the files it changed, into one archive.

    Usual names end in .tar.zst. The archive holds the whole conversation: give it to nobody who may not read
    that. docs/home.md says what else is in it.
    """
    if file.exists() and not force:
        raise UsageError(f"{file} is there already: name another file, or add --force.")
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    done = export_thread(prepare_home(load_settings(home=home).home), thread_id, file, now=now)
    parts = (
        count_words(done.checkpoints, "checkpoint"),
        count_words(done.effects, "change"),
        count_words(done.contents, "content"),
    )
    click.echo(f"{make_visible(str(file))}: {', '.join(parts)}, {size_words(done.size)}.")
    if done.missing:
        lost = count_words(len(done.missing), "content")
        click.echo(f"Without {lost} that this home has lost; `lockstitch doctor` says more.", err=True)
