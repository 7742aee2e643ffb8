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
_AT_THAT: Final = (
    "thread_id = json_extract(j.value, '$[0]') AND checkpoint_ns = json_extract(j.value, '$[1]')"
    " AND checkpoint_id = json_extract(j.value, '$[2]')"
)
# Of a JSON list of thread, namespace and checkpoint.
DROP_WHAT_IS_OVER: Final = (
    "DELETE FROM writes WHERE rowid IN ("
    f"SELECT w.rowid FROM json_each(?1) j CROSS JOIN writes w ON w.{_AT_THAT} AND channel = '{PACKED}'"
    f" AND NOT EXISTS (SELECT 1 FROM writes WHERE {_AT_THAT} AND idx < 0))"
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
