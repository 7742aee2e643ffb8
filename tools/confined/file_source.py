"""Where new files come from, and how each takes its place at once: a layer's own files, or kept bytes."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.tree_change import Node
from lockstitch.tools.confined.confinement import NO_LINK
from lockstitch.tools.confined.known_contents import pieces_of
from lockstitch.tools.confined.replacement import NAME_CHARS
from lockstitch.tools.confined.tree import Tree, open_file, set_mode
from lockstitch.tools.paths import shown

HELD_MAX: Final = 20  # descriptors of one commit: a process may have 1,024 in all
# What an overlay notes at its files, as an ordinary user and as root. None of it belongs into a workspace.
MARKS: Final = ("user.overlay.", "trusted.overlay.")


class KeptBytes:
    """Files whose content is kept by digest."""

    def __init__(self, pieces: Callable[[str], Iterable[bytes]]) -> None:
        """`pieces` gives the content of a sha256, as `ObjectStore.pieces` does."""
        self._pieces = pieces

    def put(self, path: str, after: Node, folder: int, name: str) -> None:
        """As `apply.Source` has it.

        Raises:
            ToolExecutionError: the content kept is another one.
        """
        _put_copy(path, after, (folder, name), self._pieces(after.digest))


class LayerFiles:
    """The files of an upper layer: renamed to their places where that is on the same mount, else copied."""

    def __init__(self, upper: Tree, replaced: list[int], *, verify: bool = False) -> None:
        """Take files from there.

        Args:
            upper: the layer, opened for CHANGING.
            replaced: gets descriptors of files that are replaced, the first HELD_MAX: what they held is given
                back when they are closed, which takes as long as the rest.
            verify: read each file again before it is used.
        """
        self._upper = upper
        self._replaced = replaced
        self._verify = verify
        self._can_rename = True

    def put(self, path: str, after: Node, folder: int, name: str) -> None:
        """As `apply.Source` has it.

        Raises:
            ToolExecutionError: the file of the layer is another one by now.
        """
        if self._verify:
            node = self._upper.node(path)
            if node is None or node.digest != after.digest:
                raise _not_promised(path)
        with self._upper.parent(path) as (source, source_name):
            if not (self._can_rename and self._renamed(after, (source, source_name), (folder, name))):
                fd = open_file(source, source_name)
                try:
                    _put_copy(path, after, (folder, name), pieces_of(fd))
                finally:
                    os.close(fd)

    def _renamed(self, after: Node, source: tuple[int, str], to: tuple[int, str]) -> bool:
        _strip_marks(*source)
        set_mode(*source, after.mode)
        if len(self._replaced) < HELD_MAX:
            with contextlib.suppress(OSError):  # nothing is there yet
                self._replaced.append(os.open(to[1], os.O_PATH | NO_LINK, dir_fd=to[0]))
        try:
            os.rename(source[1], to[1], src_dir_fd=source[0], dst_dir_fd=to[0])
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._can_rename = False
        return self._can_rename


def put_link(target: str, folder: int, name: str) -> None:
    """Make a link in the open `folder`, at once and in the place of what is there.

    Raises:
        OSError: as symlink(2) and rename(2).
    """
    with _draft(folder, name) as draft:
        os.symlink(target, draft, dir_fd=folder)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def _put_copy(path: str, after: Node, to: tuple[int, str], pieces: Iterable[bytes]) -> None:
    folder, name = to
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    digest = hashlib.sha256()
    with _draft(folder, name) as draft:
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
            for piece in pieces:
                digest.update(piece)
                file.write(piece)
            os.fchmod(file.fileno(), after.mode)
        if digest.hexdigest() != after.digest:
            raise _not_promised(path)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def _draft(folder: int, name: str) -> Iterator[str]:
    """A free name beside that one, always the same: what a killed process left there goes."""
    draft = f".{name[:NAME_CHARS]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    try:
        yield draft
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def overlay_marks(folder: int, name: str) -> list[str]:
    """The names of the marks an overlay made at a file or folder of its upper layer.

    Raises:
        OSError: as listxattr(2).
    """
    found = os.listxattr(f"/proc/self/fd/{folder}/{name}", follow_symlinks=False)
    return [mark for mark in found if mark.startswith(MARKS)]


def _strip_marks(folder: int, name: str) -> None:
    marks = overlay_marks(folder, name)
    if marks:
        set_mode(folder, name, 0o600)  # taking a mark away needs the right to write
    for mark in marks:
        os.removexattr(f"/proc/self/fd/{folder}/{name}", mark, follow_symlinks=False)


def _not_promised(path: str) -> ToolExecutionError:
    return ToolExecutionError(f"{shown(path)}: what was kept for it is damaged, so it was left as it is.")
