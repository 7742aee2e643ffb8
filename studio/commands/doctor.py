"""`lockstitch doctor`: is everything in place, and what to do where it is not."""

import asyncio
from pathlib import Path

import click

from lockstitch.state.errors import SettingsError
from lockstitch.state.settings import load_settings
from lockstitch.studio.checkup import Check, check_endpoint, check_installation
from lockstitch.studio.visible import make_visible


@click.command(name="doctor")
@click.option("--online", is_flag=True, help="Also send one tiny request to the model.")
@click.pass_obj
def command(home: Path | None, /, *, online: bool) -> int:
    """Check this installation and say what to do.

    The exit code is 1 when something fails, 0 otherwise.
    """
    try:
        settings = load_settings(home=home)
    except SettingsError as error:
        _print(Check("fail", "settings", error.message))
        return 1
    failed = False
    for check in check_installation(settings):
        failed |= _print(check)
    if online:
        failed |= _print(asyncio.run(check_endpoint(settings)))
    return int(failed)


def _print(check: Check) -> bool:
    """Write the check's line; True when it failed."""
    click.echo(f"{check.status:<5} {check.name:<12} {make_visible(check.text)}")
    return check.status == "fail"
