"""What a thread went through: its checkpoints as lines of steps, rewinds and forks. Changes nothing.

A step has its number through the whole thread, however many runs there were: STEP n is the state after step
n, 0 the one before the first. A rewind or fork begins a new branch at an old checkpoint; the line of a
checkpoint is what leads to it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from lockstitch.state.errors import ThreadUnknownError, UsageError
from lockstitch.state.events import AgentPhase
from lockstitch.state.journal import BEGINNING
from lockstitch.state.run_state import StepRecord

MOVE: Final = "lockstitch_move"  # the key of a checkpoint's metadata that says what kind of move made it
MoveKind = Literal["rewind", "undo", "redo", "fork"]
What = Literal["both", "files", "conversation"]
AT_REST: Final[frozenset[AgentPhase]] = frozenset({"completed", "error", "cancelled"})


class Place(NamedTuple):
    """One state of a thread: a checkpoint, and the effect of the journal that the files have."""

    checkpoint_id: str
    files: str


@dataclass(frozen=True, kw_only=True)
class Move:
    """How a checkpoint came to be that no run has made.

    Attributes:
        step: the one gone to.
        from_step: the last one there was.
        back: where `undo` leads; None after an undo or redo, whose place has an undo of its own.
        forward: where `redo` leads, the next one last.
        source: the thread a fork was made from; else empty.
    """

    kind: MoveKind
    what: What
    step: int
    from_step: int
    back: Place | None = None
    forward: tuple[Place, ...] = ()
    source: str = ""

    def to_json(self) -> str:
        """As text for a checkpoint's metadata, or for an effect of the journal."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Move":
        """The move that `to_json` wrote."""
        given = json.loads(text)
        given["back"] = Place(*given["back"]) if given["back"] else None
        given["forward"] = tuple(Place(*place) for place in given["forward"])
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class Stitch:
    """One checkpoint.

    Attributes:
        count: steps made up to here.
        records: of the steps that end here: one, or all there were where those before are pruned.
        files: the effect of the journal that the files have here.
        knows_files: whether anything was noted of files; not in threads from before there was a journal.
        run_step: the run's own number of the step under way.
        at: ISO 8601, UTC.
    """

    checkpoint_id: str
    parent_id: str | None
    source: str
    count: int
    records: tuple[StepRecord, ...]
    files: str
    knows_files: bool
    run_step: int
    phase: AgentPhase
    at: str
    move: Move | None

    @property
    def place(self) -> Place:
        """As a place to go to."""
        return Place(self.checkpoint_id, self.files)


class Timeline:
    """A thread's stitches, as they were when they were read."""

    def __init__(self, thread_id: str, stitches: Iterable[Stitch]) -> None:
        """`stitches` are in the order in which they were made, at least one."""
        self.thread_id = thread_id
        self.stitches: Mapping[str, Stitch] = {stitch.checkpoint_id: stitch for stitch in stitches}

    @cached_property
    def head(self) -> Stitch:
        """The newest one: what the thread is now."""
        return next(reversed(list(self.stitches.values())))

    @cached_property
    def line(self) -> list[Stitch]:
        """What leads to the head, the oldest first."""
        return self.line_to(self.head.checkpoint_id)

    @property
    def steps(self) -> int:
        """How many steps there are; also the number of the last one."""
        return self.head.count

    @cached_property
    def records(self) -> list[StepRecord]:
        """The records of the steps there are: that of step n at n - 1."""
        return [record for stitch in self.line for record in stitch.records]

    def line_to(self, checkpoint_id: str) -> list[Stitch]:
        """What leads to a checkpoint, the oldest first, itself last."""
        line: list[Stitch] = []
        stitch = self.stitches.get(checkpoint_id)
        while stitch is not None:
            line.append(stitch)
            stitch = self.stitches.get(stitch.parent_id or "")
        return line[::-1]

    def stitch_of(self, step: int, line: list[Stitch] | None = None) -> Stitch:
        """The checkpoint that is STEP `step` on the line, by default that of the head.

        Of a step that ended its run that is where the run ended, with its last words.

        Raises:
            UsageError: there is no such step, or its checkpoint is pruned.
        """
        line = self.line if line is None else line
        last = line[-1].count
        if not 0 <= step <= last:
            raise UsageError(
                f"thread {self.thread_id} has no step {step}: its steps are 0 to {last}. "
                f"`lockstitch show {self.thread_id}` lists them."
            )
        found = _beginning(line) if step == 0 else _end_of_step(line, step)
        if found is None:
            raise UsageError(
                f"step {step} of thread {self.thread_id} is pruned, so nothing can go back to it: "
                f"`lockstitch show {self.thread_id}` lists the steps there are."
            )
        return found

    def place_of(self, step: int) -> Place:
        """The place of STEP `step`. Raises as `stitch_of`."""
        return self.stitch_of(step).place

    def last_anchor(self) -> Stitch | None:
        """The last one on the head's line that a step or a move has made; None before there is one."""
        return next((stitch for stitch in reversed(self.line) if stitch.records or stitch.move), None)


