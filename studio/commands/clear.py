"""`lockstitch clear`: makes a thread forget what was said and done in it."""

import asyncio
from pathlib import Path

import click

from lockstitch.graph.parts import utc_now
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.confirm import confirm
from lockstitch.studio.housekeeping import open_housekeeping


@click.command(name="clear")
@click.argument("thread_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(home: Path | None, /, *, thread_id: str, yes: bool) -> None:
    """Clear a thread's memory; the thread itself and the files stay."""
    settings = load_settings(home=home)
    thread_id = check_thread_id(thread_id)
    question = f"Forget all messages, steps and tasks of thread {thread_id} for good?"
    if confirm(question, yes=yes):
        asyncio.run(_clear(settings, thread_id))
        click.echo("Cleared.")
    else:
        click.echo("Nothing was deleted.")


async def _clear(settings: Settings, thread_id: str) -> None:
    async with open_housekeeping(settings) as house:
        await house.clear(thread_id, now=utc_now())
