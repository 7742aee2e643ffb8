"""`lockstitch prune`: deletes threads that were not used for a while. Never unasked."""

import asyncio
import math
from pathlib import Path
from typing import Final

import click

from lockstitch.graph.parts import utc_now
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.confirm import confirm
from lockstitch.studio.housekeeping import IdleThread, Pruned, open_housekeeping
from lockstitch.studio.visible import one_line

IDLE_HOURS: Final = 24.0
HOURS_MAX: Final = 1_000_000.0  # more than a century
TITLE_CHARS: Final = 76  # with its indent of 2 within 80 columns
MB: Final = 1_000_000


def _number(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if math.isnan(value):  # compares with nothing, so no range refuses it
        raise click.BadParameter("nan is no number of hours.", ctx, param)
    return value


@click.command(name="prune")
@click.option(
    "--idle-hours",
    type=click.FloatRange(min=0, max=HOURS_MAX),
    callback=_number,
    default=IDLE_HOURS,
    show_default=True,
    help="How long a thread must have rested.",
)
@click.option("--dry-run", is_flag=True, help="Only list them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(home: Path | None, /, *, idle_hours: float, dry_run: bool, yes: bool) -> None:
    """Delete threads that rested for a while; lists them and asks first."""
    settings = load_settings(home=home)
    idle = asyncio.run(_idle_threads(settings, idle_hours))
    _list(idle, idle_hours)
    if not idle or dry_run:
        return
    if confirm(f"Delete {_threads(len(idle))} for good?", yes=yes):
        _tell(asyncio.run(_prune(settings, idle)))
    else:
        click.echo("Nothing was deleted.")


async def _idle_threads(settings: Settings, idle_hours: float) -> list[IdleThread]:
    async with open_housekeeping(settings) as house:
        return await house.idle_threads(idle_hours=idle_hours, now=utc_now())


async def _prune(settings: Settings, idle: list[IdleThread]) -> Pruned:
    async with open_housekeeping(settings) as house:
        return await house.prune(idle)


def _list(idle: list[IdleThread], idle_hours: float) -> None:
    if not idle:
        click.echo(f"No thread rested for {idle_hours:g} hours.")
        return
    for thread in idle:
        row = thread.row
        standing = row.reason or row.phase
        click.echo(f"{row.thread_id}  {standing:<18}  {row.updated_at[:16]}  {_size(thread.size):>9}")
        click.echo(f"  {one_line(row.title, max_chars=TITLE_CHARS) or '(no words)'}")
    click.echo(f"{_threads(len(idle))}, {_size(sum(thread.size for thread in idle))}.")


def _tell(pruned: Pruned) -> None:
    click.echo(f"Deleted {_threads(len(pruned.deleted))}; {_size(pruned.freed)} freed on the disk.")
    if pruned.busy:
        click.echo(f"Left, since they are in use: {', '.join(pruned.busy)}.")


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _size(size: int) -> str:
    return f"{size / MB:,.1f} MB" if size >= MB else f"{size / 1000:,.1f} kB"
