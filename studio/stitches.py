"""A thread's past: its timeline, and the ways back and forth in it. One service for every door.

A move takes files and conversation to another state of the thread. Its files are one sealed effect of the
journal, its conversation a new checkpoint on the old one: nothing is deleted, so each move can be taken back.
Cut off behind the seal, a move is brought to its end at the thread's next move or run (`settle`).
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import StateSnapshot

from lockstitch.graph.parts import Parts
from lockstitch.state.errors import SystemFaultError, UsageError
from lockstitch.state.finished import to_the_end
from lockstitch.state.heads import changes_between
from lockstitch.state.home import explain_refusal
from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.run_state import RunState
from lockstitch.state.thread_lock import hold_for_run
from lockstitch.state.threads import ThreadIndex, check_thread_id
from lockstitch.state.tree_change import Change
from lockstitch.studio.course import Course, redo_course, rewind_course, undo_course
from lockstitch.studio.file_deltas import delta_of
from lockstitch.studio.fork import Fork, Forked, ForkRequest, Source
from lockstitch.studio.knot import Graph, tie, update_of
from lockstitch.studio.move_request import Moved, MoveRequest, Preview, check_seen, token_of
from lockstitch.studio.move_warnings import warnings_of
from lockstitch.studio.past import Past, past_of
from lockstitch.studio.step_diff import StepDiff, diff_steps
from lockstitch.studio.timeline import Move, Place, Timeline, read_timeline
from lockstitch.tools.changes.call_journal import recover
from lockstitch.tools.changes.outlook import Outlook, look_ahead
from lockstitch.tools.changes.restore import open_root, restore


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A move that was looked at: where it leads, and what it meets."""

    course: Course
    timeline: Timeline
    here: Place
    head: StateSnapshot
    target: StateSnapshot
    workspace: Path
    outlook: Outlook