def _beginning(line: list[Stitch]) -> Stitch | None:
    return line[0] if line[0].parent_id is None and line[0].count == 0 else None


def _end_of_step(line: list[Stitch], step: int) -> Stitch | None:
    at = next((at for at, one in enumerate(line) if one.records and one.count == step), None)
    if at is None:
        return None
    found = line[at]
    for later in line[at + 1 :]:
        if later.source == "input" or later.move or later.run_step != found.run_step:
            break
        found = later if later.phase in AT_REST else found
    return found


async def read_timeline(saver: BaseCheckpointSaver[Any], thread_id: str) -> Timeline:
    """All checkpoints of a thread, each looked at once; nothing is replayed.

    Raises:
        ThreadUnknownError: nothing was ever stored under that id.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    looks = [_Look(found) async for found in saver.alist(config)]
    if not looks:
        raise ThreadUnknownError(
            f"there is no thread {thread_id}: `lockstitch threads` lists those there are."
        )
    looks.sort(key=lambda look: look.checkpoint_id)  # ids are in the order of time
    known: dict[str, _Look] = {}
    stitches: dict[str, Stitch] = {}
    for look in looks:
        parent = look.parent_id or ""
        stitches[look.checkpoint_id] = look.stitch(known.get(parent), stitches.get(parent))
        known[look.checkpoint_id] = look
    return Timeline(thread_id, stitches.values())


class _Look:
    """What is kept of a checkpoint while all of them are read."""

    def __init__(self, found: CheckpointTuple) -> None:
        above, values = found.parent_config, found.checkpoint["channel_values"]
        self.checkpoint_id: str = found.config["configurable"]["checkpoint_id"]
        self.parent_id: str | None = above["configurable"]["checkpoint_id"] if above else None
        self.source = found.metadata.get("source", "")
        whole = values.get("steps")  # where the channel is stored as a whole: LangGraph's wrapper around it
        self.whole: list[StepRecord] | None = None if whole is None else getattr(whole, "value", whole)
        writes = [value for _, channel, value in found.pending_writes or [] if channel == "steps"]
        self.next_records = [record for write in writes for record in write]
        self.files: str | None = values.get("files")
        self.run_step: int = values.get("step", 0)
        self.phase: AgentPhase = values.get("phase", "idle")
        self.at = found.checkpoint["ts"]
        move = found.metadata.get(MOVE)
        self.move = Move.from_json(str(move)) if move else None

    def stitch(self, parent: "_Look | None", before: Stitch | None) -> Stitch:
        """Behind its parent. The records are those the parent's step wrote, as LangGraph replays them."""
        done = before.count if before else 0
        written = parent.next_records if parent else []
        records = written if self.whole is None else self.whole[done:]
        return Stitch(
            checkpoint_id=self.checkpoint_id,
            parent_id=self.parent_id,
            source=self.source,
            count=done + len(records),
            records=tuple(records),
            files=self.files or BEGINNING,
            knows_files=self.files is not None,
            run_step=self.run_step,
            phase=self.phase,
            at=self.at,
            move=self.move,
        )
