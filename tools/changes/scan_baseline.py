"""The look before a command: where the bytes of every file are, should the command change it.

What the index knows stays. Of the rest, git lends what it has; other files are copied into the store.
"""

import os
import stat
from collections.abc import Iterator
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.objects import ObjectStore
from lockstitch.tools.changes.git_blobs import GitBlobs, Times, Tracked, open_git
from lockstitch.tools.changes.ignored_folders import find_ignored
from lockstitch.tools.changes.scan_index import (
    KEPT,
    UNKNOWN,
    Entry,
    Folder,
    Index,
    bare_ref,
    ctime_of,
    distrust,
    is_young,
    join_path,
    mode_of,
    pack_folder,
    size_of,
    unpack_folder,
)
from lockstitch.tools.changes.scan_reading import LENT_KINDS, compare_file, keep_file, lent_ref, read_link
from lockstitch.tools.changes.scan_stamps import STAMP
from lockstitch.tools.changes.scan_walk import Listing, Look
from lockstitch.tools.confined.tree import Tree
from lockstitch.tools.paths import ROOT

COPY_BYTES_MAX: Final = 8 * 1024**2  # of one file that is copied before anything changed it
COPIES_BYTES_MAX: Final = 1024**3  # of all such files; compressed, a third of it on the disk
IGNORED_FILES_MAX: Final = (
    2_000  # in an ignored folder: more are dependencies, which a command can make again
)
IGNORED_BYTES_MAX: Final = 16 * 1024**2
GIT_FILES_MIN: Final = 64  # new to us: to copy fewer is quicker than four questions to git
_WORD: Final = 2**32  # git's index keeps 32 bits of a size and an inode


class Resolution:
    """Turns a look into an index in which every file has a reference."""

    def __init__(self, root: int, objects: ObjectStore, index: Index) -> None:
        """`root` is the workspace's descriptor; `index` what was known before."""
        self._root = root
        self._objects = objects
        self._index = index
        self._copied = index.copied
        self._entries: dict[str, dict[str, Entry]] = {}
        self._open: dict[str, dict[str, bytes]] = {}  # folders, in them names, with their stamps
        self._likely: dict[str, bytes] = {}  # references to blobs that a file may be equal to
        self._before: dict[str, dict[str, Entry]] = {}

    def run(self, look: Look) -> Index:
        """The new index.

        Raises:
            SystemFaultError: the store cannot be written.
        """
        for path, found in look.folders.items():
            if isinstance(found, Listing):
                self._take_known(path, found)
        left_out = self._index.left_out | self._leave_out(look)
        if sum(map(len, self._open.values())) >= GIT_FILES_MIN:
            self._borrow(look.began_ns)
        with Tree(self._root) as tree:
            for path in self._open:
                self._read_folder(tree, path)
        folders = {
            path: self._packed(path, found) if isinstance(found, Listing) else found
            for path, found in look.folders.items()
            if not is_below(path, left_out)
        }
        return Index(folders, self._copied, left_out, frozenset(look.closed))

    def _take_known(self, path: str, found: Listing) -> None:
        known = self._index.folders.get(path)
        before = self._before[path] = unpack_folder(known) if known else {}
        same = {n: before[n] for n, stamp in found.files.items() if n in before and before[n].stamp == stamp}
        self._entries[path] = same
        rest = {name: stamp for name, stamp in found.files.items() if name not in same}
        if rest:
            self._open[path] = rest

    def _leave_out(self, look: Look) -> frozenset[str]:
        if not self._open:
            return frozenset()
        left_out = find_large_ignored(self._root, look, self._open)
        self._open = {path: names for path, names in self._open.items() if not is_below(path, left_out)}
        return left_out

    def _borrow(self, began_ns: int) -> None:
        git = open_git(self._root)
        if git is not None:
            try:
                self._borrow_from(git, began_ns)
            except ToolExecutionError:  # no repository, or one that git does not read: copies do
                return

    def _borrow_from(self, git: GitBlobs, began_ns: int) -> None:
        tracked = git.tracked()
        wanted = {path: stamp for path, stamp in self._files_left() if path in tracked}
        if not wanted:
            return
        sizes = git.sizes(tracked[path].blob for path in wanted)
        fitting = {
            path: stamp for path, stamp in wanted.items() if sizes.get(tracked[path].blob) == size_of(stamp)
        }
        clean = {path for path, stamp in fitting.items() if _is_clean(stamp, tracked[path])}
        clean -= git.converted(clean)
        for path, stamp in fitting.items():
            ref = lent_ref(tracked[path].blob)
            if path not in clean:
                self._likely[path] = ref
                continue
            folder, _, name = path.rpartition("/")
            young = is_young(ctime_of(stamp), began_ns)
            self._entries[folder or ROOT][name] = Entry(distrust(stamp) if young else stamp, ref)

    def _files_left(self) -> Iterator[tuple[str, bytes]]:
        for folder, names in self._open.items():
            for name, stamp in names.items():
                if stat.S_ISREG(mode_of(stamp)):
                    yield join_path(folder, name), stamp

    def _read_folder(self, tree: Tree, path: str) -> None:
        entries = self._entries[path]
        names = [name for name in self._open[path] if name not in entries]
        if not names:
            return
        try:
            fd = tree.open_folder(path)
        except OSError:  # gone or closed since the walk
            entries |= {name: Entry(self._open[path][name], bare_ref(UNKNOWN)) for name in names}
            return
        try:
            for name in names:
                self._read(fd, path, name)
        finally:
            os.close(fd)

    def _read(self, fd: int, folder: str, name: str) -> None:
        stamp, before = self._open[folder][name], self._before[folder].get(name)
        try:
            if stat.S_ISLNK(mode_of(stamp)):
                entry = read_link(fd, name)
            else:
                entry = self._refer(fd, join_path(folder, name), stamp, before)
        except FileNotFoundError:
            return
        self._entries[folder][name] = entry or Entry(stamp, bare_ref(UNKNOWN))

    def _refer(self, fd: int, path: str, stamp: bytes, before: Entry | None) -> Entry | None:
        """By git where it has the same bytes, else by a copy; None where that would be too much."""
        name = path.rpartition("/")[2]
        likely = self._likely.get(path, before.ref if before and before.ref[:1] in LENT_KINDS else b"")
        if likely and (entry := compare_file(fd, name, likely)):
            return entry
        was_kept = before is not None and before.ref[:1] == KEPT
        size = size_of(stamp)
        if not was_kept and (size > COPY_BYTES_MAX or self._copied + size > COPIES_BYTES_MAX):
            return None
        entry = keep_file(fd, name, self._objects)
        if entry and not (before and before.ref == entry.ref):
            self._copied += size
        return entry

    def _packed(self, path: str, found: Listing) -> Folder:
        entries = self._entries[path]
        in_order = {name: entries[name] for name in found.files if name in entries}
        return pack_folder(found.stamp, in_order, found.below)


