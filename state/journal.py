"""The journal: every change of a workspace's files as one effect, which is on disk before the files change.

An effect is `sealed` when its list of changes and all their bytes are kept: from then on it can be finished,
whoever dies. `done` says that the files have it; `void`, that it was given up and they do not. Each effect
names the one before it, so the effects of a thread form a chain, which a fork shares up to where it left.
A thread's position is the effect that its files on disk have; the empty id stands for the beginning.
"""

import uuid
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NoReturn

from lockstitch.state.errors import SystemFaultError, UsageError
from lockstitch.state.ledger import Ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, digests_in, from_json, to_json

EffectKind = Literal["edit", "command", "rewind"]
EffectStatus = Literal["sealed", "done", "void"]

BEGINNING: Final = ""  # the head of a thread whose files nobody has changed yet
# JSON of more is compressed: a list of 10,000 changes shrinks to a third, one of ten is not worth a frame.
PLAIN_BYTES_MAX: Final = 4 * 1024
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"  # no JSON begins so
_GONE: Final = ""  # the thread of effects whose own thread is deleted, and which a fork of it still needs


def new_effect_id() -> str:
    """A fresh id."""
    return str(uuid.uuid4())


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One row.

    Attributes:
        parent: id of the effect that the files had before; BEGINNING for the first.
        checkpoint_id: the one that the step starts from: providers use ids of calls again and again.
        call_id: of the call in its reply; empty for a rewind.
        at: when it was sealed, ISO 8601 in UTC.
        workspace: absolute.
        changes: each path once, as `compose` gives them.
        result: what the model is told of it; empty where that is not known before the files change.
    """

    id: str
    thread_id: str
    parent: str
    checkpoint_id: str
    call_id: str
    tool: str
    kind: EffectKind
    at: str
    workspace: str
    changes: tuple[Change, ...]
    result: str = ""
    status: EffectStatus = "sealed"


_NAMES: Final = tuple(field.name for field in fields(Effect))
_COLUMNS: Final = ", ".join(_NAMES)
_INSERT: Final = f"INSERT INTO effects ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"
_SELECT: Final = f"SELECT {_COLUMNS} FROM effects WHERE"
_SETTLE: Final = "UPDATE effects SET status = ? WHERE id = ? AND status = 'sealed' RETURNING thread_id"
_PLACE: Final = (
    "INSERT INTO positions (thread_id, head) VALUES (?, ?)"
    " ON CONFLICT (thread_id) DO UPDATE SET head = excluded.head"
)
_LINEAGE: Final = (
    "WITH RECURSIVE line (id, parent) AS (SELECT id, parent FROM effects WHERE id = ?"
    " UNION SELECT e.id, e.parent FROM effects e JOIN line ON e.id = line.parent) SELECT id, parent FROM line"
)
_TAKE_IN: Final = (
    f"{_INSERT} ON CONFLICT (id) DO UPDATE SET thread_id = excluded.thread_id WHERE thread_id = '{_GONE}'"
)
# What other threads stand on: their positions, their effects, and all behind these.
_FORGET: Final = (
    "WITH RECURSIVE needed (id) AS (SELECT head FROM positions WHERE thread_id <> :thread"
    f" UNION SELECT id FROM effects WHERE thread_id NOT IN (:thread, '{_GONE}')"
    " UNION SELECT e.parent FROM effects e JOIN needed USING (id))"
    f" DELETE FROM effects WHERE thread_id IN (:thread, '{_GONE}') AND id NOT IN (SELECT id FROM needed)"
)


class Journal:
    """The effects of all threads. Waits for the disk: call it from a worker thread.

    Attributes:
        objects: where the bytes of the files are that the effects name.

    Every method raises HomeUnusableError or SystemFaultError where the home cannot be used.
    """

    def __init__(self, ledger: Ledger, objects: ObjectStore) -> None:
        self._ledger = ledger
        self.objects = objects

    def seal(self, effect: Effect) -> None:
        """Promise the effect: what was put and the row are on disk on return, also in a power cut.

        All bytes before and after that its changes name must have been put.
        """
        row = vars(effect) | {"changes": _pack(effect.changes)}
        with self.objects.synced():
            self._ledger.execute(_INSERT, [row[name] for name in _NAMES])

    def take_in(self, effect: Effect) -> None:
        """Insert an effect as it was made elsewhere, or take over one that so far only forks stood on.

        With no thread it is one that a fork stands on. Raises as `seal`, and

        Raises:
            UsageError: there is another effect of that id.
        """
        found = self._ledger.execute(f"{_SELECT} id = ?", (effect.id,))
        known = _effect(found[0]) if found else effect
        if (known.parent, known.changes) != (effect.parent, effect.changes):
            raise UsageError("this home has another change of files under the same id: import with --as-new.")
        row = vars(effect) | {"changes": _pack(effect.changes)}
        self._ledger.execute(_TAKE_IN, [row[name] for name in _NAMES])

    def finish(self, effect_id: str) -> None:
        """Note that the files have the effect, and move its thread's position to it; again changes nothing.

        Not waited for: where a power cut loses it, the effect is sealed, and who finishes it again finds the
        files as they should be.

        Raises:
            SystemFaultError: the effect was given up, or there is none of that id.
        """
        with self._ledger.lazy_transaction():
            settled = self._ledger.execute(_SETTLE, ("done", effect_id))
            if settled:
                self._ledger.execute(_PLACE, (settled[0][0], effect_id))
        if not settled and self.effect(effect_id).status != "done":
            raise SystemFaultError("a change of files that was given up cannot be finished.")

    def void(self, effect_id: str) -> None:
        """Give a sealed effect up: the files do not have it, and nobody will finish it.

        Raises:
            SystemFaultError: the effect is done, or there is none of that id.
        """
        settled = self._ledger.execute(_SETTLE, ("void", effect_id))
        if not settled and self.effect(effect_id).status != "void":
            raise SystemFaultError("a change of files that was made cannot be given up, only taken back.")

    def effect(self, effect_id: str) -> Effect:
        """The effect of that id.

        Raises:
            SystemFaultError: there is none.
        """
        found = self._ledger.execute(f"{_SELECT} id = ?", (effect_id,))
        return _effect(found[0]) if found else _missing(effect_id)

    def of_step(self, thread_id: str, checkpoint_id: str) -> list[Effect]:
        """What the calls of the step from that checkpoint on have sealed, in order, also if given up."""
        query = f"{_SELECT} thread_id = ? AND checkpoint_id = ? ORDER BY rowid"
        return [_effect(row) for row in self._ledger.execute(query, (thread_id, checkpoint_id))]

    def unfinished(self, thread_id: str) -> list[Effect]:
        """The thread's effects that are sealed and not settled, in order; the files may have part of them."""
        query = f"{_SELECT} thread_id = ? AND status = 'sealed' ORDER BY rowid"
        return [_effect(row) for row in self._ledger.execute(query, (thread_id,))]

    def lineage(self, head: str) -> list[str]:
        """The ids of `head` and of all effects before it, the newest first; of the beginning none.

        Raises:
            SystemFaultError: one of them is missing.
        """
        parents: dict[str, str] = dict(self._ledger.execute(_LINEAGE, (head,)))
        line: list[str] = []
        while head != BEGINNING:
            if head not in parents:
                _missing(head)
            line.append(head)
            head = parents.pop(head)
        return line

    def chain(self, head: str) -> list[Effect]:
        """The effects of `lineage`, whole."""
        return [self.effect(effect_id) for effect_id in self.lineage(head)]

    def position(self, thread_id: str) -> str:
        """The effect that the thread's files on disk have; BEGINNING for a thread without any."""
        found = self._ledger.execute("SELECT head FROM positions WHERE thread_id = ?", (thread_id,))
        return str(found[0][0]) if found else BEGINNING

    def place(self, thread_id: str, head: str) -> None:
        """Move a thread's position without an effect: a fork begins there, or the files stay as they are."""
        self._ledger.execute(_PLACE, (thread_id, head))

    def forget(self, thread_id: str) -> None:
        """Drop the thread's effects and position: it is deleted, or begins anew.

        What a fork of it still stands on stays, and goes when the last such thread is forgotten. The bytes go
        when the objects are collected.
        """
        with self._ledger.transaction():
            self._ledger.execute("DELETE FROM positions WHERE thread_id = ?", (thread_id,))
            self._ledger.execute(_FORGET, {"thread": thread_id})
            self._ledger.execute("UPDATE effects SET thread_id = ? WHERE thread_id = ?", (_GONE, thread_id))

    def of_thread(self, thread_id: str) -> list[Effect]:
        """All of the thread's own effects, in order, also what was given up; not those a fork stands on."""
        query = f"{_SELECT} thread_id = ? ORDER BY rowid"
        return [_effect(row) for row in self._ledger.execute(query, (thread_id,))]

    def sealed(self) -> list[Effect]:
        """The unfinished effects of all threads, in order."""
        return [_effect(row) for row in self._ledger.execute(f"{_SELECT} status = 'sealed' ORDER BY rowid")]

    def digests(self) -> set[str]:
        """The digests of every file in any effect: what `ObjectStore.collect` must keep."""
        return set(self.users())

    def users(self) -> dict[str, set[str]]:
        """The threads whose effects name each digest."""
        found: dict[str, set[str]] = {}
        for thread_id, packed in self._ledger.execute("SELECT thread_id, changes FROM effects"):
            for digest in digests_in(_unpack(packed)):
                found.setdefault(digest, set()).add(thread_id)
        return found


def _pack(changes: tuple[Change, ...]) -> bytes:
    data = to_json(changes).encode("ascii")
    if len(data) <= PLAIN_BYTES_MAX:
        return data
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _unpack(packed: bytes) -> tuple[Change, ...]:
    try:
        return from_json(_decompressed(packed) if packed.startswith(_ZSTD_MAGIC) else packed)
    except ValueError as error:
        raise SystemFaultError(
            "ledger.db in the home folder holds a change of files that cannot be read. "
            "Run `lockstitch doctor`."
        ) from error


def _decompressed(packed: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise ValueError("the frame cannot be read") from error


def _missing(effect_id: str) -> NoReturn:
    raise SystemFaultError(
        f"the journal holds no change of files {effect_id[:36]!r}, so the files of that step cannot be "
        "restored. Run `lockstitch doctor`."
    )


def _effect(row: tuple[Any, ...]) -> Effect:
    values = dict(zip(_NAMES, row, strict=True))
    return Effect(**values | {"changes": _unpack(values["changes"])})
