"""One writer a thread, across processes: a lock file that the kernel frees when its holder dies."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from lockstitch.state.errors import HomeUnusableError, SystemFaultError, ThreadBusyError
from lockstitch.state.finished import finished
from lockstitch.state.threads import check_thread_id

HOLDER_BYTES_MAX: Final = 500  # a pid and a command's name; more is no file of ours
TRIES: Final = 4  # to take a lock: a look takes it, too, for a hundredth of the time between two tries
TRY_AGAIN_S: Final = 0.02
LOOKING: Final = "lockstitch, looking"  # told to who meets the lock in the moment of a look
_NOBODY_KNOWN: Final = "another process"


@contextmanager
def hold_thread(locks: Path, thread_id: str, *, holder: str) -> Iterator[None]:
    """Be the thread's only writer until the block ends. Refuses at once, and never waits.

    Two holders in one process exclude each other as well. The lock file stays until the thread is pruned.

    Args:
        locks: folder of the lock files; created when missing.
        thread_id: any spelling of the id.
        holder: what this process is called towards others, such as `lockstitch run`.

    Raises:
        ThreadBusyError: another process, or another task of this one, writes the thread.
        ThreadUnknownError: the id is none.
        HomeUnusableError: the lock file cannot be made.
        SystemFaultError: files cannot be locked here.
    """
    thread_id = check_thread_id(thread_id)
    handle = _open_lock_file(locks, thread_id)
    try:
        if not (_try_lock(handle) and _is_current(handle, locks / f"{thread_id}.lock")):
            raise ThreadBusyError(
                f"thread {thread_id} is being written by {_read_holder(handle)}. "
                "Wait until it ends or stop it, or begin a new thread."
            )
        os.pwrite(
            handle, json.dumps({"pid": os.getpid(), "holder": holder}).encode().ljust(HOLDER_BYTES_MAX), 0
        )
        yield
    finally:
        os.close(handle)  # frees the lock, if it was ours


@asynccontextmanager
async def hold_thread_off_loop(locks: Path, thread_id: str, *, holder: str) -> AsyncIterator[None]:
    """As `hold_thread`, but its file work is done in a worker thread."""
    with ExitStack() as stack:
        lock = hold_thread(locks, thread_id, holder=holder)
        await finished(lambda: stack.enter_context(lock))  # who is stopped gives it back all the same
        yield


def writer_of(locks: Path, thread_id: str) -> str:
    """Who writes the thread just now, as a sentence without its end; empty where nobody does."""
    if not (locks / f"{thread_id}.lock").exists():
        return ""
    try:
        with hold_thread(locks, thread_id, holder=LOOKING):
            return ""
    except ThreadBusyError as error:
        return error.message.partition(". ")[0]


@asynccontextmanager
async def hold_for_run(locks: Path, thread_id: str, *, holder: str, on_loop: bool) -> AsyncIterator[None]:
    """Be the thread's only writer, as `hold_thread`; a look of another process does not stand in the way.

    `on_loop` where the quick work of taking the lock may be done on the event loop.

    Raises:
        ThreadBusyError: somebody else writes the thread.
        HomeUnusableError, SystemFaultError, ThreadUnknownError: as `hold_thread`.
    """
    async with AsyncExitStack() as stack:
        for left in reversed(range(TRIES)):
            try:
                if on_loop:
                    stack.enter_context(hold_thread(locks, thread_id, holder=holder))
                else:
                    lock = hold_thread_off_loop(locks, thread_id, holder=holder)
                    await stack.enter_async_context(lock)
                break
            except ThreadBusyError:
                if not left:
                    raise
                await asyncio.sleep(TRY_AGAIN_S)
        yield


def _open_lock_file(locks: Path, thread_id: str) -> int:
    try:
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(
            locks / f"{thread_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as error:
        raise HomeUnusableError(
            f"the lock of a thread cannot be made in the home folder: {error.strerror}. "
            "Set LOCKSTITCH_HOME to a folder you can write."
        ) from error


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError as error:
        raise SystemFaultError(
            "this system has no file locks that Lockstitch knows, so two runs could write one thread. "
            "Run it on Linux or macOS (on Windows in WSL)."
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise SystemFaultError(
            f"the file system of the home folder cannot lock files: {error.strerror}. "
            "Set LOCKSTITCH_HOME to a folder on a local disk."
        ) from error
    return True


def _is_current(handle: int, path: Path) -> bool:
    """Whether the locked file still has its name: a prune may have deleted it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(handle: int) -> str:
    """Who wrote into the lock file; a word for nobody where it says nothing yet."""
    try:
        found = json.loads(os.pread(handle, HOLDER_BYTES_MAX, 0))
        return f"{found['holder']} (pid {int(found['pid'])})"
    except (ValueError, TypeError, KeyError, OSError):
        return _NOBODY_KNOWN
