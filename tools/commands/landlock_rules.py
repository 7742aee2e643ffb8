"""A set of Landlock's rules: which places may be read and written, by whoever it is put upon.

Rules only ever add, and hold for all that is below. A place is left out by rules on what lies beside it, so
its folders above get none of their own: in those nothing can be listed or made.
"""

import ctypes
import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from lockstitch.tools.commands.landlock import ADD_RULE, CREATE_RULESET, PATH_BENEATH, READ_DIR, READ_FILE
from lockstitch.tools.confined.linux_calls import system_call

# From linux/landlock.h.
EXECUTE, WRITE_FILE = 1 << 0, 1 << 1
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
ABSTRACT_SOCKETS, SIGNALS = 1 << 0, 1 << 1

READ: Final = EXECUTE | READ_FILE | READ_DIR
CHANGE: Final = (
    WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM | REFER
)
WRITE: Final = READ | CHANGE
ALL: Final = WRITE | MAKE_SOCK | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV
OF_A_FILE: Final = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV  # the others are a folder's
FIRST_WITH_SIGNALS: Final = 6  # version of Landlock (Linux 6.12): before, a command could end the agent

PLACE: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _Attributes(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class LandlockRules:
    """Rules that grow; everything that they do not allow is refused, TCP too unless `network`.

    Attributes:
        fd: the descriptor by which they are put upon a process.
    """

    def __init__(self, *, network: bool) -> None:
        """An empty set.

        Raises:
            OSError: this kernel's Landlock is older than `FIRST_WITH_SIGNALS`, or there is none.
        """
        tcp = 0 if network else BIND_TCP | CONNECT_TCP
        wanted = _Attributes(ALL, tcp, ABSTRACT_SOCKETS | SIGNALS)
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        self.fd = system_call(CREATE_RULESET, ctypes.byref(wanted), size, ctypes.c_uint32(0))

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    def allow(self, place: str | Path, rights: int, *, without: Iterable[Path] = ()) -> None:
        """Allow that below a place, but for what lies at or below `without`.

        What cannot be opened, or is a link, is passed over. Waits for the disk: each folder above one that
        is left out is read, about 10 us an entry.

        Args:
            place: absolute and without links.
            rights: `READ` or `WRITE`.
            without: absolute and without links; need not exist.
        """
        path = os.fspath(place)
        try:
            fd = os.open(path, PLACE)
        except OSError:
            return
        try:
            self.allow_open(fd, path, rights, without=without)
        finally:
            os.close(fd)

    def allow_open(self, fd: int, place: str | Path, rights: int, *, without: Iterable[Path] = ()) -> None:
        """The same for a place that is open, for reading or as a place alone."""
        left_out = {os.fspath(path) for path in without}
        self._allow_beside(fd, os.fspath(place).rstrip("/"), rights, left_out)

    def _allow_beside(self, fd: int, path: str, rights: int, left_out: Collection[str]) -> None:
        """`path` has no slash at its end, and is "" for the root."""
        below = {place for place in left_out if place.startswith(f"{path}/")}
        if (path or "/") in left_out:
            return
        if not below:
            self._add(fd, rights)
            return
        for name in _names(fd, path, below):
            try:
                inner = os.open(name, PLACE, dir_fd=fd)
            except OSError:
                continue
            try:
                self._allow_beside(inner, f"{path}/{name}", rights, below)
            finally:
                os.close(inner)

    def _add(self, fd: int, rights: int) -> None:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            return
        rule = _Beneath(rights if stat.S_ISDIR(mode) else rights & OF_A_FILE, fd)
        kind, flags = ctypes.c_int(PATH_BENEATH), ctypes.c_uint32(0)
        system_call(ADD_RULE, ctypes.c_int(self.fd), kind, ctypes.byref(rule), flags)


def _names(fd: int, path: str, below: Collection[str]) -> set[str]:
    """What is in a folder; where it may not be listed, what leads to the places that are left out."""
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    except OSError:  # a file by now, or closed to us
        return {place[len(path) + 1 :].partition("/")[0] for place in below}
    try:
        return set(os.listdir(listed))  # noqa: PTH208  a descriptor has no Path
    finally:
        os.close(listed)
