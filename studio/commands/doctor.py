"""`lockstitch doctor`: is everything in place, and what to do where it is not."""

import asyncio
from pathlib import Path

import click

from lockstitch.state.errors import HomeUnusableError, SettingsError, TerminalError, ToolExecutionError
from lockstitch.state.home import prepare_home
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.amounts import count_words
from lockstitch.studio.checkup import Check, check_endpoint, check_installation
from lockstitch.studio.confirm import confirm
from lockstitch.studio.faults import Fault, find_faults
from lockstitch.studio.visible import make_visible


@click.command(name="doctor")
@click.option("--online", is_flag=True, help="Also send one tiny request to the model.")
@click.option(
    "--repair", is_flag=True, help="Look through the home folder, and mend what can be; asks first."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(home: Path | None, /, *, online: bool, repair: bool, yes: bool) -> int:
    """Check this installation and say what to do.

    --repair lists what is wrong with the home folder and asks before it mends anything. The exit code is 1
    when something fails, 0 otherwise.
    """
    try:
        settings = load_settings(home=home)
    except SettingsError as error:
        _print(Check("fail", "settings", error.message))
        return 1
    if repair:
        return _repair(settings, yes=yes)
    failed = False
    for check in check_installation(settings):
        failed |= _print(check)
    if online:
        failed |= _print(asyncio.run(check_endpoint(settings)))
    return int(failed)


def _repair(settings: Settings, *, yes: bool) -> int:
    """List the faults, mend them, and look again: a database that was mended may show more."""
    try:
        place = prepare_home(settings.home)
    except HomeUnusableError as error:
        _print(Check("fail", "home", error.message))
        return 1
    tried: set[str] = set()
    while True:
        faults = list(find_faults(settings, place, read_all=True))
        for fault in faults:
            if fault.text not in tried:
                _print(Check("warn" if fault.mend else "fail", fault.name, fault.text))
        mends = [fault for fault in faults if fault.mend and fault.text not in tried]
        if not mends:
            break
        if not confirm(f"Mend {count_words(len(mends), 'fault')}?", yes=yes):
            click.echo("Nothing was changed.")
            return 1
        for fault in mends:
            tried.add(fault.text)
            _mend(fault)
        tried |= {fault.text for fault in faults}
    if not faults:
        click.echo("Nothing is wrong with the home folder." if not tried else "All is mended.")
    return int(bool(faults))


def _mend(fault: Fault) -> None:
    if fault.mend is None:
        return
    try:
        _print(Check("ok", fault.name, fault.mend()))
    except (TerminalError, ToolExecutionError) as error:
        _print(Check("fail", fault.name, error.message))
    except OSError as error:
        _print(Check("fail", fault.name, f"not mended: {(error.strerror or 'unknown error').lower()}"))


def _print(check: Check) -> bool:
    """Write the check's line; True when it failed."""
    click.echo(f"{check.status:<5} {check.name:<12} {make_visible(check.text)}")
    return check.status == "fail"
