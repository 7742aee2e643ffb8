"""`lockstitch threads`: what there is to go on with. Does not load the graph: listing is quick."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import ThreadIndex, ThreadRow
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible, one_line

THREADS_SHOWN: Final = 20  # two lines each, a screen and a half
LINE_CHARS: Final = 76  # with its indent of 2 within 80 columns


@click.command(name="threads")
@click.option(
    "--limit", type=click.IntRange(min=1), default=THREADS_SHOWN, show_default=True, help="How many to list."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.pass_obj
def command(home: Path | None, /, *, limit: int, as_json: bool) -> None:
    """List threads, the latest first."""
    place = prepare_home(load_settings(home=home).home)
    with open_ledger(place.ledger_db) as ledger:
        rows = ThreadIndex(ledger).recent(limit)
    if as_json:
        for row in rows:
            write_json(asdict(row))
        return
    if not rows:
        click.echo('No threads yet: `lockstitch run "..."` begins one.')
    for row in rows:
        click.echo(_describe(row))


def _describe(row: ThreadRow) -> str:
    steps = "1 step" if row.steps == 1 else f"{row.steps} steps"
    first = f"{row.thread_id}  {row.reason or row.phase:<18}  {steps:>9}  {_when(row.updated_at)}"
    title = one_line(row.title, max_chars=LINE_CHARS) or "(no words)"
    return f"{first.rstrip()}\n  {title}\n  {make_visible(row.workspace)}"


def _when(timestamp: str) -> str:
    """The moment in local time, to the minute; whatever is no time stays as it is."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%y-%m-%d %H:%M")
    except ValueError:
        return timestamp
