"""The second half of a look: a process comes from the last known folder, while the look comes from the first.

Most of a look's time is the kernel's, and threads of one Python wait for each other. The look takes over what
the process has found to be the same; what has no such answer yet, it does itself.
"""

import atexit
import contextlib
import itertools
import marshal
import mmap
import os
import struct
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from lockstitch.tools.changes.scan_index import Folder, join_names
from lockstitch.tools.changes.scan_stamps import MESSAGE, STAMP, STOP, YES
from lockstitch.tools.changes.second_process import SecondProcess
from lockstitch.tools.confined.confinement import Identity

FILES_MIN: Final = 2_000  # known ones; with 1,000, to ask takes as long as it saves
_IDENTITY: Final = struct.Struct("<QQ")  # the end of a stamp: inode and device


class Answers:
    """What the process has found so far."""

    def __init__(self, memory: mmap.mmap, paths: Collection[str]) -> None:
        """`memory` has a byte for each of the folders, behind the one that tells to stop."""
        self._memory = memory
        self._places = dict(zip(paths, itertools.count(STOP + 1)))

    def is_same(self, path: str) -> bool:
        """Whether the folder, and each file and link that is known in it, was found with its known stamp."""
        place = self._places.get(path)
        return place is not None and self._memory[place] == YES


class SecondWalk:
    """Helps one look at a time."""

    def __init__(self, process: SecondProcess) -> None:
        """`process` is started by the first look that is worth it."""
        self.process = process
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def answers(
        self,
        root: int,
        known: Mapping[str, Folder],
        *,
        hidden: Collection[Identity],
        left_out: Collection[str],
    ) -> Iterator[Answers | None]:
        """What the process finds until the block is left; None where none can help.

        It does not enter folders that are hidden or left out.
        """
        if not _is_worth_it(known) or not self._lock.acquire(blocking=False):
            yield None
            return
        try:
            asked = _asked(known, hidden, left_out)
            memory = self._ask(root, asked) if asked and self.process.is_free() else None
            try:
                yield Answers(memory, asked) if memory else None
            finally:
                if memory:
                    memory[STOP] = YES
                    memory.close()
                    self.process.release()
        finally:
            self._lock.release()

    def forget(self) -> None:
        """As `SecondProcess.forget`."""
        self.process.forget()
        self._lock = threading.Lock()  # the thread that may hold it is not in the copy

    def _ask(self, root: int, asked: Mapping[str, Folder]) -> mmap.mmap | None:
        """Hand over a request: the memory that its answers come to."""
        stamps_and_names = list(zip(*asked.values(), strict=True))[:3]
        request = marshal.dumps((join_names(asked), *stamps_and_names))
        begin = STOP + 1 + len(asked)
        try:
            fd = os.memfd_create("lockstitch-look", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            return None
        try:
            memory = _shared(fd, begin, request)
            self.process.ask(MESSAGE.pack(begin), [root, fd])
        except OSError:
            return None
        finally:
            os.close(fd)
        return memory


def _asked(
    known: Mapping[str, Folder], hidden: Collection[Identity], left_out: Collection[str]
) -> Mapping[str, Folder]:
    passed_by = {path for path in left_out if path in known}
    if hidden:
        ends = {_IDENTITY.pack(inode, device) for device, inode in hidden}
        passed_by |= {path for path, folder in known.items() if folder.stamp[-_IDENTITY.size :] in ends}
    if not passed_by:
        return known
    below = tuple(f"{path}/" for path in passed_by)
    return {p: folder for p, folder in known.items() if p not in passed_by and not p.startswith(below)}


def _shared(fd: int, begin: int, request: bytes) -> mmap.mmap:
    """The memory for answers, with the request behind it.

    Nobody can shrink it: to read what is no longer there would end our process.
    """
    import fcntl

    os.pwrite(fd, request, begin)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return mmap.mmap(fd, begin)


def _is_worth_it(known: Mapping[str, Folder]) -> bool:
    if not hasattr(os, "memfd_create") or len(os.sched_getaffinity(0)) < 2:
        return False
    return sum(len(folder.stamps) for folder in known.values()) >= FILES_MIN * STAMP.size


SECOND_WALK: Final = SecondWalk(SecondProcess())
atexit.register(SECOND_WALK.process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SECOND_WALK.forget)
