"""`lockstitch prune`: deletes threads that were not used for a while. Never unasked."""

import asyncio
import math
import re
from pathlib import Path
from typing import Final

import click

from lockstitch.graph.parts import utc_now
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.amounts import count_words, size_words
from lockstitch.studio.confirm import confirm
from lockstitch.studio.housekeeping import IdleThread, Pruned, open_housekeeping
from lockstitch.studio.visible import one_line

AGE: Final = "24h"
HOURS_MAX: Final = 1_000_000.0  # more than a century
TITLE_CHARS: Final = 76  # with its indent of 2 within 80 columns
_AGE: Final = re.compile(r"(\d{1,7})([mhd])")
_HOURS: Final = {"m": 1 / 60, "h": 1.0, "d": 24.0}


def _hours(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """`30m`, `2h` or `7d` in hours."""
    found = _AGE.fullmatch(value)
    hours = int(found[1]) * _HOURS[found[2]] if found else math.inf
    if hours > HOURS_MAX:
        raise click.BadParameter(f"{value!r} is no time such as `30m`, `24h` or `7d`.", ctx, param)
    return hours


def _number(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):  # compares with nothing, so no range refuses it
        raise click.BadParameter("nan is no number of hours.", ctx, param)
    return value


@click.command(name="prune")
@click.option(
    "--older-than",
    "age_hours",
    callback=_hours,
    default=AGE,
    show_default=True,
    metavar="AGE",
    help="How long a thread must have rested: `30m`, `24h`, `7d`.",
)
@click.option(
    "--idle-hours",
    type=click.FloatRange(min=0, max=HOURS_MAX),
    callback=_number,
    help="The same in hours; wins over --older-than.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Leave the N last used threads, however long they rest.",
)
@click.option("--dry-run", is_flag=True, help="Only list them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    age_hours: float,
    idle_hours: float | None,
    keep: int,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete threads that rested for a while; lists them and asks first."""
    settings, hours = load_settings(home=home), age_hours if idle_hours is None else idle_hours
    idle = asyncio.run(_idle_threads(settings, hours, keep))
    _list(idle, hours, keep)
    if not idle or dry_run:
        return
    if confirm(f"Delete {count_words(len(idle), 'thread')} for good?", yes=yes):
        _tell(asyncio.run(_prune(settings, idle)))
    else:
        click.echo("Nothing was deleted.")


async def _idle_threads(settings: Settings, idle_hours: float, keep: int) -> list[IdleThread]:
    async with open_housekeeping(settings) as house:
        return await house.idle_threads(idle_hours=idle_hours, now=utc_now(), keep=keep)


async def _prune(settings: Settings, idle: list[IdleThread]) -> Pruned:
    async with open_housekeeping(settings) as house:
        return await house.prune(idle)


def _list(idle: list[IdleThread], idle_hours: float, keep: int) -> None:
    if not idle:
        beyond = f" beyond the last {keep}" if keep else ""
        click.echo(f"No thread{beyond} rested for {idle_hours:g} hours.")
        return
    for thread in idle:
        row = thread.row
        standing = row.reason or row.phase
        click.echo(f"{row.thread_id}  {standing:<18}  {row.updated_at[:16]}  {size_words(thread.size):>9}")
        click.echo(f"  {one_line(row.title, max_chars=TITLE_CHARS) or '(no words)'}")
    click.echo(f"{count_words(len(idle), 'thread')}, {size_words(sum(thread.size for thread in idle))}.")


def _tell(pruned: Pruned) -> None:
    deleted = count_words(len(pruned.deleted), "thread")
    click.echo(f"Deleted {deleted}; {size_words(pruned.freed)} freed on the disk.")
    if pruned.busy:
        click.echo(f"Left, since they are in use: {', '.join(pruned.busy)}.")
