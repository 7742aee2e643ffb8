"""`lockstitch index`: the indexes of a workspace's code. Does not load the graph."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from lockstitch.state.errors import RecoverableError, UsageError
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.settings import Settings, load_settings
from lockstitch.studio.stop_signals import EXIT_OF_SIGNAL
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible

if TYPE_CHECKING:
    from lockstitch.tools.code_index.build import BuildReport, Progress
    from lockstitch.tools.code_index.indexes import Indexes, IndexStatus
    from lockstitch.tools.workspace import Workspace

PHASES: Final = {"files": "reading files", "meaning": "encoding"}
MB: Final = 1_000_000


class Place(NamedTuple):
    """A workspace with its indexes."""

    workspace: "Workspace"
    indexes: "Indexes"
    settings: Settings


with_workspace = click.option(
    "--workspace", type=click.Path(path_type=Path), help="Whose index; default the current folder's."
)
with_name = click.argument("name", required=False)
with_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")


@click.group(name="index")
def command() -> None:
    """Build, refresh, list or drop the index that code is searched by.

    A build can be stopped (Ctrl-C) and goes on the next time. NAME is `default` if left out.
    """


@command.command()
@with_name
@with_workspace
@click.pass_obj
def build(home: Path | None, /, *, name: str | None, workspace: Path | None) -> int:
    """Build an index, or go on with one."""
    return _bring_up_to_date(home, name, workspace, must_exist=False)


@command.command()
@with_name
@with_workspace
@click.pass_obj
def refresh(home: Path | None, /, *, name: str | None, workspace: Path | None) -> int:
    """Bring an index up to date: only what changed is read and encoded."""
    return _bring_up_to_date(home, name, workspace, must_exist=True)


@command.command()
@with_name
@with_workspace
@with_json
@click.pass_obj
def status(home: Path | None, /, *, name: str | None, workspace: Path | None, as_json: bool) -> None:
    """Say what an index holds."""
    with open_place(home, workspace) as (_, indexes, _):
        _check(indexes, name)
        _show(indexes.status(name), as_json=as_json)


@command.command(name="list")
@with_workspace
@with_json
@click.pass_obj
def list_(home: Path | None, /, *, workspace: Path | None, as_json: bool) -> None:
    """List the indexes of a workspace."""
    with open_place(home, workspace) as (_, indexes, _):
        names = indexes.names()
        for name in names:
            _show(indexes.status(name), as_json=as_json)
        if not names and not as_json:
            click.echo("No index is here; `lockstitch index build` makes one.")


@command.command()
@with_name
@with_workspace
@click.pass_obj
def drop(home: Path | None, /, *, name: str | None, workspace: Path | None) -> None:
    """Delete an index; the files it was made of stay."""
    with open_place(home, workspace) as (_, indexes, _):
        _check(indexes, name)
        indexes.drop(name)
        click.echo("Dropped.")


@contextmanager
def open_place(home: Path | None, workspace: Path | None) -> Iterator[Place]:
    """The workspace and its indexes; what the model could repair is here the person's to repair.

    Raises:
        UsageError: the call cannot be followed.
    """
    from lockstitch.tools.code_index.indexes import Indexes
    from lockstitch.tools.workspace import Workspace

    settings = load_settings(home=home, workspace=workspace)
    ready: Home = prepare_home(settings.home)
    folder = (settings.workspace or Path.cwd()).expanduser().resolve()
    try:
        with Workspace(folder, hidden=(ready.path,)) as opened:
            yield Place(opened, Indexes(ready.path, opened.root), settings)
    except RecoverableError as error:
        raise UsageError(error.message) from error


def _bring_up_to_date(
    home: Path | None, name: str | None, workspace: Path | None, *, must_exist: bool
) -> int:
    from lockstitch.tools.code_index.build import Watch, refresh_index
    from lockstitch.tools.code_index.encoder import describe_missing, find_encoder
    from lockstitch.tools.code_index.look_up import find_denial

    with open_place(home, workspace) as (opened, indexes, settings):
        encoder = find_encoder(settings)
        if must_exist:
            _check(indexes, name)
        with indexes.open(name) as index, _stop_at_signals() as stop, Bar() as bar:
            watch = Watch(tell=bar.show, is_stopped=stop.is_set)
            is_denied = find_denial(settings.home, opened)
            report = refresh_index(index, opened, encoder, watch, is_denied=is_denied)
        _say(report, indexes.status(name), missing="" if encoder else describe_missing(settings))
    return EXIT_OF_SIGNAL + signal.SIGINT if stop.is_set() else 0


@contextmanager
def _stop_at_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one ends the process as ever."""
    stop = threading.Event()

    def receive(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Bar:
    """The progress at a terminal, on stderr; nothing elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._tasks = {
            phase: self._progress.add_task(words, visible=False) for phase, words in PHASES.items()
        }

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, progress: "Progress") -> None:
        """Move the bar of its phase."""
        self._progress.update(
            self._tasks[progress.phase], completed=progress.done, total=progress.total, visible=True
        )


def _check(indexes: "Indexes", name: str | None) -> None:
    if not indexes.exists(name):
        there = ", ".join(indexes.names()) or "none"
        raise UsageError(
            f"there is no index {indexes.path(name).stem!r} here (there are: {there}). "
            "`lockstitch index build` makes one."
        )


def _say(report: "BuildReport", status: "IndexStatus", *, missing: str) -> None:
    if report.replaced_model:
        click.echo("The index was of another model and was encoded anew.")
    click.echo(
        f"{report.changed:,} files read, {report.encoded:,} places encoded, {report.left_out:,} left out."
    )
    if not report.complete:
        click.echo("Stopped; what is done is kept, and `lockstitch index build` goes on.")
    if missing:
        click.echo(f"Searched {missing}.")
    _show(status, as_json=False)


def _show(status: "IndexStatus", *, as_json: bool) -> None:
    if as_json:
        write_json(status._asdict())
        return
    state = "complete" if status.complete else "not complete"
    click.echo(
        f"{make_visible(status.name)}: {status.files:,} files, {status.chunks:,} places, "
        f"{status.encoded:,} of them by meaning, {status.size_bytes / MB:.1f} MB, {state}"
    )
