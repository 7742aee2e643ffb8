"""Rows of the databases as lines of JSON, and back: nothing is taken that such a row could not hold.

Bytes are spelt one character a byte (Latin-1), which keeps text in them as it is. Nothing is unpickled, and
nothing is built from a row: what it holds is read later, by the saver's own strict reader.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from lockstitch.state.archive_file import damaged
from lockstitch.state.journal import BEGINNING, Effect
from lockstitch.state.threads import ThreadRow
from lockstitch.state.tree_change import Change, Node, from_json, to_json

LINE_BYTES_MAX: Final = 256 * 1024 * 1024  # of one row, held in memory: 50,000 turns of 5 KB in one snapshot
PATH_BYTES_MAX: Final = 4096  # PATH_MAX of Linux
ID_CHARS_MAX: Final = 200
# What a value of a checkpoint may be stored as: `json` and `pickle` would build whatever they name.
KINDS: Final = frozenset({"msgpack", "bytes", "bytearray", "null"})
CHECKPOINT_PARTS: Final = frozenset({"id", "channel_values", "channel_versions", "versions_seen"})
_MODES: Final = {"file": 0o777, "folder": 0o3777, "link": 0}  # set-id bits of a file are powers
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
INTEGER_MAX: Final = 2**53  # what every JSON reader takes for the same number

Cell = str | int | bytes | None
Parsed = TypeVar("Parsed")

# Columns beside the thread's id, in their order: text, integer or bytes; with `?` it may be missing.
COLUMNS: Final = {
    "checkpoints": {
        "checkpoint_ns": "text",
        "checkpoint_id": "text",
        "parent_checkpoint_id": "text?",
        "type": "text",
        "checkpoint": "bytes",
        "metadata": "bytes?",
    },
    "writes": {
        "checkpoint_ns": "text",
        "checkpoint_id": "text",
        "task_id": "text",
        "task_path": "text",
        "idx": "integer",
        "channel": "text",
        "type": "text?",
        "value": "bytes?",
    },
    "intents": {"checkpoint_id": "text", "call_id": "text", "begun_at": "text"},
    "events": {"seq": "integer", "told_at": "text", "body": "text"},
}
# Places of the columns that no two rows of a thread have in common.
KEYS: Final = {"checkpoints": (0, 1), "writes": (0, 1, 2, 4), "intents": (0, 1), "events": (0,)}
_TYPES: Final[dict[str, Any]] = {"text": str, "integer": int, "bytes": bytes}


def dump_line(value: Any) -> bytes:
    """One line of JSON; half characters stay as they are."""
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
    )


def dump_row(cells: Iterable[Any]) -> bytes:
    """A row as a line."""
    return dump_line([cell.decode("latin-1") if isinstance(cell, bytes) else cell for cell in cells])


def parse_lines(pieces: Iterable[bytes], parse: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    """What each line holds.

    Raises:
        UsageError: a line is too long, no JSON, or not what `parse` takes.
    """
    left: list[bytes] = []  # of the line that is not whole yet; joined once, however many pieces it has
    length = 0
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield parse(_loads(b"".join([*left, end])))
            left, length = [], 0
        left.append(rest)
        length += len(rest)
        if length > LINE_BYTES_MAX:
            raise damaged("a row of it is too long")
    if length:
        raise damaged("its last row is not whole")


def parse_row(table: str, found: Any) -> tuple[Cell, ...]:
    """The cells of a row of that table, without the thread's id.

    Raises:
        UsageError: they are not what the table holds.
    """
    kinds = COLUMNS[table]
    if not isinstance(found, list) or len(found) != len(kinds):
        raise damaged(f"a row of {table} does not fit")
    row = tuple(_cell(table, kind, value) for (_, kind), value in zip(kinds.items(), found, strict=True))
    cells = dict(zip(kinds, row, strict=True))
    if table == "checkpoints":
        _check_checkpoint(cells)
    elif table == "writes" and cells["type"] not in KINDS:
        raise damaged("a value in it is stored in a way that is never read")
    return row


def parse_thread(found: Any) -> ThreadRow:
    """The thread's line in the index.

    Raises:
        UsageError: it is none.
    """
    return _validated(ThreadRow, found)


def dump_effect(effect: Effect) -> bytes:
    """An effect as a line."""
    return dump_line(vars(effect) | {"changes": json.loads(to_json(effect.changes))})


def parse_effect(found: Any) -> Effect:
    """An effect whose paths, modes and digests are such as a run makes.

    Raises:
        UsageError: it is none.
    """
    try:
        changes = from_json(json.dumps(found["changes"]))
        effect = _validated(Effect, found | {"changes": [_plain(change) for change in changes]})
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise damaged("a change of files in it does not fit") from error
    if not 0 < len(effect.id) <= ID_CHARS_MAX or any(not _is_usual(change) for change in effect.changes):
        raise damaged("a change of files in it names what no change may name")
    return effect


def check_lines_of_effects(effects: list[Effect], position: str) -> None:
    """See that every effect stands on one that came before it, or on the beginning, and the position on one.

    Raises:
        UsageError: it does not.
    """
    known = {BEGINNING}
    for effect in effects:
        if effect.parent not in known or effect.id in known:
            raise damaged("its changes of files do not follow one another")
        known.add(effect.id)
    if position not in known:
        raise damaged("it names a state of the files that it does not hold")


def _check_checkpoint(cells: dict[str, Any]) -> None:
    """See that it is one, without building anything of what is in it."""
    import ormsgpack

    try:
        found = ormsgpack.unpackb(
            cells["checkpoint"], ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS
        )
        about = json.loads(cells["metadata"] or b"{}")
    except (ValueError, RecursionError) as error:
        raise damaged("a checkpoint in it cannot be read") from error
    whole = isinstance(found, dict) and isinstance(about, dict) and found.keys() >= CHECKPOINT_PARTS
    if cells["type"] != "msgpack" or not whole or found["id"] != cells["checkpoint_id"]:
        raise damaged("a checkpoint in it does not fit")


def _plain(change: Change) -> dict[str, Any]:
    return asdict(change)


def _is_usual(change: Change) -> bool:
    parts = change.path.split("/")
    try:
        length = len(change.path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
    clean = "\0" not in change.path and not {"", ".", ".."} & set(parts) and length <= PATH_BYTES_MAX
    return clean and all(node is None or _is_node(node) for node in (change.before, change.after))


def _is_node(node: Node) -> bool:
    if node.mode & ~_MODES[node.kind] or node.size < 0:
        return False
    if node.kind == "file":
        return _DIGEST.fullmatch(node.digest) is not None
    if node.kind == "link":
        return bool(node.digest) and "\0" not in node.digest and len(node.digest) < PATH_BYTES_MAX
    return not node.digest


def _cell(table: str, kind: str, value: Any) -> Cell:
    if value is None and kind.endswith("?"):
        return None
    wanted = _TYPES[kind.rstrip("?")]
    try:
        found: Any = value.encode("latin-1") if wanted is bytes and isinstance(value, str) else value
    except UnicodeEncodeError:
        found = None
    if type(found) is not wanted or (wanted is int and abs(found) > INTEGER_MAX):
        raise damaged(f"a row of {table} does not fit")
    if wanted is str and not _is_text(found):
        raise damaged(f"a row of {table} holds half a character")
    cell: Cell = found
    return cell


def _is_text(value: str) -> bool:
    """Whether SQLite can hold it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _loads(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise damaged("a row of it is no JSON") from error


def _validated(kind: type[Parsed], found: Any) -> Parsed:
    """A dataclass of exactly the fields that were found."""
    if not isinstance(found, dict) or found.keys() != {known.name for known in fields(kind)}:  # type: ignore[arg-type]
        raise damaged("a row of it does not fit")
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        raise damaged("a row of it does not fit") from error
