"""Routes on a thread's past: its timeline of steps and moves, and its files at two steps compared."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from lockstitch.studio.file_deltas import FileDelta, delta_of, unified_diff
from lockstitch.studio.http.desk import TheDesk
from lockstitch.studio.http.problems import ProblemRoute
from lockstitch.studio.http.schemas import Got
from lockstitch.studio.past import CutOff, Past, PastMove, PastStep
from lockstitch.studio.step_diff import StepDiff
from lockstitch.studio.timeline import MoveKind, What

FILES_MAX: Final = 1_000  # told of one step or move; the rest is counted
DIFF_CHARS: Final = 1_000_000  # of one reply, over all files
STEP_MAX: Final = 10**9  # far beyond any thread's steps
StepNumber = Annotated[int, Field(ge=0, le=STEP_MAX)]
FromStep = Annotated[int | None, Query(ge=0, le=STEP_MAX, description="default the one before the last")]
ToStep = Annotated[int | None, Query(ge=0, le=STEP_MAX, description="default the last; may be the earlier")]

router = APIRouter(prefix="/threads", route_class=ProblemRoute, tags=["threads"])


class FileItem(Got):
    """One changed path; a count is null where lines cannot be counted, as in a binary file."""

    path: str
    change: Literal["A", "M", "D"] = Field(description="added, modified, deleted")
    added: int | None
    removed: int | None


class FileDiff(FileItem):
    """One changed path with its lines."""

    diff: str = Field(description="as `git diff` writes it; bytes that are no UTF-8 are replaced")
    cut: bool = Field(description="the diff goes on: the reply holds no more than a million characters")


class CalledTool(Got):
    """A call of a step."""

    tool: str
    success: bool


class TimelineStep(Got):
    """One step. The record with all of its words is at the same place of `GET .../steps`."""

    type: Literal["step"] = "step"
    number: int = Field(description="through the whole thread; step n is the state after it")
    run_step: int = Field(description="the number it has in its run")
    thought: str
    observation: str
    calls: list[CalledTool]
    files: list[FileItem]
    total: int = Field(description="of the files; at most 1,000 are listed")
    can_go_back: bool = Field(description="false where it was pruned")
    started_at: str = Field(description="ISO 8601 in UTC")
    time_ms: float
    tokens: int


class TimelineCutOff(Got):
    """What a step that was stopped had changed before: it has no number."""

    type: Literal["cut_off"] = "cut_off"
    files: list[FileItem]
    total: int


class TimelineMove(Got):
    """Where a person went back, forth, or forked."""

    type: Literal["move"] = "move"
    kind: MoveKind
    what: What
    step: int = Field(description="the one gone to")
    from_step: int = Field(description="the last one there was")
    at: str = Field(description="ISO 8601 in UTC")
    source: str = Field(description="of a fork the thread it was made from; else empty")


class ThreadPast(Got):
    """All that leads to where a thread stands, the oldest first."""

    thread_id: str
    steps: int = Field(description="also the number of the last one; 0 is the beginning")
    entries: list[Annotated[TimelineStep | TimelineCutOff | TimelineMove, Field(discriminator="type")]]


class DiffReply(Got):
    """What leads from the files after one step to those after another."""

    thread_id: str
    from_step: int
    to_step: int
    files: list[FileDiff]
    total: int = Field(description="of the files; at most 1,000 are listed")


@router.get("/{thread_id}/timeline", summary="Its steps with their files, and its moves")
async def read_timeline(thread_id: str, desk: TheDesk) -> ThreadPast:
    """Each step with the files it changed, and each rewind, undo, redo and fork; not the steps one left."""
    thread_id = await desk.known(thread_id)
    past = await desk.stitches.past(thread_id)
    return _timeline(thread_id, past)


@router.get("/{thread_id}/diff", summary="The files of two steps compared")
async def read_diff(
    thread_id: str, desk: TheDesk, from_step: FromStep = None, to_step: ToStep = None
) -> DiffReply:
    """What the files differ by between the ends of two steps.

    It is read from what was kept: what others changed in the folder is not in it. 400: there is no such step.
    """
    thread_id = await desk.known(thread_id)
    diff = await desk.stitches.diff(thread_id, from_step, to_step)
    return await asyncio.to_thread(_diff, thread_id, diff)


def file_items(deltas: Iterable[FileDelta]) -> list[FileItem]:
    """The paths in numbers, the first of them."""
    return [FileItem(**_item(delta)) for delta in islice(deltas, FILES_MAX)]


def sendable(text: str) -> str:
    """The text, which may hold bytes of a file that are no UTF-8, as JSON can carry it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _item(delta: FileDelta) -> dict[str, object]:
    path = sendable(delta.path)
    return {"path": path, "change": delta.letter, "added": delta.added, "removed": delta.removed}


def _timeline(thread_id: str, past: Past) -> ThreadPast:
    entries = [_entry(entry) for entry in past]
    last = max((entry.number for entry in entries if isinstance(entry, TimelineStep)), default=0)
    return ThreadPast(thread_id=thread_id, steps=last, entries=entries)


def _entry(entry: PastStep | CutOff | PastMove) -> TimelineStep | TimelineCutOff | TimelineMove:
    match entry:
        case PastStep():
            return _step(entry)
        case CutOff():
            return TimelineCutOff(files=file_items(entry.files), total=len(entry.files))
        case PastMove():
            return TimelineMove(**vars(entry))


def _step(step: PastStep) -> TimelineStep:
    record = step.record
    return TimelineStep(
        number=step.number,
        run_step=record["number"],
        thought=record["thought"],
        observation=record["observation"],
        calls=[CalledTool(tool=call["tool"], success=call["success"]) for call in record["calls"]],
        files=file_items(step.files),
        total=len(step.files),
        can_go_back=step.can_go_back,
        started_at=record["started_at"],
        time_ms=record["plan_ms"] + record["execute_ms"],
        tokens=record["input_tokens"] + record["output_tokens"],
    )


def _diff(thread_id: str, diff: StepDiff) -> DiffReply:
    """Waits for the disk."""
    left, files = DIFF_CHARS, []
    for change in diff.changes[:FILES_MAX]:
        delta = delta_of(change, diff.objects)
        text, cut = _clipped(unified_diff([change], diff.objects), left)
        left -= len(text)
        files.append(FileDiff(**_item(delta), diff=text, cut=cut))
    return DiffReply(
        thread_id=thread_id,
        from_step=diff.from_step,
        to_step=diff.to_step,
        files=files,
        total=len(diff.changes),
    )


def _clipped(lines: Iterable[str], most: int) -> tuple[str, bool]:
    """The text of the lines up to so many characters, and whether it was cut."""
    kept: list[str] = []
    for line in lines:
        if len(line) > most:
            return sendable("".join([*kept, line[:most]])), True
        kept.append(line)
        most -= len(line)
    return sendable("".join(kept)), False
