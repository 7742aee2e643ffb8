"""The look after a command, compared with the index from before: changes whose bytes are all kept."""

import os
import stat
from collections.abc import Iterable
from typing import Final, NamedTuple

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.git_blobs import open_git
from lockstitch.tools.changes.scan_baseline import COPY_BYTES_MAX, find_large_ignored, is_below
from lockstitch.tools.changes.scan_index import (
    KEPT,
    UNKNOWN,
    Entry,
    Folder,
    Index,
    bare_ref,
    digest_of,
    distrust,
    join_path,
    mode_of,
    pack_folder,
    size_of,
    unpack_folder,
)
from lockstitch.tools.changes.scan_reading import (
    LENT_KINDS,
    compare_file,
    folder_node,
    keep_file,
    node_of,
    read_link,
)
from lockstitch.tools.changes.scan_walk import Listing, Look
from lockstitch.tools.confined.tree import Tree

CHANGED_BYTES_MAX: Final = 1024**3  # of the files that one command made or changed; they take 6 s to keep
_POWERS: Final = stat.S_ISUID | stat.S_ISGID
_OWNER: Final = stat.S_IRWXU

NOT_KNOWN: Final = "changed or touched, and what was there before is not kept"
NOT_LENT: Final = "changed, and git no longer has what was there before"
NOT_READ: Final = "changed, and cannot be read, or is still written to"
TOO_MUCH: Final = f"changed, beyond the {CHANGED_BYTES_MAX // 1024**3} GiB that are kept of one command"
NOT_OPEN: Final = "closed to us: what a command does there is not covered"
SPECIAL: Final = "a FIFO, socket or device now, which is not kept"
POWERS: Final = "kept without set-id bits"


class _Pair(NamedTuple):
    path: str
    before: Entry | None
    after: Entry | None


