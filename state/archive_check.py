"""An archive read to its end and checked: what it says is believed only as far as it fits here."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lockstitch.state.archive_file import Member, damaged, open_archive
from lockstitch.state.archive_rows import (
    COLUMNS,
    INTEGER_MAX,
    KEYS,
    Cell,
    check_lines_of_effects,
    parse_effect,
    parse_lines,
    parse_row,
    parse_thread,
)
from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.journal import Effect
from lockstitch.state.thread_export import digests_of
from lockstitch.state.threads import ThreadRow, check_thread_id

FIRST: Final = ("thread.json", "effects.jsonl", "intents.jsonl", "events.jsonl")
LAST: Final = ("checkpoints.jsonl", "writes.jsonl")
THREAD_BYTES_MAX: Final = 1024 * 1024  # of the line in the index

Rows = list[tuple[Cell, ...]]


@dataclass
class Incoming:
    """What an archive holds, read to its end and checked; of the largest parts only that they fit.

    Attributes:
        effects: each after the one before it.
        missing: digests of contents that were gone already when the thread was exported.
        size: bytes of all members.
    """

    path: Path
    thread_id: str
    missing: set[str]
    size: int
    row: ThreadRow = field(init=False)
    position: str = ""
    last_seq: int = 0
    effects: list[Effect] = field(default_factory=list)
    intents: Rows = field(default_factory=list)
    events: Rows = field(default_factory=list)


def read_incoming(path: Path) -> Incoming:
    """Read an archive to its end and check all of it. Writes nothing.

    Raises:
        UsageError: it cannot be read, is of a newer version, is damaged, or holds what no thread can.
    """
    with open_archive(path) as archive:
        incoming = _parse_head(path, archive.head, archive.members)
        for member, pieces in archive.contents():
            _read_member(incoming, member, pieces)
    check_lines_of_effects(incoming.effects, incoming.position)
    held = {member.digest for member in archive.members if member.name.startswith("objects/")}
    if set(digests_of(incoming.effects)) != held | incoming.missing or held & incoming.missing:
        raise damaged("its contents are not those that its changes of files name")
    return incoming


def _parse_head(path: Path, head: dict[str, Any], members: list[Member]) -> Incoming:
    thread_id, missing = head.get("thread_id"), head.get("missing")
    try:
        canonical = check_thread_id(str(thread_id))
    except ThreadUnknownError as error:
        raise damaged("its thread has no id") from error
    if (
        canonical != thread_id
        or not isinstance(missing, list)
        or not all(isinstance(m, str) for m in missing)
    ):
        raise damaged("its manifest does not fit")
    names = [member.name for member in members]
    loose = members[len(FIRST) : -len(LAST)]
    if tuple(names[: len(FIRST)]) != FIRST or tuple(names[-len(LAST) :]) != LAST:
        raise damaged("it does not hold what a thread is made of")
    for member in loose:
        folder, _, name = member.name.partition("/")
        if folder not in {"spill", "objects"} or not member.digest.startswith(name):
            raise damaged(f"{member.name[:80]} is no kept text or content")
    return Incoming(path, canonical, set(missing), sum(member.size for member in members))


def _read_member(incoming: Incoming, member: Member, pieces: Iterator[bytes]) -> None:
    table = member.name.removesuffix(".jsonl")
    if member.name == "thread.json":
        if member.size > THREAD_BYTES_MAX:
            raise damaged("its line in the index is too long")
        _read_thread(incoming, list(parse_lines(pieces, lambda found: found)))
    elif table == "effects":
        incoming.effects = list(parse_lines(pieces, parse_effect))
    elif table in COLUMNS:
        rows = _once_each(table, parse_lines(pieces, lambda found: parse_row(table, found)))
        if table == "intents":
            incoming.intents = list(rows)
        elif table == "events":
            incoming.events = [_checked_event(row, incoming) for row in rows]
        else:
            for _ in rows:
                pass  # they fit; they are read again when they are written
    elif table.startswith("spill/"):
        text_of(b"".join(pieces))
    else:
        for _ in pieces:
            pass


def _once_each(table: str, rows: Iterator[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    seen: set[tuple[Cell, ...]] = set()
    for row in rows:
        key = tuple(row[place] for place in KEYS[table])
        if key in seen:
            raise damaged(f"a row of {table} is in it twice")
        seen.add(key)
        yield row


def _read_thread(incoming: Incoming, lines: list[Any]) -> None:
    line = lines[0] if len(lines) == 1 and isinstance(lines[0], dict) else {}
    position, last_seq = line.pop("position", None), line.pop("last_seq", None)
    incoming.row = parse_thread(line)
    if incoming.row.thread_id != incoming.thread_id or not isinstance(position, str):
        raise damaged("its line in the index is another thread's")
    if type(last_seq) is not int or not 0 <= last_seq < INTEGER_MAX:
        raise damaged("its line in the index does not fit")
    incoming.position, incoming.last_seq = position, last_seq


def _checked_event(row: tuple[Cell, ...], incoming: Incoming) -> tuple[Cell, ...]:
    seq, _, body = row
    try:
        told = json.loads(str(body))
    except (ValueError, RecursionError) as error:
        raise damaged("an event in it is no JSON") from error
    if not isinstance(told, dict) or (told.get("thread_id"), told.get("seq")) != (incoming.thread_id, seq):
        raise damaged("an event in it is another thread's")
    return row


def text_of(data: bytes) -> str:
    """A kept text.

    Raises:
        UsageError: it is none.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise damaged("a kept text in it is no text") from error
