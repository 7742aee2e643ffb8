"""A thread's steps with the files each changed, and its moves, in order: what `show` and a page tell."""

from collections.abc import Iterator
from dataclasses import dataclass

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.heads import changes_between
from lockstitch.state.journal import Journal
from lockstitch.state.run_state import StepRecord
from lockstitch.state.tree_change import Change
from lockstitch.studio.file_deltas import FileDelta, delta_of
from lockstitch.studio.timeline import MoveKind, Stitch, Timeline, What
from lockstitch.tools.changes.call_journal import letter_of


@dataclass(frozen=True, kw_only=True)
class PastStep:
    """One step.

    Attributes:
        number: through the whole thread; that in the record is the run's own.
        can_go_back: whether its checkpoint is there; else it was pruned.
    """

    number: int
    record: StepRecord
    files: tuple[FileDelta, ...]
    can_go_back: bool = True


@dataclass(frozen=True, kw_only=True)
class CutOff:
    """What a step that was stopped had changed before: it has no record and no number."""

    files: tuple[FileDelta, ...]


@dataclass(frozen=True, kw_only=True)
class PastMove:
    """A rewind, undo, redo or fork; fields as in `Move`."""

    kind: MoveKind
    what: What
    step: int
    from_step: int
    at: str
    source: str


Past = list[PastStep | CutOff | PastMove]


def past_of(timeline: Timeline, journal: Journal) -> Past:
    """All that leads to the thread's head, the oldest first. Waits for the disk.

    Raises:
        SystemFaultError: something that a step stands on is missing; see `lockstitch doctor`.
    """
    return list(_Reader(timeline, journal).read())


class _Reader:
    def __init__(self, timeline: Timeline, journal: Journal) -> None:
        self._line = timeline.line
        self._journal = journal
        self._files = self._line[0].files

    def read(self) -> Iterator[PastStep | CutOff | PastMove]:
        for stitch in self._line:
            if stitch.move:
                yield self._move(stitch)
            elif stitch.records:
                yield from self._steps(stitch)
            elif stitch.source == "input" and stitch.files != self._files:
                yield CutOff(files=self._changed(stitch.files))
        if self._line[-1].files != self._files:
            yield CutOff(files=self._changed(self._line[-1].files))

    def _move(self, stitch: Stitch) -> PastMove:
        move = stitch.move
        assert move is not None
        self._files = stitch.files
        return PastMove(
            kind=move.kind,
            what=move.what,
            step=move.step,
            from_step=move.from_step,
            at=stitch.at,
            source=move.source,
        )

    def _steps(self, stitch: Stitch) -> Iterator[PastStep]:
        *pruned, last = stitch.records
        first = stitch.count - len(pruned)
        for number, record in enumerate(pruned, first):
            yield PastStep(number=number, record=record, files=(), can_go_back=False)
        files = () if pruned else self._changed(stitch.files)
        self._files = stitch.files
        yield PastStep(number=stitch.count, record=last, files=files)

    def _changed(self, files: str) -> tuple[FileDelta, ...]:
        changes = changes_between(self._journal, self._files, files)
        self._files = files
        return tuple(self._delta(change) for change in changes)

    def _delta(self, change: Change) -> FileDelta:
        try:
            return delta_of(change, self._journal.objects)
        except SystemFaultError:  # a damaged content must not hide the whole thread; who restores it is told
            return FileDelta(change.path, letter_of(change), None, None)
