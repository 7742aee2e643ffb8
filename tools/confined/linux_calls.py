"""Calls of the Linux kernel for which Python has no function."""

import ctypes
import errno
import os
from functools import cache


def system_call(number: int, *arguments: object) -> int:
    """What the kernel answers to call `number`, a descriptor or a count; the arguments are of ctypes.

    Raises:
        OSError: as the call's manual page says.
    """
    result = int(libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno() or errno.ENOSYS
        raise OSError(code, os.strerror(code))
    return result


@cache
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
