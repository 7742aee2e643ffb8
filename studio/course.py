"""Where a rewind, an undo or a redo leads. Pure decisions on a timeline."""

from dataclasses import dataclass
from typing import assert_never

from lockstitch.state.errors import UsageError
from lockstitch.studio.timeline import Move, Place, Stitch, Timeline, What


@dataclass(frozen=True)
class Course:
    """What is to be done: `target` names the checkpoint and the files to go to."""

    move: Move
    target: Place


def rewind_course(timeline: Timeline, position: str, *, to: int, what: What = "both") -> Course:
    """To the state after step `to`; `position` is the effect that the files on disk have.

    Raises:
        UsageError: there is no such step.
    """
    here, place = Place(timeline.head.checkpoint_id, position), timeline.place_of(to)
    match what:
        case "both":
            target = place
        case "files":
            target = Place(here.checkpoint_id, place.files)
        case "conversation":
            target = Place(place.checkpoint_id, position)
        case _:
            assert_never(what)
    return Course(Move(kind="rewind", what=what, step=to, from_step=timeline.steps, back=here), target)


def undo_course(timeline: Timeline, position: str) -> Course:
    """Back from the last rewind, or, if there was none since the last step, from that step.

    Changes of a step that was cut off are taken back before the finished one.

    Raises:
        UsageError: there is nothing to undo.
    """
    here, target = Place(timeline.head.checkpoint_id, position), _before_last(timeline, position)
    step = _stitch(timeline, target).count
    forward = (*_forward(timeline), here)
    return Course(
        Move(kind="undo", what="both", step=step, from_step=timeline.steps, forward=forward), target
    )


def redo_course(timeline: Timeline, position: str) -> Course:
    """Back from the last undo or rewind.

    Raises:
        UsageError: there was none since the last step.
    """
    last = timeline.last_anchor()
    if last and last.move and last.move.kind == "rewind":
        return undo_course(timeline, position)
    forward = _forward(timeline)
    if not forward:
        raise UsageError(
            "there is nothing to redo: since the last step nothing was undone or rewound. "
            f"`lockstitch show {timeline.thread_id}` lists what there is."
        )
    target = forward[-1]
    step = _stitch(timeline, target).count
    return Course(
        Move(kind="redo", what="both", step=step, from_step=timeline.steps, forward=forward[:-1]), target
    )


def _before_last(timeline: Timeline, position: str) -> Place:
    last = timeline.last_anchor()
    if last and not last.move and position != (end := timeline.stitch_of(last.count)).files:
        return end.place
    line = timeline.line
    for at in range(len(line) - 1, -1, -1):
        stitch = line[at]
        if stitch.move and stitch.move.back:
            return stitch.move.back
        if stitch.records:
            return timeline.stitch_of(stitch.count - 1, line[: at + 1]).place
    raise UsageError("there is nothing to undo: the thread has made no step yet.")


def _forward(timeline: Timeline) -> tuple[Place, ...]:
    last = timeline.last_anchor()
    return last.move.forward if last and last.move else ()


def _stitch(timeline: Timeline, place: Place) -> Stitch:
    found = timeline.stitches.get(place.checkpoint_id)
    if found is None:
        raise UsageError(
            "the state before is pruned, so nothing can go back to it: "
            f"`lockstitch show {timeline.thread_id}` lists the steps there are."
        )
    return found
