"""A fork: a new thread that begins at a step of another one, in the same folder or in a copy of it."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from lockstitch.graph.parts import Parts
from lockstitch.graph.record import title_of
from lockstitch.state.checkpointer import ThreadSaver
from lockstitch.state.errors import AgentError
from lockstitch.state.heads import changes_between
from lockstitch.state.journal import Journal
from lockstitch.state.run_state import RunState
from lockstitch.state.spill import SpillStore
from lockstitch.state.threads import ThreadIndex, ThreadRow, new_thread_id
from lockstitch.studio.file_deltas import FileDelta, delta_of
from lockstitch.studio.folder_copy import check_new_folder, copy_folder, remove_copy
from lockstitch.studio.knot import Graph, notes_of, resting, tie
from lockstitch.studio.timeline import Move, Timeline
from lockstitch.tools.changes.outlook import look_ahead
from lockstitch.tools.changes.restore import open_root
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import KeptBytes


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """One fork.

    Attributes:
        at: the step it begins at; None for the last one.
        workspace: a new or empty folder to copy the workspace to; None works in the same one.
    """

    thread_id: str
    at: int | None = None
    workspace: str | None = None
    holder: str = "lockstitch fork"


@dataclass(frozen=True, kw_only=True)
class Forked:
    """What a fork came to.

    Attributes:
        thread_id: the new one.
        files: with a folder of its own what was changed there to be as at that step; else what in the shared
            folder is newer than the step.
        left: paths in the copy that somebody else had changed; they are as they were in the original.
        linked_git: the workspace is a linked worktree, whose `.git` cannot be shared and was not copied.
    """

    thread_id: str
    source: str
    step: int
    workspace: str
    own_folder: bool
    files: tuple[FileDelta, ...]
    left: tuple[str, ...] = ()
    linked_git: bool = False


@dataclass(frozen=True, kw_only=True)
class Source:
    """The thread that is forked, as it stands."""

    timeline: Timeline
    head: StateSnapshot
    position: str


class Fork:
    """One fork on its way. The source's lock is held."""

    def __init__(self, graph: Graph, parts: Parts, threads: ThreadIndex, source: Source) -> None:
        self._graph = graph
        self._parts = parts
        self._threads = threads
        self._source = source
        self._thread_id = new_thread_id()

    async def make(self, request: ForkRequest) -> Forked:
        """The folder, then all of the thread under its new id; the row in the index last.

        Raises as `Stitches.fork`.
        """
        timeline = self._source.timeline
        step = timeline.steps if request.at is None else request.at
        stitch = timeline.stitch_of(step)
        old = self._parts.folder_of(self._source.head.values)
        forked = Forked(
            thread_id=self._thread_id,
            source=timeline.thread_id,
            step=step,
            workspace=request.workspace or str(old),
            own_folder=request.workspace is not None,
            files=(),
        )
        if request.workspace is not None:
            forked = await asyncio.to_thread(self._fill_folder, forked, old, stitch.files)
        else:
            forked = replace(forked, files=await asyncio.to_thread(self._newer, stitch.files))
        files = stitch.files if forked.own_folder else self._source.position
        await self._copy_thread(files)
        await self._tie(forked, stitch.checkpoint_id, files=files, since=stitch.files)
        return forked

    @property
    def _journal(self) -> Journal:
        assert self._parts.journal is not None
        return self._parts.journal

    def _newer(self, files: str) -> tuple[FileDelta, ...]:
        changes = changes_between(self._journal, files, self._source.position)
        return tuple(delta_of(change, self._journal.objects) for change in changes)

    def _fill_folder(self, forked: Forked, old: Path, files: str) -> Forked:
        """Copy the workspace, and make its files in the copy what they were at the step."""
        new, existed = Path(forked.workspace), Path(forked.workspace).exists()
        home = self._parts.home.path
        with open_root(old):
            check_new_folder(new, source=old, home=home)
        git = old / ".git"
        leave_out = [home, git] if git.is_file() else [home]
        copy_folder(old, new, leave_out=leave_out)
        changes = changes_between(self._journal, self._source.position, files)
        try:
            with open_root(new) as root:
                outlook = look_ahead(root, changes)
                conflicts = apply(root, outlook.ready, KeptBytes(self._journal.objects.pieces))
        except (OSError, AgentError):
            remove_copy(new, keep_folder=existed)
            raise
        left = [conflict.path for conflict in (*outlook.conflicts, *conflicts)]
        return replace(
            forked,
            files=tuple(delta_of(change, self._journal.objects) for change in outlook.ready),
            left=(*left, *outlook.staying),
            linked_git=git.is_file(),
        )

    async def _copy_thread(self, files: str) -> None:
        saver, home = cast("ThreadSaver", self._graph.checkpointer), self._parts.home
        source = self._source.timeline.thread_id
        await saver.acopy_thread(source, self._thread_id)
        await asyncio.to_thread(self._journal.place, self._thread_id, files)
        texts, own = SpillStore(home.spill, source), SpillStore(home.spill, self._thread_id)
        await asyncio.to_thread(texts.share_with, own)

    async def _tie(self, forked: Forked, checkpoint_id: str, *, files: str, since: str) -> None:
        place = {"thread_id": self._thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
        config: RunnableConfig = {"configurable": place}
        target = await self._graph.aget_state(config)
        update = RunState(**resting(target), files=files, last_seq=0, workspace=forked.workspace)
        changes = await asyncio.to_thread(changes_between, self._journal, since, files)
        if changes:
            update["messages"] = notes_of("conversation", forked.step, changes)
        last = self._source.timeline.steps
        move = Move(kind="fork", what="both", step=forked.step, from_step=last, source=forked.source)
        state = await tie(self._graph, move, target, update)
        await asyncio.to_thread(self._note_row, forked, state)

    def _note_row(self, forked: Forked, state: RunState) -> None:
        self._threads.record(self._row(forked, state))

    def _row(self, forked: Forked, state: RunState) -> ThreadRow:
        now, settings = self._parts.now(), self._parts.settings
        fresh = ThreadRow(
            thread_id=self._thread_id,
            title=title_of(state),
            workspace=forked.workspace,
            model=settings.model or "",
            strategy=settings.strategy,
            mode=settings.mode,
            door="cli",
            created_at=now,
            updated_at=now,
            steps=forked.step,
            phase=state.get("phase", "idle"),
            reason=state.get("reason"),
        )
        known = self._threads.find(forked.source)
        if known is None:
            return fresh
        return replace(
            fresh,
            title=known.title,
            model=known.model,
            strategy=known.strategy,
            mode=known.mode,
            door=known.door,
        )
