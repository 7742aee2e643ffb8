"""`lockstitch demo`: the agent at work without a key, on a small project with a real bug in it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from lockstitch.graph.demo import copy_project
from lockstitch.graph.keyless import MODEL
from lockstitch.state.errors import WorkspaceError
from lockstitch.state.events import ChangeType
from lockstitch.studio.blocks import diff_text
from lockstitch.studio.run_options import RunOptions
from lockstitch.studio.session import open_session
from lockstitch.studio.terminal import open_console
from lockstitch.studio.visible import make_visible
from lockstitch.tools.texts.diffs import FileChange, diff_preview

PROMPT: Final = "One of the tests fails. Find out why, fix the cause, and run all tests again."
TESTS: Final = (sys.executable, "-B", "-m", "unittest", "-q")  # -B: no compiled files beside the sources
TESTS_TIMEOUT_S: Final = 60  # they take less than a second
SAFETY: Final = "Commands run without asking here: the folder is a throw-away copy."
SCRIPTED: Final = (
    "The model was scripted: it replayed a file, and no AI was at work. The tools did real work."
)


@click.command(name="demo")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Put the project here, a new folder, instead of a temporary one.",
)
@click.pass_obj
def command(home: Path | None, /, *, keep: Path | None) -> int:
    """Watch a scripted model find and fix a real bug; needs no key.

    The exit code is 0 only if the project's tests fail before and pass after.
    """
    console = open_console()
    folder = _copy(keep)
    console.print(
        Text(f"The demo project is in {make_visible(str(folder))}; it stays there."), soft_wrap=True
    )
    console.print(Text(SAFETY))
    failed_before = not _tests_pass(folder, console, title="tests before")
    before = dict(_files(folder))
    code, thread_id = _run(home, folder)
    console.print(Rule(Text("what changed"), style="dim"))
    for change in changes(before, dict(_files(folder))):
        console.print(diff_text(diff_preview(change, call_id="")))
    pass_after = _tests_pass(folder, console, title="tests after")
    console.print(Text(SCRIPTED))
    go_on = RunOptions(home=home, model=MODEL).command_for(thread_id)
    console.print(Text(f'Thread {thread_id}. Go on:\n{go_on} "And now?"'), soft_wrap=True)
    return code or int(not (failed_before and pass_after))


def changes(before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[FileChange]:
    """What differs between two sets of files, by path."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new:
            kind: ChangeType = "create" if old is None else "delete" if new is None else "modify"
            yield FileChange(path=path, change_type=kind, before=old, after=new)


def _copy(keep: Path | None) -> Path:
    try:
        folder = keep.absolute() if keep else Path(tempfile.mkdtemp(prefix="lockstitch-demo-")) / "project"
        return copy_project(folder)
    except OSError as error:
        raise WorkspaceError(f"the demo project cannot be put there: {error.strerror}.") from error


def _run(home: Path | None, folder: Path) -> tuple[int, str]:
    """Run the script on the project; the exit code and the thread's id."""
    options = RunOptions(home=home, workspace=folder, model=MODEL, mode="auto", unsandboxed_commands="allow")
    click.echo()
    with open_session(options) as session:
        return session.run(prompt=PROMPT), session.thread_id


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _tests_pass(folder: Path, console: Console, *, title: str) -> bool:
    """Run the project's tests, show what they say, and whether they pass."""
    console.print(Rule(Text(title), style="dim"))
    done = subprocess.run(
        TESTS,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TESTS_TIMEOUT_S,
        check=False,
    )
    console.print(Text(make_visible(done.stdout.decode("utf-8", "replace").strip()), "dim"))
    passed = done.returncode == 0
    console.print(Text("PASS" if passed else "FAIL", "bold green" if passed else "bold red"))
    return passed
