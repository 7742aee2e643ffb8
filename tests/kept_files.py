"""Effects for tests: files that a thread changed, sealed in its journal as a run does it."""

import hashlib
import itertools
from pathlib import Path

from lockstitch.state.home import Home
from lockstitch.state.journal import Effect, EffectStatus, Journal, new_effect_id
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node

AT = "2026-05-31T12:00:00.000+00:00"


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
    objects = ObjectStore(home.objects)
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
        journal = Journal(ledger, ObjectStore(home.objects))
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
