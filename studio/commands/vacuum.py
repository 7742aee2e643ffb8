"""`lockstitch vacuum`: gives back the space of what was deleted. Does not load the graph."""

from functools import partial
from pathlib import Path

import click

from lockstitch.state.home import prepare_home
from lockstitch.state.settings import load_settings
from lockstitch.state.vacuum import vacuum_home
from lockstitch.studio.amounts import size_words
from lockstitch.tools.changes.scanned import kept_by_scans


@click.command(name="vacuum")
@click.pass_obj
def command(home: Path | None, /) -> None:
    """Give the space of what was deleted back to the disk.

    Deletes nothing that anybody needs. Refuses while a run writes a thread.
    """
    place = prepare_home(load_settings(home=home).home)
    done = vacuum_home(place, also=partial(kept_by_scans, place.path))
    for file in done:
        click.echo(f"{file.name:<10}  {size_words(file.before):>10}  ->  {size_words(file.after):>10}")
    click.echo(f"{size_words(sum(file.freed for file in done))} freed.")