class Stitches:
    """The past of the threads of one home.

    Every verb raises ThreadUnknownError where there is no such thread, and SystemFaultError or
    HomeUnusableError where the home cannot be used; those that hold the thread ThreadBusyError.
    """

    def __init__(self, graph: Graph, parts: Parts, threads: ThreadIndex) -> None:
        self._graph = graph
        self._parts = parts
        self._threads = threads

    async def timeline(self, thread_id: str) -> Timeline:
        """The thread's steps and moves as they stand; also of a thread that is being written."""
        saver = cast("BaseCheckpointSaver[Any]", self._graph.checkpointer)
        return await read_timeline(saver, check_thread_id(thread_id))

    async def past(self, thread_id: str) -> Past:
        """Each step with the files it changed, and each move."""
        return await asyncio.to_thread(past_of, await self.timeline(thread_id), self._journal)

    async def diff(
        self, thread_id: str, from_step: int | None = None, to_step: int | None = None
    ) -> StepDiff:
        """What the files differ by between the ends of two steps; by default what the last step changed.

        Raises:
            UsageError: there is no such step.
        """
        timeline = await self.timeline(thread_id)
        return await asyncio.to_thread(diff_steps, timeline, self._journal, from_step, to_step)

    async def preview(self, request: MoveRequest) -> Preview:
        """What the move would do; touches nothing, but settles a move that was cut off.

        Raises:
            UsageError: there is no such step, or nothing to undo or redo.
            WorkspaceError: the thread's folder is missing.
        """
        async with self._held(request):
            await self._settle_all(request)
            return await asyncio.to_thread(self._previewed, await self._plan(request))

    async def move(self, request: MoveRequest) -> Moved:
        """Make the move, whole or not at all: a kill in the middle is made good by `settle`.

        Raises:
            FilesChangedError: somebody else changed files that would be overwritten; nothing was touched.
            UsageError: as `preview`; MovedOnError: it is not what the person was shown.
            WorkspaceError: the thread's folder is missing.
        """
        async with self._held(request):
            await self._settle_all(request)
            plan = await self._plan(request)
            preview = await asyncio.to_thread(self._previewed, plan)
            check_seen(request, preview)
            left = await to_the_end(self._make(plan))
        return Moved(preview=preview, left=left)

    async def fork(self, request: ForkRequest) -> Forked:
        """Begin a new thread at a step of this one, which stays as it is.

        Raises:
            UsageError: there is no such step.
            WorkspaceError: the new folder cannot be taken, or the thread's own is missing.
        """
        async with self._held(request):
            await self._settle_all(MoveRequest(thread_id=request.thread_id))
            timeline = await self.timeline(request.thread_id)
            position = await asyncio.to_thread(self._journal.position, request.thread_id)
            head = await self._snapshot(request.thread_id)
            source = Source(timeline=timeline, head=head, position=position)
            return await to_the_end(Fork(self._graph, self._parts, self._threads, source).make(request))

    async def settle(self, thread_id: str) -> bool:
        """Bring a move that was cut off to its end; whether there was one. The caller holds the thread."""
        journal = self._parts.journal
        if journal is None:
            return False
        begun = await asyncio.to_thread(journal.unfinished, thread_id)
        await asyncio.to_thread(_finish, journal, [one for one in begun if one.kind == "rewind"])
        position = await asyncio.to_thread(journal.position, thread_id)
        effect = await asyncio.to_thread(journal.effect, position) if position != BEGINNING else None
        if effect is None or not effect.result or effect.kind != "rewind" or effect.thread_id != thread_id:
            return False
        head = await self._snapshot(thread_id)
        if head.config["configurable"].get("checkpoint_id") != effect.checkpoint_id:
            return False  # its conversation is there, or the thread went on without it
        meant = json.loads(effect.result)
        target = await self._snapshot(thread_id, meant["to"])
        await self._tie(Move.from_json(meant["move"]), head, target, changes=effect.changes)
        return True

    @property
    def _journal(self) -> Journal:
        assert self._parts.journal is not None
        return self._parts.journal

    def _held(self, request: MoveRequest | ForkRequest) -> AbstractAsyncContextManager[None]:
        locks, on_loop = self._parts.home.locks, self._parts.on_loop
        return hold_for_run(locks, request.thread_id, holder=request.holder, on_loop=on_loop)

    async def _snapshot(self, thread_id: str, checkpoint_id: str = "") -> StateSnapshot:
        place = {"thread_id": thread_id, "checkpoint_ns": ""}
        named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
        config: RunnableConfig = {"configurable": place | named}
        return await self._graph.aget_state(config)

    async def _settle_all(self, request: MoveRequest) -> None:
        """Bring a move, and what a killed run was changing, to the end: the files are in one state then."""
        await self.settle(request.thread_id)
        begun = await asyncio.to_thread(self._journal.unfinished, request.thread_id)
        moved = [replace(one, workspace=request.workspace or one.workspace) for one in begun]
        await asyncio.to_thread(_finish, self._journal, moved)

    async def _plan(self, request: MoveRequest) -> _Plan:
        thread_id = request.thread_id
        timeline = await self.timeline(thread_id)
        position = await asyncio.to_thread(self._journal.position, thread_id)
        course = _course(request, timeline, position)
        head = await self._snapshot(thread_id)
        if request.workspace:
            head.values["workspace"] = request.workspace
        workspace = self._parts.folder_of(head.values)
        return _Plan(
            course=course,
            timeline=timeline,
            here=Place(timeline.head.checkpoint_id, position),
            head=head,
            target=await self._snapshot(thread_id, course.target.checkpoint_id),
            workspace=workspace,
            outlook=await asyncio.to_thread(self._look, workspace, position, course.target.files),
        )

    def _look(self, workspace: Path, position: str, files: str) -> Outlook:
        changes = changes_between(self._journal, position, files)
        if not changes:
            return Outlook((), (), ())
        with open_root(workspace) as root:
            try:
                return look_ahead(root, changes)
            except OSError as error:
                raise SystemFaultError(
                    f"the thread's files cannot be read: its folder {explain_refusal(error)}."
                ) from error

    def _previewed(self, plan: _Plan) -> Preview:
        move, outlook = plan.course.move, plan.outlook
        stay = {message.id for message in plan.target.values.get("messages", [])}
        now = plan.head.values.get("messages", [])
        return Preview(
            thread_id=plan.timeline.thread_id,
            kind=move.kind,
            what=move.what,
            step=move.step,
            from_step=move.from_step,
            messages_gone=sum(message.id not in stay for message in now),
            files=tuple(delta_of(change, self._journal.objects) for change in outlook.ready),
            conflicts=tuple(conflict.path for conflict in outlook.conflicts),
            staying=outlook.staying,
            warnings=tuple(warnings_of(plan.course, plan.timeline, plan.head, workspace=plan.workspace)),
            token=token_of(plan.here, plan.course.target, move),
        )

    async def _make(self, plan: _Plan) -> tuple[str, ...]:
        """The files, then the conversation: what is behind the seal can be brought to its end."""
        move, changes = plan.course.move, plan.outlook.ready
        left = [conflict.path for conflict in plan.outlook.conflicts]
        if changes:
            left += await asyncio.to_thread(self._restore, plan)
        if move.what == "conversation":
            old = plan.timeline.stitches[plan.course.target.checkpoint_id].files
            changes = tuple(await asyncio.to_thread(changes_between, self._journal, old, plan.here.files))
        await self._tie(move, plan.head, plan.target, changes=changes)
        return tuple(left)

    def _restore(self, plan: _Plan) -> list[str]:
        """Make the files what they shall be; the paths that somebody changed in that very moment."""
        meant = {"move": plan.course.move.to_json(), "to": plan.course.target.checkpoint_id}
        effect = Effect(
            id=new_effect_id(),
            thread_id=plan.timeline.thread_id,
            parent=plan.here.files,
            checkpoint_id=plan.here.checkpoint_id,
            call_id="",
            tool=plan.course.move.kind,
            kind="rewind",
            at=self._parts.now(),
            workspace=str(plan.workspace),
            changes=plan.outlook.ready,
            result=json.dumps(meant),
        )
        with open_root(plan.workspace) as root:
            return [conflict.path for conflict in restore(self._journal, effect, root)]

    async def _tie(
        self, move: Move, head: StateSnapshot, target: StateSnapshot, *, changes: Sequence[Change]
    ) -> None:
        """Write the checkpoint, and the thread's row in the index."""
        thread_id = head.config["configurable"]["thread_id"]
        files = await asyncio.to_thread(self._journal.position, thread_id)
        update = update_of(move, head, target, files=files, changes=changes)
        state = await tie(self._graph, move, target, update)
        await asyncio.to_thread(self._note_row, thread_id, state)

    def _note_row(self, thread_id: str, state: RunState) -> None:
        row = self._threads.find(thread_id)
        if row is None:  # begun at a door that keeps no index
            return
        steps, phase = len(state.get("steps", [])), state.get("phase", "idle")
        changed = replace(row, workspace=state.get("workspace", row.workspace), steps=steps, phase=phase)
        self._threads.record(replace(changed, reason=state.get("reason"), updated_at=self._parts.now()))


def _course(request: MoveRequest, timeline: Timeline, position: str) -> Course:
    if request.kind == "undo":
        return undo_course(timeline, position)
    if request.kind == "redo":
        return redo_course(timeline, position)
    if request.to is None:
        raise UsageError("name the step to go back to with --to STEP; 0 is the beginning.")
    return rewind_course(timeline, position, to=request.to, what=request.what)


def _finish(journal: Journal, effects: Sequence[Effect]) -> None:
    """Finish effects that were cut off; what somebody changed meanwhile is left."""
    try:
        recover(journal, effects)
    except OSError as error:
        raise SystemFaultError(
            "what the thread was changing when it was cut off cannot be finished: its folder "
            f"{explain_refusal(error)}. Mend that, or name the folder with --workspace."
        ) from error
