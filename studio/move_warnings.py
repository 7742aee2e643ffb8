"""What a person should know before a move, beside the files and messages it changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from langgraph.types import StateSnapshot

from lockstitch.studio.course import Course
from lockstitch.studio.git_head import moves_of_head
from lockstitch.studio.knot import goes_on
from lockstitch.studio.timeline import Timeline

# Tools that had changed files before the journal noted it. The names are in old threads for good.
CHANGED_FILES: Final = frozenset({"write_file", "edit_file", "apply_patch", "move_file", "delete_file"})


def warnings_of(course: Course, timeline: Timeline, head: StateSnapshot, *, workspace: Path) -> Iterator[str]:
    """Sentences, the gravest last."""
    if head.interrupts:
        yield "What waits for your word is dropped: the call is not made."
    elif goes_on(head):
        yield "The run that was cut off does not go on."
    if course.move.what == "conversation" or course.move.kind != "rewind":
        return
    moves = moves_of_head(workspace, timeline.stitch_of(course.move.step).at)
    if moves:
        times = "once" if moves == 1 else f"{moves} times"
        yield f"git's HEAD moved {times} since (a commit or a checkout): `.git` stays as it is."
    if steps := _uncovered(timeline, course.move.step):
        named = ", ".join(map(str, steps))
        yield f"What was changed in step {named} was not kept at that time, and is not taken back."


def _uncovered(timeline: Timeline, step: int) -> list[int]:
    """The steps behind `step` that changed files when nothing was noted of them."""
    return [
        stitch.count
        for stitch in timeline.line
        if stitch.records and stitch.count > step and not stitch.knows_files
        if any(call["success"] and call["tool"] in CHANGED_FILES for call in stitch.records[-1]["calls"])
    ]
