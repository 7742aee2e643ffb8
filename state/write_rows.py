"""The rows that a task's writes go into: those of a kind share one, since names and keys outweigh values."""

from collections.abc import Sequence
from typing import Any, Final

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol

from lockstitch.state.row_encoding import encode_write
from lockstitch.state.saved_rows import DELTAS, PACKED

# LangGraph's channels for where to go next, whose writes are read by no history.
_BRANCH: Final = "branch:to:"
_INTO_WRITES: Final = (
    " INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " VALUES "
)
_ONE_WRITE: Final = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
# A superstep is over when the next checkpoint is there, which holds what its tasks wrote to channels that are
# stored whole. One that was interrupted keeps it: it may be gone on with again after a rollback.
DROP_WHAT_IS_OVER: Final = (
    "CREATE TEMP TRIGGER superstep_over AFTER INSERT ON main.checkpoints BEGIN"
    " DELETE FROM writes WHERE thread_id = NEW.thread_id AND checkpoint_ns = NEW.checkpoint_ns"
    f" AND checkpoint_id = NEW.parent_checkpoint_id AND channel = '{PACKED}'"
    " AND NOT EXISTS (SELECT 1 FROM writes m WHERE m.thread_id = NEW.thread_id"
    " AND m.checkpoint_ns = NEW.checkpoint_ns AND m.checkpoint_id = NEW.parent_checkpoint_id AND m.idx < 0);"
    " END"
)


Write = tuple[str, Any]  # a channel, and what was written to it


def share_rows(writes: Sequence[Write], packed: frozenset[str], deltas: frozenset[str]) -> Sequence[Write]:
    """The writes with those that can share a row in one; marks keep the places LangGraph gave them.

    What goes again comes last: so SQLite fills its pages with what stays.
    """
    whole: list[Write] = []
    replayed: list[Write] = []
    own: list[Write] = []
    for write in writes:
        name = write[0]
        is_whole = name in packed or name.startswith(_BRANCH)
        (whole if is_whole else replayed if name in deltas else own).append(write)
    return [*_shared(DELTAS, replayed), *own, *_shared(PACKED, whole)]


def _shared(name: str, writes: list[Write]) -> list[Write]:
    return [(name, writes)] if len(writes) > 1 else writes


def write_row(at: tuple[str, ...], number: int, write: Write, serde: SerializerProtocol) -> tuple[Any, ...]:
    """A row of the table; `at` are thread, namespace, checkpoint, task and the task's path."""
    channel, value = write
    kind, blob = serde.dumps_typed(value)
    if channel != PACKED:  # which goes with the next checkpoint
        kind, blob = encode_write(kind, blob)
    return (*at, WRITES_IDX_MAP.get(channel, number), channel, kind, blob)


def insert_writes(verb: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """One statement for all the rows, and its values."""
    statement = verb + _INTO_WRITES + ", ".join([_ONE_WRITE] * len(rows))
    return statement, [value for row in rows for value in row]
