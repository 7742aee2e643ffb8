"""openat2(2): Linux opens a path below a folder, or not at all. Python has no function for it."""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Final

from lockstitch.tools.confined.linux_calls import system_call

SYS_OPENAT2: Final = 437  # the same on every architecture that has it (asm-generic)
RESOLVE_NO_MAGICLINKS: Final = 0x02  # from linux/openat2.h
RESOLVE_BENEATH: Final = 0x08
TRIES: Final = 64  # EAGAIN: a rename elsewhere meant that the kernel could not prove the path is inside


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def has_openat2() -> bool:
    """Whether this kernel has openat2, and no seccomp filter forbids it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(open_beneath(-100, ".", os.O_PATH))  # AT_FDCWD: the current folder
    except OSError as error:
        return error.errno not in {errno.ENOSYS, errno.EPERM}
    return True


def open_beneath(folder: int, path: str, flags: int) -> int:
    """A descriptor of what is there; links are followed as long as they stay below `folder`.

    Raises:
        OSError: as open(2); EXDEV for a path that leads out, EAGAIN when that could not be proved.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    arguments = (
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    left = TRIES
    while True:
        left -= 1
        try:
            return system_call(SYS_OPENAT2, *arguments)
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.EINTR} or not left:
                raise
