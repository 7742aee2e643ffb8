"""What can be wrong with the files of threads: lost contents, half-made changes, layers left behind."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.home import Home
from lockstitch.state.journal import Effect, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.thread_lock import hold_thread, writer_of
from lockstitch.studio.amounts import count_words
from lockstitch.tools.changes.layer_folder import LAYERS, PREFIX, lock_layer_folder
from lockstitch.tools.changes.transaction import clear_layers, owner_of
from lockstitch.tools.confined.apply import apply, check
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.tree import FOLDER, Tree, open_file
from lockstitch.tools.paths import shown

Found = tuple[str, Callable[[], str] | None]  # what is wrong, and what mends it

NAMED_MAX: Final = 3  # paths and threads of one fault


def find_damaged_contents(home: Home, journal: Journal, *, read_all: bool) -> Iterator[Found]:
    """Lost contents, with who needs them; those that were changed, and not cut, only with `read_all`."""
    effects, objects = _effects_by_digest(journal), journal.objects
    for digest in sorted(effects):
        if _is_whole(objects, digest) if read_all else objects.has(digest):
            continue
        places = _places_with(digest, effects[digest])
        where = ", ".join(dict.fromkeys(shown(path) for _, path in effects[digest]))[:200]
        if places:
            text = f"the kept content {digest[:12]} of {where} is lost; {shown(places[0][1])} still has it"
            yield text, partial(_keep_again, home, digest, *places[0])
        else:
            steps = {f"{e.tool or e.kind} of {e.at[:19]} in thread {e.thread_id}" for e, _ in effects[digest]}
            text = f"the kept content {digest[:12]} of {where} is lost: rewind cannot restore it at "
            yield text + "; ".join(sorted(steps)[:NAMED_MAX]), None


def find_unfinished(home: Home, journal: Journal, *, holder: str) -> Iterator[Found]:
    """Changes of files that were begun and not finished, of threads that nobody writes."""
    for effect in journal.sealed():
        if not effect.thread_id or writer_of(home.locks, effect.thread_id):
            continue
        text = f"thread {effect.thread_id}: {effect.tool} on {_paths(effect)} was cut off"
        hindrance = _hindrance(journal, effect)
        if hindrance:
            yield f"{text} and cannot be finished: {hindrance}", None
        else:
            yield text, partial(_finish, home, effect, holder=holder)


def find_left_layers(home: Home, workspaces: set[str]) -> Iterator[Found]:
    """Layers of commands that were killed; those that a thread owns wait for a person, and stay."""
    for workspace in sorted(workspaces):
        root = Path(workspace)
        places = {home.path / LAYERS, Path(os.path.realpath(root)).parent}
        layers = {layer for place in places for layer in place.glob(f"{PREFIX}*") if not _is_in_use(layer)}
        left = [layer for layer in layers if owner_of(layer) is None]
        if left:
            words = count_words(len(left), "layer")
            text = f"{words} of commands that were cut off, for {shown(workspace)}"
            yield text, partial(_clear, root, home.path)


def _effects_by_digest(journal: Journal) -> dict[str, list[tuple[Effect, str]]]:
    found: dict[str, list[tuple[Effect, str]]] = {}
    for thread_id in sorted({thread for users in journal.users().values() for thread in users}):
        for effect in journal.of_thread(thread_id):
            for change in effect.changes:
                for node in (change.before, change.after):
                    if node and node.kind == "file":
                        found.setdefault(node.digest, []).append((effect, change.path))
    return found


def _is_whole(objects: ObjectStore, digest: str) -> bool:
    try:
        for _ in objects.pieces(digest):
            pass
    except SystemFaultError:
        return False
    return True


def _places_with(digest: str, needed: list[tuple[Effect, str]]) -> list[tuple[str, str]]:
    """Workspaces and paths where a file has that content now."""
    found = []
    for workspace, path in dict.fromkeys((effect.workspace, path) for effect, path in needed):
        with suppress(OSError), _opened(workspace) as root, Tree(root) as tree:
            node = tree.node(path)
            if node and node.kind == "file" and node.digest == digest:
                found.append((workspace, path))
    return found


def _keep_again(home: Home, digest: str, workspace: str, path: str) -> str:
    with open_ledger(home.ledger_db) as ledger:
        objects = ObjectStore(home.objects, ledger)
        objects.drop(digest)
        with _opened(workspace) as root, Tree(root) as tree, tree.parent(path) as (folder, name):
            fd = open_file(folder, name)
            try:
                kept = objects.put_file(fd)
            finally:
                os.close(fd)
        objects.sync()
    if kept != digest:
        return f"{shown(path)} was changed meanwhile: {digest[:12]} stays lost"
    return f"the content {digest[:12]} is kept again, from {shown(path)}"


def _hindrance(journal: Journal, effect: Effect) -> str:
    """Why an effect cannot be finished; empty where it can."""
    if journal.position(effect.thread_id) != effect.parent:
        return "the thread has changed files since"
    try:
        with _opened(effect.workspace) as root:
            conflicts = check(root, effect.changes)
    except OSError as error:
        return f"its workspace cannot be read ({(error.strerror or 'unknown error').lower()})"
    if conflicts:
        return f"somebody else has changed {shown(conflicts[0].path)} since"
    return ""


def _finish(home: Home, effect: Effect, *, holder: str) -> str:
    with (
        hold_thread(home.locks, effect.thread_id, holder=holder),
        open_ledger(home.ledger_db) as ledger,
        _opened(effect.workspace) as root,
    ):
        objects = ObjectStore(home.objects, ledger)
        conflicts = apply(root, effect.changes, KeptBytes(objects.pieces))
        if conflicts:
            return f"{shown(conflicts[0].path)} was changed meanwhile: the change stays unfinished"
        Journal(ledger, objects).finish(effect.id)
    return f"{effect.tool} on {_paths(effect)} is finished"


def _is_in_use(layer: Path) -> bool:
    try:
        os.close(lock_layer_folder(layer))
    except OSError:  # or somebody else's
        return True
    return False


def _clear(root: Path, home: Path) -> str:
    return f"{count_words(clear_layers(root, home=home), 'layer')} deleted"


def _paths(effect: Effect) -> str:
    named = [shown(change.path) for change in effect.changes[:NAMED_MAX]]
    more = len(effect.changes) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    fd = os.open(folder, FOLDER)
    try:
        yield fd
    finally:
        os.close(fd)
