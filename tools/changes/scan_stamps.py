"""Stamps of files, by which a change is told; also a program of its own that compares them for a look.

    python3 -I -S scan_stamps.py SOCKET

SOCKET is a descriptor, by which `second_process` hands over one request after the other. A byte back tells
that one is done; the program ends when the other end is closed. It imports none of our packages, and nothing
that takes long to load.
"""

import _socket  # `socket` takes 12 ms to load
import marshal
import mmap
import os
import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import AnyStr

# Mode with its type, size, mtime and ctime in ns, inode, device: one of them differs when a file was changed.
STAMP = struct.Struct("<IQqqQQ")

# A request is a message with two descriptors: of the workspace, and of memory that both sides share. It holds
# a byte that tells to stop and one for the answer of each folder, all zero at first; the message is how many.
# Then, by marshal, what is known: the paths in one, and of each folder its stamp, names and stamps.
STOP = 0
YES = 1  # stop; or: the folder is the same, and all in it
MESSAGE = struct.Struct("<Q")
Row = tuple[bytes, bytes, bytes, bytes]
Request = tuple[bytes, tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NUMBER = struct.Struct("i")  # a descriptor in a message
_Way = list[tuple[bytes, int]]  # names below each other, with the open folders


def stamps_of(fd: int, names: "Sequence[AnyStr]") -> list[bytes]:
    """The stamps of these names in an open folder, in order.

    A look spends its time here, most of it in the kernel; a call for each name would take a tenth more.

    Raises:
        OSError: as lstat(2), where one is gone, for instance.
    """
    look_at, pack = os.lstat, STAMP.pack
    return [
        pack(one.st_mode, one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino, one.st_dev)
        for one in [look_at(name, dir_fd=fd) for name in names]
    ]


def split_raw(names: bytes) -> list[bytes]:
    """The names of a folder as the system has them."""
    return names.split(b"\0") if names else []


def answer(root: int, request: Request, answers: mmap.mmap) -> None:
    """Look at folders from the last one on, until all are done or nobody waits for more."""
    paths, *known = request
    parent, way = os.getppid(), _Way()
    rows = list(zip(paths.split(b"\0"), *known, strict=True))
    for place in range(len(rows), 0, -1):
        if answers[STOP] or os.getppid() != parent:
            break
        if _is_same(root, way, rows[place - 1]):
            answers[place] = YES
    _leave(way, 0)


def _is_same(root: int, way: _Way, row: Row) -> bool:
    path, stamp, names, stamps = row
    try:
        fd = _enter(root, path.split(b"/"), way)
        return stamps_of(fd, ["."]) == [stamp] and b"".join(stamps_of(fd, split_raw(names))) == stamps
    except OSError:  # gone, closed, or no folder now: the look finds out
        return False


def _enter(root: int, names: Sequence[bytes], way: _Way) -> int:
    """The folder's descriptor: from the last one's up as far as needed, then down, and through no link."""
    shared = 0
    while shared < min(len(way), len(names)) and way[shared][0] == names[shared]:
        shared += 1
    _leave(way, shared)
    for name in names[shared:]:
        way.append((name, os.open(name, _FOLDER, dir_fd=way[-1][1] if way else root)))
    return way[-1][1]


def _leave(way: _Way, depth: int) -> None:
    while len(way) > depth:
        os.close(way.pop()[1])


def main(arguments: Sequence[str]) -> int:
    """Answer requests until there is nobody left to ask."""
    wire = _socket.socket(fileno=int(arguments[0]))
    while True:
        message, given, *_ = wire.recvmsg(MESSAGE.size, _socket.CMSG_SPACE(2 * _NUMBER.size))
        if not message:
            return 0
        root, shared = (number for (number,) in _NUMBER.iter_unpack(given[0][2]))
        (begin,) = MESSAGE.unpack(message)
        length = os.fstat(shared).st_size - begin
        with mmap.mmap(shared, begin) as answers:  # what is known is kept no longer than it is asked for
            answer(root, marshal.loads(os.pread(shared, length, begin)), answers)  # noqa: S302  from ourselves
        os.close(root)
        os.close(shared)
        wire.send(b".")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