class Comparison:
    """One comparison.

    Attributes:
        changes: by path, a folder before what is in it.
        not_covered: paths by what is to be said of them.
    """

    def __init__(self, root: int, objects: ObjectStore, index: Index) -> None:
        """`root` is the workspace's descriptor; `index` has a reference for every file before."""
        self.changes: list[Change] = []
        self.not_covered: dict[str, list[str]] = {}
        self._root = root
        self._objects = objects
        self._index = index
        self._left_out: frozenset[str] = frozenset()
        self._bytes = 0
        self._pairs: list[_Pair] = []
        self._changes: dict[str, Change] = {}
        self._folders: dict[str, Folder] = {}

    def run(self, look: Look) -> Index:
        """The index after.

        Raises:
            SystemFaultError: the store cannot be written.
        """
        self._left_out = find_large_ignored(self._root, look, self._fresh(look))
        with Tree(self._root) as tree:
            for path, found in look.folders.items():
                if isinstance(found, Listing):
                    self._compare(tree, path, found, look)
                else:
                    self._folders[path] = found
        for path, known in self._index.folders.items():
            if path not in look.folders:
                self._lose(path, known, look)
        self._conclude()
        return Index(self._folders, self._index.copied, self._index.left_out | self._left_out)

    def _fresh(self, look: Look) -> dict[str, dict[str, bytes]]:
        fresh: dict[str, dict[str, bytes]] = {}
        for path, found in look.folders.items():
            if isinstance(found, Listing):
                known = self._index.folders.get(path)
                before = unpack_folder(known) if known else {}
                new = {name: stamp for name, stamp in found.files.items() if name not in before}
                if new:
                    fresh[path] = new
        return fresh

    def _compare(self, tree: Tree, path: str, found: Listing, look: Look) -> None:
        known = self._index.folders.get(path)
        unseen = is_below(path, self._index.closed) or is_below(path, self._left_out)
        if known is None and unseen:
            return
        self._note_folder(path, known, found)
        if path in look.closed:
            self._say(NOT_OPEN, path)
            self._folders[path] = known._replace(stamp=found.stamp) if known else _empty(found.stamp)
            return
        before = unpack_folder(known) if known else {}
        entries, new = dict[str, Entry](), dict[str, bytes]()
        for name, stamp in found.files.items():
            if name in before and before[name].stamp == stamp:
                entries[name] = before[name]
            elif name in before or not unseen:
                new[name] = stamp
        entries |= self._read_all(tree, path, new, before)
        for name in before.keys() - found.files.keys():
            self._pairs.append(_Pair(join_path(path, name), before[name], None))
            if join_path(path, name) in look.special:
                self._say(SPECIAL, join_path(path, name))
        whole = len(entries) == len(found.files)
        self._folders[path] = pack_folder(
            found.stamp if whole else distrust(found.stamp), entries, found.below
        )

    def _note_folder(self, path: str, known: Folder | None, found: Listing) -> None:
        before, after = folder_node(known.stamp) if known else None, folder_node(found.stamp)
        if before != after:
            self._add(path, before, after)

    def _lose(self, path: str, known: Folder, look: Look) -> None:
        """A folder that is not there any more, unless one above it is closed to us."""
        if is_below(path, set(look.closed)):
            self._folders[path] = known
            return
        self._add(path, folder_node(known.stamp), None)
        for name, entry in unpack_folder(known).items():
            self._pairs.append(_Pair(join_path(path, name), entry, None))

    def _read_all(
        self, tree: Tree, path: str, new: dict[str, bytes], before: dict[str, Entry]
    ) -> dict[str, Entry]:
        """The entries of files and links that are new, or not as they were."""
        found: dict[str, Entry] = {}
        if not new:
            return found
        try:
            fd = tree.open_folder(path)
        except OSError:
            fd = -1
        try:
            for name, stamp in new.items():
                old, whole = before.get(name), join_path(path, name)
                try:
                    entry = None if fd < 0 else self._read(fd, whole, stamp, old)
                except FileNotFoundError:  # in this moment
                    self._pairs.append(_Pair(whole, old, None))
                    continue
                found[name] = entry or Entry(distrust(stamp), bare_ref(UNKNOWN))
        finally:
            if fd >= 0:
                os.close(fd)
        return found

    def _read(self, fd: int, path: str, stamp: bytes, old: Entry | None) -> Entry | None:
        name, size = path.rpartition("/")[2], size_of(stamp)
        if stat.S_ISLNK(mode_of(stamp)):
            return self._noted(path, old, read_link(fd, name))
        if old and old.ref[:1] == UNKNOWN and size > COPY_BYTES_MAX:
            self._say(NOT_KNOWN, path)
            return Entry(stamp, old.ref)
        if self._bytes + size > CHANGED_BYTES_MAX:
            self._say(TOO_MUCH, path)
            return None
        self._bytes += size
        if old and old.ref[:1] in LENT_KINDS and size == size_of(old.stamp):
            same = compare_file(fd, name, old.ref)
            if same:
                if mode_of(same.stamp) != mode_of(old.stamp):
                    self._noted(path, old, keep_file(fd, name, self._objects))
                return same
        base = digest_of(old.ref) if old and old.ref[:1] == KEPT else None
        return self._noted(path, old, keep_file(fd, name, self._objects, base=base))

    def _noted(self, path: str, before: Entry | None, read: Entry | None) -> Entry | None:
        """What was read at a path, as a pair with what was there before."""
        if read is None:
            self._say(NOT_READ, path)
        else:
            self._pairs.append(_Pair(path, before, read))
        return read

    def _conclude(self) -> None:
        kept = self._fetch(
            {digest_of(old.ref) for _, old, _ in self._pairs if old and old.ref[:1] in LENT_KINDS}
        )
        for path, old, new in self._pairs:
            before = _node(old, kept)
            if old and before is None:
                self._say(NOT_KNOWN if old.ref[:1] == UNKNOWN else NOT_LENT, path)
                continue
            after = _node(new, kept)
            if before != after:
                self._add(path, before, after)
            powers = [
                mode_of(one.stamp) & _POWERS for one in (old, new) if one and before and before.kind == "file"
            ]
            if len(set(powers)) > 1:
                self._say(POWERS, path)
        self._add_closed()
        self.changes = sorted(self._changes.values(), key=lambda change: change.path.split("/"))

    def _add(self, path: str, before: Node | None, after: Node | None) -> None:
        """Note a change; a folder that takes the place of a file comes in two halves."""
        half = self._changes.get(path, Change(path, None, None))
        self._changes[path] = Change(path, before or half.before, after or half.after)

    def _fetch(self, blobs: Iterable[str]) -> dict[str, str]:
        """Put blobs of git into the store; their digests there, of those that git has."""
        wanted, kept = sorted(blobs), dict[str, str]()
        git = open_git(self._root) if wanted else None
        if git is not None:
            try:
                for blob, content in git.contents(wanted):
                    kept[blob] = self._objects.put_file(content.fileno())
            except ToolExecutionError:  # what it gave is good all the same
                return kept
        return kept

    def _add_closed(self) -> None:
        """Folders above a change that are closed to their owner in part: to undo it opens them up."""
        listed = set(self._changes)
        above = {path.rpartition("/")[0] for path in listed}
        while above:
            for path in above - listed:
                folder = self._folders.get(path)
                if folder and mode_of(folder.stamp) & _OWNER != _OWNER:
                    node = folder_node(folder.stamp)
                    self._add(path, node, node)
            listed |= above
            above = {path.rpartition("/")[0] for path in above if path}

    def _say(self, words: str, path: str) -> None:
        self.not_covered.setdefault(words, []).append(path)


def _node(entry: Entry | None, kept: dict[str, str]) -> Node | None:
    if entry is None or entry.ref[:1] == UNKNOWN:
        return None
    if entry.ref[:1] in LENT_KINDS:
        digest = kept.get(digest_of(entry.ref))
        return node_of(entry, digest) if digest else None
    return node_of(entry)


def _empty(stamp: bytes) -> Folder:
    return pack_folder(stamp, {}, [])
