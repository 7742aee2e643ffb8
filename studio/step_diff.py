"""The difference of a thread's files between two of its steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from lockstitch.state.errors import UsageError
from lockstitch.state.heads import changes_between
from lockstitch.state.journal import Journal
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change
from lockstitch.studio.file_deltas import FileDelta, delta_of, unified_diff
from lockstitch.studio.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class StepDiff:
    """What leads from the files after one step to those after another, either of them the later one.

    Both verbs wait for the disk, and raise SystemFaultError where a content is missing.
    """

    from_step: int
    to_step: int
    changes: tuple[Change, ...]
    objects: ObjectStore

    def files(self) -> list[FileDelta]:
        """Each path in numbers."""
        return [delta_of(change, self.objects) for change in self.changes]

    def patch(self) -> Iterator[str]:
        """The lines of a unified diff, as git writes one; see `file_deltas.unified_diff`."""
        return unified_diff(self.changes, self.objects)


def diff_steps(timeline: Timeline, journal: Journal, from_step: int | None, to_step: int | None) -> StepDiff:
    """The difference; without steps that of the last one, without the second one that to the last.

    Raises:
        UsageError: there is no such step, or none at all.
    """
    if timeline.steps == 0:
        raise UsageError(f"thread {timeline.thread_id} has made no step yet, so nothing differs.")
    last = timeline.steps
    first = last - 1 if from_step is None else from_step
    then = last if to_step is None else to_step
    old, new = timeline.stitch_of(first).files, timeline.stitch_of(then).files
    changes = tuple(changes_between(journal, old, new))
    return StepDiff(from_step=first, to_step=then, changes=changes, objects=journal.objects)