def find_large_ignored(root: int, look: Look, fresh: dict[str, dict[str, bytes]]) -> frozenset[str]:
    """The topmost ignored folders with too much in them, among those that hold something new.

    Args:
        root: descriptor of the workspace.
        look: all that is there.
        fresh: the folders, with the stamps of the files in them that are new.
    """
    grown = {above for path in fresh for above in _with_folders_above(path)}
    files, sizes = dict.fromkeys(grown, 0), dict.fromkeys(grown, 0)
    for path, found in look.folders.items():
        above = [one for one in _with_folders_above(path) if one in grown]
        if above:
            stamps = found.files.values() if isinstance(found, Listing) else [found.stamps]
            held = [row[1] for stamp in stamps for row in STAMP.iter_unpack(stamp)]
            for one in above:
                files[one] += len(held)
                sizes[one] += sum(held)
    large = {one for one in grown if files[one] > IGNORED_FILES_MAX or sizes[one] > IGNORED_BYTES_MAX}
    ignored = find_ignored(root, large)
    for one in sorted(ignored):  # a folder before those in it
        parts = [below for below in ignored if below.rpartition("/")[0] == one]
        if sum(files[below] for below in parts) == files[one]:
            ignored.discard(one)  # what is not ignored there is yet to come
    return frozenset(one for one in ignored if not is_below(one.rpartition("/")[0], ignored))


def is_below(path: str, folders: frozenset[str] | set[str]) -> bool:
    """Whether a path is one of the folders, or lies in one."""
    return bool(folders) and any(one in folders for one in _with_folders_above(path))


def _with_folders_above(path: str) -> Iterator[str]:
    """The path and the folders it lies in, without the workspace itself."""
    while path and path != ROOT:
        yield path
        path = path.rpartition("/")[0]


def _is_clean(stamp: bytes, tracked: Tracked) -> bool:
    _, size, mtime_ns, ctime_ns, inode, _ = STAMP.unpack(stamp)
    return tracked.times == Times(ctime_ns, mtime_ns, inode % _WORD, size % _WORD)
