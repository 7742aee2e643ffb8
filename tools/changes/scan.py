"""What a command changed where it ran in the workspace itself: found by a scan.

    baseline = take_baseline(root, place=place, objects=objects)
    ...run the command, and wait until all its processes have ended...
    found = find_changes(root, baseline, objects=objects)
    ...seal found.changes in the journal: the files have them already...

For systems without overlays; `transaction` is the better way. `.git`, `.lockstitch` and our home are never
part of it, nor are ignored folders that are large, nor FIFOs, sockets and devices.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.home import explain_refusal
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change
from lockstitch.tools.changes.ignored_folders import IGNORE_FILE
from lockstitch.tools.changes.scan_baseline import (
    COPIES_BYTES_MAX,
    COPY_BYTES_MAX,
    IGNORED_BYTES_MAX,
    IGNORED_FILES_MAX,
    Resolution,
)
from lockstitch.tools.changes.scan_comparison import Comparison
from lockstitch.tools.changes.scan_index import (
    REF_BYTES,
    UNKNOWN,
    Index,
    join_path,
    kept_digests,
    load_index,
    save_index,
    split_names,
    unpack_folder,
)
from lockstitch.tools.changes.scan_walk import look
from lockstitch.tools.confined.confinement import Identity, identity_of
from lockstitch.tools.paths import ROOT, shown

SAID_MAX: Final = 5  # paths that are named in one remark
SAMPLES: Final = 8  # objects that are looked for: where the store was emptied, all of them are missing


@dataclass(frozen=True)
class Baseline:
    """A workspace as it was at one moment.

    Attributes:
        index: every folder and file, and where its bytes are.
        place: the file where the index is kept.
        hidden: folders that are never entered.
        remarks: what could not be restored if a command changed it, in words.
        uncovered: the paths of that; a folder stands for all in it.
    """

    index: Index
    place: Path
    hidden: frozenset[Identity]
    remarks: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScanChanges:
    """What differs from the baseline.

    Attributes:
        changes: by path, a folder before what is in it; the bytes of all files before and after are in the
            store. A folder above them that its owner may not enter is there with the same node twice.
        remarks: what is not covered, in words.
        uncovered: paths that were changed and cannot be restored, and folders in which that is not known.
    """

    changes: list[Change] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)


def take_baseline(root: int, *, place: Path, objects: ObjectStore, hidden: Iterable[Path] = ()) -> Baseline:
    """Know every file below a folder as it is now. Reads only those that changed since the last time.

    Waits for the disk and for git: call it from a worker thread.

    Args:
        root: descriptor of the workspace.
        place: a file in our home for what is known of this workspace, and of no other.
        objects: takes the bytes that nobody else has.
        hidden: our home, should it lie in the workspace; the folder of `place` always is.

    Raises:
        SystemFaultError: the home folder cannot be written, or the workspace not be read.
    """
    hidden_ids = frozenset(_identities([place.parent, *hidden]))
    with _faults("the workspace"):
        index = _usable(load_index(place), objects) or Index()
        new, closed = _resolved(root, index, objects, hidden_ids)
        if _rules_changed(index, new):
            again = Index(new.folders, new.copied)
            new, closed = _resolved(root, again, objects, hidden_ids)
    if new.folders != index.folders or new.left_out != index.left_out:
        objects.flush()  # before the index says that they are kept
        with _faults("the home folder"):
            save_index(place, new)
    return _described(Baseline(new, place, hidden_ids), closed)


def known_baseline(place: Path, *, hidden: Iterable[Path] = ()) -> Baseline | None:
    """The workspace as `take_baseline` last saw it, also in another process; None where that is not known."""
    index = load_index(place)
    return Baseline(index, place, frozenset(_identities([place.parent, *hidden]))) if index else None


def find_changes(root: int, baseline: Baseline, *, objects: ObjectStore) -> ScanChanges:
    """What is other than in the baseline. All processes of the command must have ended.

    Waits for the disk and for git: call it from a worker thread. Ask once a baseline.

    Raises:
        SystemFaultError: the home folder cannot be written, or the workspace not be read.
    """
    index = baseline.index
    with _faults("the workspace"):
        found = look(root, index.folders, hidden=baseline.hidden, left_out=index.left_out)
        comparison = Comparison(root, objects, index)
        new = comparison.run(found)
    if new.folders != index.folders or new.left_out != index.left_out:
        # with other rules, the next baseline asks anew
        kept = Index(new.folders, new.copied) if _rules_changed(index, new) else new
        objects.flush()  # before the index says that they are kept
        with _faults("the home folder"):
            save_index(baseline.place, kept)
    left_out = sorted(new.left_out | index.left_out)
    remarks = [_said(paths, words) for words, paths in comparison.not_covered.items()]
    if left_out:
        remarks.append(_said(left_out, "ignored and large: what a command does there is not covered"))
    uncovered = sorted({path for paths in comparison.not_covered.values() for path in paths})
    return ScanChanges(comparison.changes, remarks, uncovered + left_out)


def _resolved(
    root: int, index: Index, objects: ObjectStore, hidden: frozenset[Identity]
) -> tuple[Index, list[str]]:
    """The index of what is there now, and the folders that are closed to us."""
    found = look(root, index.folders, hidden=hidden, left_out=index.left_out)
    new = Resolution(root, objects, index).run(found)
    new.left_out &= _present(new)
    return new, found.closed


def _described(baseline: Baseline, closed: list[str]) -> Baseline:
    unknown = [
        join_path(path, name)
        for path, folder in baseline.index.folders.items()
        if UNKNOWN[0] in folder.refs[::REF_BYTES]
        for name, entry in unpack_folder(folder).items()
        if entry.ref[:1] == UNKNOWN
    ]
    left_out = sorted(baseline.index.left_out)
    remarks = []
    if unknown:
        limits = f"{COPY_BYTES_MAX // 1024**2} MB a file, {COPIES_BYTES_MAX // 1024**3} GiB in all"
        remarks.append(_said(unknown, f"not covered: cannot be read, or beyond {limits}"))
    if closed:
        remarks.append(_said(closed, "not covered: closed to us"))
    if left_out:
        limits = f"{IGNORED_FILES_MAX} files or {IGNORED_BYTES_MAX // 1024**2} MB"
        remarks.append(_said(left_out, f"not covered: ignored by {IGNORE_FILE}, and more than {limits}"))
    baseline.remarks.extend(remarks)
    baseline.uncovered.extend(sorted({*unknown, *closed, *left_out}))
    return baseline


def _said(paths: list[str], words: str) -> str:
    named = ", ".join(map(shown, paths[:SAID_MAX]))
    more = f" and {len(paths) - SAID_MAX} more" if len(paths) > SAID_MAX else ""
    return f"{named}{more}: {words}"


def _usable(index: Index | None, objects: ObjectStore) -> Index | None:
    """The index, unless the store has lost what it stands on."""
    if index is None:
        return None
    folders = list(index.folders.values())
    for folder in folders[:: len(folders) // SAMPLES + 1]:
        digest = next(kept_digests(folder), None)
        if digest is not None and not objects.has(digest):
            return None
    return index


def _rules_changed(old: Index, new: Index) -> bool:
    """Whether a .gitignore says something else than before, where a folder is left out by one."""
    if not new.left_out:
        return False
    paths = old.folders.keys() | new.folders.keys()
    differing = [path for path in paths if old.folders.get(path) is not new.folders.get(path)]
    return any(_rules(old, path) != _rules(new, path) for path in differing)


def _rules(index: Index, path: str) -> bytes | None:
    folder = index.folders.get(path)
    entry = unpack_folder(folder).get(IGNORE_FILE) if folder else None
    return entry.ref if entry else None


def _present(index: Index) -> frozenset[str]:
    """Which of the folders that are left out are there."""

    def is_there(path: str) -> bool:
        above, _, name = path.rpartition("/")
        folder = index.folders.get(above or ROOT)
        return folder is not None and name in split_names(folder.below)

    return frozenset(filter(is_there, index.left_out))


def _identities(folders: Iterable[Path]) -> Iterator[Identity]:
    for folder in folders:
        with suppress(OSError):  # not made yet
            yield identity_of(folder.stat())


@contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SystemFaultError(
            f"what a command changes cannot be told: {what} {explain_refusal(error)}."
        ) from error
