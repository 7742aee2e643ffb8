"""Landlock: a thread, and the programs it starts, that read below some places and nowhere else.

For programs that go through the workspace by path, such as ripgrep: between its look at a folder and its
opening of a file there, the folder may have become a link that leads out. Here the kernel refuses.
"""

import contextlib
import ctypes
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from lockstitch.tools.confined.linux_calls import libc, system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture (asm-generic)
VERSION: Final = 1  # LANDLOCK_CREATE_RULESET_VERSION, from linux/landlock.h as are these
PATH_BENEATH: Final = 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
PR_SET_NO_NEW_PRIVS: Final = 38  # asked for by the kernel; from linux/prctl.h
# Programs and what they load; no person's data lies there.
SYSTEM: Final = (
    "/dev/null",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/nix/store",
)

IDLE_MAX: Final = 2  # threads that wait for more to do, of all folders

T = TypeVar("T")
_Key = tuple[int, int, tuple[str, ...]]  # device and number of the folder, and the other places
_idle: dict[_Key, ThreadPoolExecutor] = {}
_keeping = threading.Lock()


class _OutdatedRulesError(Exception):
    """A kept thread may not read what it should."""


class _Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def has_landlock() -> bool:
    """Whether this kernel has Landlock, and it is switched on."""
    return landlock_version() > 0


@cache
def landlock_version() -> int:
    """Of this kernel's Landlock, which tells what it can hold; 0 where there is none, or it is off."""
    if sys.platform != "linux":
        return 0
    try:
        return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    except OSError:
        return 0


def run_restricted(work: Callable[[], T], *, folder_fd: int, places: tuple[str, ...]) -> T:
    """The result of `work`, done in a thread of its own that reads where `restrict_reads` lets it.

    The thread is kept for the next one in that folder, if it can read all of this there: to make it takes
    0.5 ms of CPU. Where there is no Landlock the work is done here, and reads where it likes.
    """
    if not has_landlock():
        return work()
    status = os.fstat(folder_fd)
    key = (status.st_dev, status.st_ino, places)

    def begun() -> T:
        restrict_reads(folder_fd, places)
        return work()

    def gone_on() -> T:
        _check_reads(folder_fd, places)
        return work()

    with _keeping:
        kept = _idle.pop(key, None)
    if kept:
        with contextlib.suppress(_OutdatedRulesError):
            return _done(kept, key, gone_on)
    return _done(ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader"), key, begun)


def _done(thread: ThreadPoolExecutor, key: _Key, work: Callable[[], T]) -> T:
    try:
        result = thread.submit(work).result()
    except BaseException:
        thread.shutdown(wait=False)
        raise
    with _keeping:
        surplus = [_idle.pop(key)] if key in _idle else []
        _idle[key] = thread
        if len(_idle) > IDLE_MAX:
            surplus.append(_idle.pop(next(iter(_idle))))
    for other in surplus:
        other.shutdown(wait=False)
    return result


def _check_reads(folder_fd: int, places: Iterable[str]) -> None:
    """Make sure that this thread's rules are for what is there now.

    Raises:
        _OutdatedRulesError: the folder or a place has been made anew, and is another one to the kernel.
    """
    for place in (f"/proc/self/fd/{folder_fd}", *places):
        try:
            os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _OutdatedRulesError from error


def restrict_reads(folder_fd: int, places: Iterable[str | Path]) -> None:
    """Let this thread open for reading only what lies below the folder, below `places` and in `SYSTEM`.

    There is no way back: call it in a thread that ends afterwards. It holds for programs the thread starts
    from now on, and not for files that are open already. Writing is not restricted.

    Args:
        folder_fd: of a folder held open; links in it lead nowhere else.
        places: files and folders; those that are missing are passed over.

    Raises:
        OSError: there is no Landlock, see `has_landlock`.
    """
    handled = ctypes.c_uint64(READ_FILE | READ_DIR)
    size = ctypes.c_size_t(ctypes.sizeof(handled))
    rules = system_call(CREATE_RULESET, ctypes.byref(handled), size, ctypes.c_uint32(0))
    try:
        _allow(rules, folder_fd)
        for place in (*SYSTEM, *places):
            _allow_path(rules, place)
        _no_new_privileges()
        system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow_path(rules: int, place: str | Path) -> None:
    try:
        fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _allow(rules, fd)
    finally:
        os.close(fd)


def _allow(rules: int, fd: int) -> None:
    access = READ_FILE | READ_DIR if stat.S_ISDIR(os.fstat(fd).st_mode) else READ_FILE
    beneath = _Beneath(access, fd)
    system_call(
        ADD_RULE, ctypes.c_int(rules), ctypes.c_int(PATH_BENEATH), ctypes.byref(beneath), ctypes.c_uint32(0)
    )


def _no_new_privileges() -> None:
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if libc().prctl(PR_SET_NO_NEW_PRIVS, one, none, none, none) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
