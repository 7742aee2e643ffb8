"""`lockstitch threads`: what there is to go on with, and what it takes. Does not load the graph."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from lockstitch.state.home import Home, prepare_home
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import load_settings
from lockstitch.state.sizes import ThreadSize, measure_threads
from lockstitch.state.threads import ThreadIndex, ThreadRow
from lockstitch.studio.amounts import count_words, size_words
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible, one_line

THREADS_SHOWN: Final = 20  # two lines each, a screen and a half
LINE_CHARS: Final = 76  # with its indent of 2 within 80 columns


@click.command(name="threads")
@click.option(
    "--limit", type=click.IntRange(min=1), default=THREADS_SHOWN, show_default=True, help="How many to list."
)
@click.option("--sizes", "with_sizes", is_flag=True, help="Also say what each takes on the disk.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.pass_obj
def command(home: Path | None, /, *, limit: int, with_sizes: bool, as_json: bool) -> None:
    """List threads, the latest first.

    --sizes reads a page of every row of those threads: seconds, where they take a gigabyte.
    """
    place = prepare_home(load_settings(home=home).home)
    with open_ledger(place.ledger_db) as ledger:
        rows = ThreadIndex(ledger).recent(limit)
        sizes = _measure(place, ledger, rows) if with_sizes else {}
    if not rows and not as_json:
        click.echo('No threads yet: `lockstitch run "..."` begins one.')
    for row in rows:
        size = sizes.get(row.thread_id)
        if as_json:
            write_json(asdict(row) | ({"size": _parts(size)} if size else {}))
        else:
            click.echo(_describe(row, size))
    if sizes and not as_json:
        click.echo(
            f"{count_words(len(sizes), 'thread')}, {size_words(sum(s.total for s in sizes.values()))}."
        )


def _measure(place: Home, ledger: Ledger, rows: list[ThreadRow]) -> dict[str, ThreadSize]:
    objects = ObjectStore(place.objects, ledger)
    ids = [row.thread_id for row in rows]
    return measure_threads(place, Journal(ledger, objects), objects, ids)


def _parts(size: ThreadSize) -> dict[str, int]:
    return {"total": size.total, **asdict(size)}


def _describe(row: ThreadRow, size: ThreadSize | None) -> str:
    steps = "1 step" if row.steps == 1 else f"{row.steps} steps"
    first = f"{row.thread_id}  {row.reason or row.phase:<18}  {steps:>9}  {_when(row.updated_at)}"
    title = one_line(row.title, max_chars=LINE_CHARS) or "(no words)"
    lines = [first.rstrip(), f"  {title}", f"  {make_visible(row.workspace)}"]
    if size:
        parts = {"checkpoints": size.checkpoints, "kept texts": size.texts, "files": size.contents}
        lines.append(f"  {', '.join(f'{name} {size_words(part)}' for name, part in parts.items() if part)}")
    return "\n".join(lines)


def _when(timestamp: str) -> str:
    """The moment in local time, to the minute; whatever is no time stays as it is."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%y-%m-%d %H:%M")
    except ValueError:
        return timestamp
