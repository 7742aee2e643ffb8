"""Reading files for a scan: their bytes into the store, or git's id of them, and a stamp that fits them."""

import os
import stat
import time
from collections.abc import Callable
from typing import Final

from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Node
from lockstitch.tools.changes.git_blobs import SHA1_CHARS, blob_id
from lockstitch.tools.changes.scan_index import (
    KEPT,
    LENT,
    LENT_LONG,
    LINK,
    Entry,
    bare_ref,
    digest_of,
    is_young,
    mode_of,
    ref_of,
    size_of,
    stamp_of,
)
from lockstitch.tools.confined.tree import KEPT_MODES, open_file

TRIES: Final = 3  # at a file that is written while it is read
LENT_KINDS: Final = (LENT, LENT_LONG)


def keep_file(folder: int, name: str, objects: ObjectStore, *, base: str | None = None) -> Entry | None:
    """Put a file of the open `folder` into the store; None where it cannot be read, or does not hold still.

    Raises:
        FileNotFoundError: it is gone.
        SystemFaultError: the store cannot be written.
    """
    read = _read(folder, name, lambda fd: objects.put_file(fd, base=base))
    return None if read is None else Entry(read[0], ref_of(KEPT, read[1]))


def compare_file(folder: int, name: str, ref: bytes) -> Entry | None:
    """The file as an entry with a reference to git's blob; None where it holds something else.

    Raises:
        FileNotFoundError: it is gone.
    """
    blob = digest_of(ref)
    read = _read(folder, name, lambda fd: blob_id(fd, chars=len(blob)))
    return None if read is None or read[1] != blob else Entry(read[0], ref)


def read_link(folder: int, name: str) -> Entry | None:
    """A link of the open `folder`; None where it is none now.

    Raises:
        FileNotFoundError: it is gone.
    """
    now_ns = time.time_ns()
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    try:
        target = os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    trusted = not is_young(status.st_ctime_ns, now_ns)
    return Entry(stamp_of(status, trusted=trusted), bare_ref(LINK), target)


def lent_ref(blob: str) -> bytes:
    """The reference to a blob of git."""
    return ref_of(LENT if len(blob) == SHA1_CHARS else LENT_LONG, blob)


def node_of(entry: Entry, digest: str = "") -> Node:
    """The node of a link or file; `digest` is a sha256 that the reference of a file does not hold."""
    if entry.ref[:1] == LINK:
        return Node("link", 0, entry.target, 0)
    mode = mode_of(entry.stamp) & KEPT_MODES["file"]
    return Node("file", mode, digest or digest_of(entry.ref), size_of(entry.stamp))


def folder_node(stamp: bytes) -> Node:
    """The node of a folder with that stamp."""
    return Node("folder", mode_of(stamp) & KEPT_MODES["folder"], "", 0)


def _read(folder: int, name: str, work: Callable[[int], str]) -> tuple[bytes, str] | None:
    for _ in range(TRIES):
        now_ns = time.time_ns()
        try:
            fd = open_file(folder, name)
        except FileNotFoundError:
            raise
        except OSError:
            return None
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                return None
            result = work(fd)
            after = os.fstat(fd)
        finally:
            os.close(fd)
        if stamp_of(before) == stamp_of(after):
            return stamp_of(after, trusted=not is_young(after.st_ctime_ns, now_ns)), result
    return None
