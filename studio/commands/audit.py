"""`lockstitch audit`: which tools were called, by whom, on what, how it ended. Does not load the graph."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from lockstitch.state.audit import OUTCOMES, Audit, AuditFilter, query_ledger
from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.confirm import confirm
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import one_line

ROWS_SHOWN: Final = 50  # a screen or two
DAYS_MAX: Final = 36_500  # a century
TARGET_CHARS: Final = 200  # of what a call was about, in a list
HEADING_CHARS: Final = 300  # of what stands above rows: a deep folder has its room
OUTCOME_CHARS: Final = 11  # the longest word, `interrupted`
_AGO: Final = re.compile(r"(\d{1,5})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_COLOURS: Final = {"escape": "red", "refused": "yellow", "rejected": "yellow", "interrupted": "yellow"}


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The moment as rows have it; of a date without a zone the local one is meant."""
    ago = _AGO.fullmatch(value or "")
    try:
        if ago:
            return _timestamp(datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        return value and _timestamp(datetime.fromisoformat(value).astimezone(UTC))
    except (ValueError, OverflowError) as error:
        what = f"{value!r} is neither `2h` or `7d` nor a date such as 2026-05-31."
        raise click.BadParameter(what, ctx, param) from error


@click.command(name="audit")
@click.option("--thread", metavar="ID", help="Only this thread's calls.")
@click.option(
    "--tool", "tools", metavar="NAME", multiple=True, help="Only calls of this tool; may be repeated."
)
@click.option(
    "--outcome",
    "outcomes",
    type=click.Choice(OUTCOMES),
    multiple=True,
    help="Only calls that ended so; may be repeated.",
)
@click.option(
    "--since", callback=_moment, metavar="WHEN", help="Only since then: `30m`, `2h`, `7d` ago, or a date."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=ROWS_SHOWN,
    show_default=True,
    help="How many, the last ones.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.option(
    "--sql", metavar="SELECT", help="Write the rows of your own query as JSON; it can change nothing."
)
@click.option(
    "--prune",
    "days",
    type=click.IntRange(0, DAYS_MAX),
    metavar="DAYS",
    help="Delete what is older; asks first.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(home: Path | None, /, *, sql: str | None, days: int | None, **choices: Any) -> None:
    """List every call of a tool: when, on what, how it ended.

    The latest comes last. docs/audit.md has the columns for --sql.
    """
    if sql is not None and days is not None:
        raise click.UsageError("--sql and --prune do not go together.")
    place = prepare_home(load_settings(home=home).home)
    with open_ledger(place.ledger_db) as ledger:
        if sql is not None:
            for row in query_ledger(place.ledger_db, sql):
                write_json(row)
        elif days is not None:
            _prune(Audit(ledger), days, yes=choices["yes"])
        else:
            _list(Audit(ledger), **choices)


def _list(
    audit: Audit,
    *,
    thread: str | None,
    tools: tuple[str, ...],
    outcomes: tuple[str, ...],
    since: str | None,
    limit: int,
    as_json: bool,
    yes: bool,  # noqa: ARG001  of --prune
) -> None:
    wanted = AuditFilter(
        thread_id=check_thread_id(thread) if thread else None, tools=tools, outcomes=outcomes, since=since
    )
    rows = audit.rows(wanted, limit=limit)
    if as_json:
        for row in rows:
            write_json(row)
        return
    for line in _lines(rows):
        click.echo(line)
    click.echo(_last_words(rows, all_rows=audit.count(wanted), is_filtered=wanted != AuditFilter()))


def _lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The rows below headings that say day, thread, door and workspace."""
    heading = ""
    for row in rows:
        moment = datetime.fromisoformat(row["timestamp"]).astimezone()
        thread = f"thread {row['thread_id']}" if row["thread_id"] else "no thread"
        above = f"{moment:%Y-%m-%d}  {thread}  {row['door']}  {row['workspace']}".rstrip()
        above = one_line(above, max_chars=HEADING_CHARS)
        if above != heading:
            heading = above
            yield above
        outcome = f"{row['outcome']:<{OUTCOME_CHARS}}"
        mark = "!" if row["outcome"] == "escape" else " "
        line = f"{mark} {moment:%H:%M:%S}  {outcome}  {one_line(_describe(row), max_chars=TARGET_CHARS)}"
        yield click.style(line, fg=_COLOURS[row["outcome"]]) if row["outcome"] in _COLOURS else line


def _describe(row: dict[str, Any]) -> str:
    about = (row["command"], *(row["path"] or "").split("\n"), row["host"])
    return " ".join(filter(None, (row["tool"], *about)))


def _last_words(rows: list[dict[str, Any]], *, all_rows: int, is_filtered: bool) -> str:
    if not rows:
        return (
            "No call fits."
            if is_filtered
            else "No calls yet: a run or `lockstitch tool` makes the first one."
        )
    words = [_calls(len(rows)) + (f" of {all_rows}; --limit shows more." if all_rows > len(rows) else ".")]
    escapes = sum(row["outcome"] == "escape" for row in rows)
    if escapes:
        words.append(f"! {_calls(escapes)} named a path out of the workspace, and did not get there.")
    return " ".join(words)


def _prune(audit: Audit, days: int, *, yes: bool) -> None:
    now = datetime.now(UTC)
    before = now - timedelta(days=days)
    if confirm(f"Delete for good what the audit has from before {before:%Y-%m-%d %H:%M} UTC?", yes=yes):
        deleted = audit.prune(before=_timestamp(before), now=_timestamp(now))
        click.echo(f"Deleted {_calls(deleted)}; the audit says so.")
    else:
        click.echo("Nothing was deleted.")


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
