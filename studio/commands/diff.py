"""`lockstitch diff`: what a thread's files differ by between two of its steps."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.threads import check_thread_id
from lockstitch.studio.file_deltas import unified_diff
from lockstitch.studio.moving import delta_line
from lockstitch.studio.service import open_service
from lockstitch.studio.step_diff import StepDiff
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible, one_line

LINE_CHARS = 1_000  # of a path alone in its line


@click.command(name="diff")
@click.argument("thread_id", metavar="ID")
@click.argument("from_step", metavar="[A]", type=click.IntRange(min=0), required=False)
@click.argument("to_step", metavar="[B]", type=click.IntRange(min=0), required=False)
@click.option("--stat", "form", flag_value="stat", help="Only the paths and how many lines changed.")
@click.option("--name-only", "form", flag_value="names", help="Only the paths.")
@click.option("--json", "form", flag_value="json", help="Write one JSON object.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    thread_id: str,
    from_step: int | None,
    to_step: int | None,
    form: str | None,
) -> None:
    """Compare a thread's files after two of its steps.

    Without B up to the last step; without both what the last step changed.
    """
    asyncio.run(_tell(load_settings(home=home), check_thread_id(thread_id), (from_step, to_step), form))


async def _tell(
    settings: Settings, thread_id: str, steps: tuple[int | None, int | None], form: str | None
) -> None:
    async with open_service(settings) as service:
        _write(await service.stitches.diff(thread_id, *steps), form)


def _write(diff: StepDiff, form: str | None) -> None:
    if form == "json":
        write_json(_as_json(diff))
        return
    at_terminal = sys.stdout.isatty()
    for line in _lines(diff, form):
        # a file or a pipe gets the bytes there are, so that `git apply` can use them
        data = (make_visible(line) if at_terminal else line).encode("utf-8", "surrogateescape")
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _lines(diff: StepDiff, form: str | None) -> Iterator[str]:
    if form == "names":
        return (f"{one_line(change.path, max_chars=LINE_CHARS)}\n" for change in diff.changes)
    if form == "stat":
        return (f"{delta_line(delta)}\n" for delta in diff.files())
    return diff.patch()


def _as_json(diff: StepDiff) -> dict[str, object]:
    return {
        "from_step": diff.from_step,
        "to_step": diff.to_step,
        "files": [
            {**vars(delta), "diff": "".join(unified_diff([change], diff.objects))}
            for delta, change in zip(diff.files(), diff.changes, strict=True)
        ],
    }
