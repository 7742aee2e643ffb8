"""The journal as the calls of a step write it: a change of files is sealed before it is made.

Cut off behind the seal, the change is finished from what was kept; failed, it is taken back.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol

from lockstitch.state.journal import Effect, EffectKind, Journal, new_effect_id
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, inverse
from lockstitch.tools.changes.planned_changes import Planner
from lockstitch.tools.confined.apply import Conflict, apply
from lockstitch.tools.confined.confinement import FOLDER, Confinement
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.paths import shown

SAID_MAX: Final = 10  # paths that are named of one change


@dataclass(kw_only=True)
class StepJournal:
    """Where the calls of one step note their changes.

    Attributes:
        head: the effect that the files have now; moved by each change.
        workspace: absolute.
        now: ISO 8601 in UTC.
    """

    journal: Journal
    thread_id: str
    checkpoint_id: str
    workspace: Path
    head: str
    now: Callable[[], str]

    def of_call(self, call_id: str, tool: str) -> "CallJournal":
        """The journal of one call."""
        return CallJournal(self, call_id, tool)


class ChangeJournal(Protocol):
    """Where a file verb says what it is about to change."""

    def planner(self, place: Confinement) -> Planner:
        """What tells the changes of a file verb before it makes them."""

    def making(self, root: int, changes: Sequence[Change]) -> AbstractContextManager[None]:
        """The block makes these changes below the open folder `root`."""


class CallJournal:
    """Where one call notes its changes. Waits for the disk: call it from a worker thread."""

    def __init__(self, step: StepJournal, call_id: str, tool: str) -> None:
        self._step = step
        self._call_id = call_id
        self._tool = tool

    @property
    def objects(self) -> ObjectStore:
        """Where the bytes of files are kept."""
        return self._step.journal.objects

    def planner(self, place: Confinement) -> Planner:
        """What tells the changes of a file verb before it makes them."""
        return Planner(place, self._step.journal.objects)

    @contextmanager
    def making(self, root: int, changes: Sequence[Change]) -> Iterator[None]:
        """Seal the changes, and note them as made when the block has made them.

        Args:
            root: the workspace's descriptor.
            changes: one a path; their bytes have been put.
        """
        if not changes:
            yield
            return
        effect = self.seal(changes, kind="edit")
        try:
            yield
        except BaseException:
            self.take_back(root, effect)
            raise
        self.finish(effect)

    def seal(self, changes: Sequence[Change], *, kind: EffectKind, result: str = "") -> Effect:
        """Promise the changes; from here on they are made, or taken back, whoever dies."""
        step = self._step
        effect = Effect(
            id=new_effect_id(),
            thread_id=step.thread_id,
            parent=step.head,
            checkpoint_id=step.checkpoint_id,
            call_id=self._call_id,
            tool=self._tool,
            kind=kind,
            at=step.now(),
            workspace=str(step.workspace),
            changes=tuple(changes),
            result=result,
        )
        step.journal.seal(effect)
        return effect

    def finish(self, effect: Effect) -> None:
        """Note that the files have the changes."""
        self._step.journal.finish(effect.id)
        self._step.head = effect.id

    def take_back(self, root: int, effect: Effect) -> None:
        """Undo what was made of a change that failed, and give it up.

        Where the disk refuses that, too, it stays sealed, and is finished before the thread goes on.
        """
        source = KeptBytes(self._step.journal.objects.pieces)
        apply(root, inverse(effect.changes), source)
        self._step.journal.void(effect.id)


@dataclass(frozen=True)
class Recovered:
    """An effect that was finished after a process died; its conflicts were left as they are."""

    effect: Effect
    conflicts: tuple[Conflict, ...]


def recover(journal: Journal, effects: Sequence[Effect]) -> list[Recovered]:
    """Finish effects that were cut off, in order. The caller holds the thread's lock.

    Raises:
        SystemFaultError: the bytes of one are not there any more.
        OSError: the disk fails, or the workspace is gone.
    """
    found: list[Recovered] = []
    for effect in effects:
        root = os.open(effect.workspace, FOLDER)
        try:
            conflicts = apply(root, effect.changes, KeptBytes(journal.objects.pieces))
        finally:
            os.close(root)
        journal.finish(effect.id)
        found.append(Recovered(replace(effect, status="done"), tuple(conflicts)))
    return found


def describe_changes(changes: Sequence[Change]) -> str:
    """The changes in a line: `A new.py, M old.py, D gone.py`, as git names them."""
    told = [f"{letter_of(change)} {shown(change.path)}" for change in changes[:SAID_MAX]]
    more = len(changes) - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def letter_of(change: Change) -> Literal["A", "M", "D"]:
    """What git's `--name-status` calls the change."""
    if change.before is None:
        return "A"
    return "D" if change.after is None else "M"
