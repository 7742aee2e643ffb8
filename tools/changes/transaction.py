"""A command as a transaction: it writes into a layer over the workspace, which is committed or thrown away.

    with open_layer(root, home=home) as layer:
        ...run with layer.bwrap_options()...        # the workspace is untouched
        found = layer.changes(root_fd)
        layer.keep_bytes(root_fd, found.changes, objects)
        ...seal found.changes in the journal...
        with layer.files() as files:
            apply(root_fd, found.changes, files)
        layer.touch(root_fd, found.touched)

Cut off before the seal, nothing has happened; after it, the same `apply` finishes it with what was kept. A
layer that waits for a person's word is left on the disk by `keep`, and found again by `reopen_layer`.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.layer_folder import (
    LAYERS,
    PREFIX,
    delete_layer_folder,
    find_place,
    fit_layer_folder,
    lock_layer_folder,
    make_layer_folder,
    mark_beginning,
)
from lockstitch.tools.changes.spare_layers import keep_spare, take_spare
from lockstitch.tools.changes.upper_layer import LayerChanges, read_layer
from lockstitch.tools.confined.apply import is_same
from lockstitch.tools.confined.file_source import LayerFiles
from lockstitch.tools.confined.known_contents import KnownContents
from lockstitch.tools.confined.tree import CHANGING, FOLDER, Tree, open_file
from lockstitch.tools.paths import shown

OWNER: Final = "owner"  # file in a layer that waits for a person: the thread


class Layer:
    """The folder that takes what a command writes: `upper`, and what the overlay itself needs beside it.

    Deleted when the context ends, unless `keep` was called.

    Attributes:
        folder: of the layer; nobody else's, and found again by it.
        root: the workspace, absolute and without links.
        kept: it stays on the disk when the context ends.
        is_over: the command has ended to its last process, so that the layer can be used again.
    """

    def __init__(self, folder: Path, root: Path, held: int, *, verify: bool = False) -> None:
        """Take over a layer by its lock; `verify` reads its files again before they are used."""
        self.folder = folder
        self.root = root
        self._verify = verify
        self.kept = False
        self.is_over = False
        self._held: int | None = held
        self._known = KnownContents()
        self._replaced: list[int] = []  # files that those of the layer have replaced

    def __enter__(self) -> "Layer":
        return self

    def __exit__(self, *_: object) -> None:
        if self.kept:
            self._let_go()
        else:
            self.discard()

    @property
    def _upper(self) -> Path:
        return self.folder / "upper"

    @property
    def _clock(self) -> Path:
        return self.folder / "clock"

    def begin_now(self) -> None:
        """What was changed in the workspace since it was opened was there before the command.

        Raises:
            OSError: the disk fails.
        """
        os.utime(self._upper)
        mark_beginning(self._clock)

    def bwrap_options(self) -> list[str]:
        """What bubblewrap is given in the place of a bind of the workspace."""
        work = self.folder / "work"
        return ["--overlay-src", *map(str, (self.root, "--overlay", self._upper, work, self.root))]

    def changes(self, root: int) -> LayerChanges:
        """What the command changed. All its processes must have ended. Ask once, and keep the answer.

        Args:
            root: the workspace's descriptor.

        Raises:
            ResourceLimitError: too much.
            ToolExecutionError: the layer, or what it changes, cannot be read.
        """
        try:
            with _open_tree(self._upper, self._known) as upper, Tree(root, known=self._known) as lower:
                return read_layer(upper, lower, began_ns=self._clock.stat().st_ctime_ns)
        except OSError as error:
            reason = (error.strerror or "unknown error").lower()
            raise ToolExecutionError(f"what the command changed cannot be read: {reason}.") from error

    def keep_bytes(self, root: int, changes: Iterable[Change], objects: ObjectStore) -> None:
        """Put what the files were before and what they are now into the store, as a seal needs it.

        Raises:
            ToolExecutionError: a file is another one by now.
            OSError: the disk fails.
        """
        with _open_tree(self._upper) as upper, Tree(root) as lower:
            for change in changes:
                if is_same(change.before, change.after):
                    continue
                self._keep_content(lower, change.path, change.before, objects)
                self._keep_content(upper, change.path, change.after, objects, base=change.before)

    def known(self, node: Node) -> bytes | None:
        """What a file held that `changes` has read; None of a large one."""
        return self._known.get(node.digest)

    def read(self, path: str) -> bytes:
        """A file of the layer.

        Raises:
            OSError: there is none, or the disk fails.
        """
        with _open_tree(self._upper) as upper:
            return upper.read(path)

    @contextlib.contextmanager
    def files(self) -> Iterator[LayerFiles]:
        """The new files for `apply`, which takes them away."""
        with _open_tree(self._upper) as upper:
            yield LayerFiles(upper, self._replaced, verify=self._verify)

    def touch(self, root: int, touched: Mapping[str, int]) -> None:
        """Give files their new times, in nanoseconds; builds go by them. Not journalled: no bytes change."""
        with Tree(root) as tree:
            for path, mtime_ns in touched.items():
                with contextlib.suppress(OSError), tree.parent(path) as (folder, name):
                    os.utime(name, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)

    def keep(self, owner: str) -> None:
        """Leave it on the disk: a person will say what becomes of it. `owner` is the thread that asks."""
        (self.folder / OWNER).write_text(owner)
        self.kept = True

    def discard(self) -> None:
        """Throw away what is in it."""
        if self._held is not None and self.is_over and keep_spare(self.folder, self._held, self._replaced):
            self._held, self._replaced = None, []
        if self._held is not None:
            delete_layer_folder(self.folder)
        self._let_go()

    def _keep_content(
        self, tree: Tree, path: str, node: Node | None, objects: ObjectStore, *, base: Node | None = None
    ) -> None:
        if node is None or node.kind != "file":
            return
        data, like = self.known(node), base.digest if base else None
        if data is None:
            _put(tree, path, node, objects, base=like)
        else:
            objects.put(data, base=like)

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
        self._held = None
        while self._replaced:
            os.close(self._replaced.pop())


def open_layer(root: Path, *, home: Path) -> Layer:
    """An empty layer over the workspace, on its own mount where that can be, so that a commit can rename.

    Args:
        root: the workspace.
        home: our own home folder.

    Raises:
        ToolExecutionError: no overlay can be had here, and why; without a layer, the command changes the
            workspace as it goes.
    """
    root = Path(os.path.realpath(root))
    try:
        place = find_place(root, home)
        folder, held = take_spare(place) or make_layer_folder(place)
        with contextlib.ExitStack() as undoing:
            layer = undoing.enter_context(Layer(folder, root, held))
            fit_layer_folder(folder, root.stat())
            undoing.pop_all()
            return layer
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise ToolExecutionError(f"there is no place for what the command writes: {reason}.") from error


def reopen_layer(folder: Path, root: Path) -> Layer:
    """A layer that an earlier process kept, to finish or throw away what it holds.

    Raises:
        ToolExecutionError: it is gone, or another process has it.
    """
    try:
        layer = Layer(folder, Path(os.path.realpath(root)), lock_layer_folder(folder), verify=True)
    except OSError as error:
        raise ToolExecutionError("what the command wrote is gone, or used by another process.") from error
    layer.kept = True
    return layer


def clear_layers(root: Path, *, home: Path, owner: str | None = None) -> int:
    """Delete layers that killed processes left behind; gives their number.

    Args:
        root: of the workspace, beside which they may lie.
        home: our own home folder.
        owner: a thread whose layers go as well, though they wait for a person's word.
    """
    places = {home / LAYERS, Path(os.path.realpath(root)).parent}
    cleared = 0
    for folder in (found for place in places for found in place.glob(f"{PREFIX}*")):
        if owner_of(folder) not in (None, owner):
            continue
        with contextlib.suppress(OSError):  # in use, or somebody else's
            held = lock_layer_folder(folder)
            try:
                delete_layer_folder(folder)
                cleared += 1
            finally:
                os.close(held)
    return cleared


def owner_of(folder: Path) -> str | None:
    """The thread that keeps a layer for a person; None for one that a killed process left."""
    try:
        return (folder / OWNER).read_text()
    except OSError:
        return None


def _put(tree: Tree, path: str, node: Node, objects: ObjectStore, *, base: str | None) -> None:
    with tree.parent(path) as (folder, name):
        fd = open_file(folder, name)
    try:
        digest = objects.put_file(fd, base=base)
    finally:
        os.close(fd)
    if digest != node.digest:
        raise ToolExecutionError(f"{shown(path)} was changed by somebody else meanwhile: look at it again.")


@contextlib.contextmanager
def _open_tree(folder: Path, known: KnownContents | None = None) -> Iterator[Tree]:
    fd = os.open(folder, FOLDER)
    try:
        with Tree(fd, need=CHANGING, known=known) as tree:
            yield tree
    finally:
        os.close(fd)
