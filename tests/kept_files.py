"""Effects for tests: files that a thread changed, sealed in its journal as a run does it."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstitch.state.home import Home
from lockstitch.state.journal import BEGINNING, Effect, EffectStatus, Journal, new_effect_id
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.call_journal import StepJournal

AT = "2026-05-31T12:00:00.000+00:00"


def step_of(journal: Journal, workspace: Path) -> StepJournal:
    """The first step `p` of thread `t`."""
    return StepJournal(
        journal=journal,
        thread_id="t",
        checkpoint_id="p",
        workspace=workspace,
        head=BEGINNING,
        now=lambda: AT,
    )


@contextmanager
def open_objects(home: Home) -> Iterator[ObjectStore]:
    """The contents of a home; what was put is on the disk afterwards."""
    with open_ledger(home.ledger_db) as ledger:
        objects = ObjectStore(home.objects, ledger)
        yield objects
        objects.sync()


def damage_content(home: Home, data: bytes, *, lose: bool = True) -> None:
    """Lose a content, or change its bytes and not its length."""
    digest = hashlib.sha256(data).hexdigest()
    file = home.objects / digest[:2] / digest[2:]
    if file.exists():
        os.truncate(file, 30) if lose else file.write_bytes(file.read_bytes()[:-1] + b"?")
        return
    damage = "DELETE FROM contents" if lose else "UPDATE contents SET payload = zeroblob(length(payload))"
    with open_ledger(home.ledger_db) as ledger:
        assert ledger.execute(f"{damage} WHERE digest = ? RETURNING 1", (digest,))


def file_node(data: bytes, mode: int = 0o644) -> Node:
    return Node("file", mode, hashlib.sha256(data).hexdigest(), len(data))


def change_file(
    home: Home,
    thread_id: str,
    path: str,
    *contents: bytes | None,
    workspace: Path | str = "/w",
    status: EffectStatus = "done",
) -> list[str]:
    """One effect for each two contents that follow one another, None being no file; their ids."""
    with open_objects(home) as objects:
        for data in contents:
            if data is not None:
                objects.put(data)
    nodes = [None if data is None else file_node(data) for data in contents]
    changes = [Change(path, *pair) for pair in itertools.pairwise(nodes)]
    return [seal(home, thread_id, change, workspace=workspace, status=status) for change in changes]


def seal(
    home: Home,
    thread_id: str,
    *changes: Change,
    workspace: Path | str = "/w",
    status: EffectStatus = "done",
) -> str:
    """One effect at the thread's position; its id. The contents must have been put."""
    with open_ledger(home.ledger_db) as ledger:
        journal = Journal(ledger, ObjectStore(home.objects, ledger))
        effect = Effect(
            id=new_effect_id(),
            thread_id=thread_id,
            parent=journal.position(thread_id),
            checkpoint_id="c",
            call_id="1",
            tool="write_file",
            kind="edit",
            at=AT,
            workspace=str(workspace),
            changes=changes,
        )
        journal.seal(effect)
        if status == "done":
            journal.finish(effect.id)
        elif status == "void":
            journal.void(effect.id)
    return effect.id
