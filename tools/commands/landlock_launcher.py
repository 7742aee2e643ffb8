"""Runs a command under Landlock and a filter of system calls, and ends all that it started.

A program of its own, without our packages, for the Python that runs us:

    python3 -I -S landlock_launcher.py SPEC_FD -- bash -c 'make test'

SPEC_FD is a pipe with one object, by `marshal`: `parent` (our pid; it ends with it), `rules` (descriptor of
a set of Landlock's), `filter` (seccomp's program in hex), `told` (descriptor to which "ran" is written once
the command has been started), `limits` (pairs of resource and most), `processes` (how many the command may
add to its user's) and `capabilities` (numbers that are kept).

It stays outside of what holds the command, as its parent and as the new parent of every orphan below, so that
nothing is out of its reach. It exits as the command does. On SIGTERM, or when the agent is gone, the command
gets SIGTERM and a moment, then all of it SIGKILL.
"""
# ruff: noqa: PTH116, PTH123, PTH208  to import pathlib costs 5 ms a command

import ctypes
import marshal
import os
import resource
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # every import is paid by each command: these two, and json, would cost 15 ms
    import signal
    from typing import Any, NoReturn
else:
    import _signal as signal  # what `signal` is made of

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
CLEAR_AMBIENT = 4
FILTER = 2  # SECCOMP_MODE_FILTER
RESTRICT_SELF = 446  # landlock_restrict_self
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
CAPABILITIES = 64  # numbers that are tried; the kernel knows 41
TERM_S = 0.3  # to clean up after SIGTERM
KILL_S = 0.5  # for the kernel to end them; one that waits for a dead disk may take longer
POLL_S = 0.005
NOT_SET_UP = 125  # exit code: the command was not started
ENDED = {signal.SIGCHLD, signal.SIGTERM}

libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Run the command behind `--`; ends this process."""
    spec = read_spec(int(arguments[0]))
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != spec["parent"]:
        sys.exit(NOT_SET_UP)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDED)
    fault_end, fault = os.pipe()  # closed by the start of the command; else it has words
    command = os.fork()
    if command == 0:
        os.close(fault_end)
        become(arguments[2:], spec, fault)
    os.close(fault)
    with open(fault_end, "rb") as words:
        said = words.read()
    if said:
        sys.stderr.write(said.decode("utf-8", "replace"))
        sys.stderr.flush()
    else:
        os.write(spec["told"], b"ran")
    exit_as(wait_for(command), failed=bool(said))


def read_spec(fd: int) -> "dict[str, Any]":
    """What is in the pipe, which is closed."""
    with open(fd, "rb") as pipe:
        spec: dict[str, Any] = marshal.load(pipe)  # noqa: S302  from ourselves
    return spec


def become(argv: list[str], spec: "dict[str, Any]", fault: int) -> "NoReturn":
    """Hold this process, which is the child, and become the command. Never returns."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and not by the command
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDED)
        limit(spec)
        drop_capabilities(spec["capabilities"])
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        check(libc.syscall(ctypes.c_long(RESTRICT_SELF), ctypes.c_int(spec["rules"]), ctypes.c_uint32(0)))
        filter_calls(bytes.fromhex(spec["filter"]))
        for fd in (spec["rules"], spec["told"]):
            os.set_inheritable(fd, False)  # noqa: FBT003  its signature
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606  what this program is for
    except BaseException as error:  # noqa: BLE001  whatever it is, nothing may run unheld
        os.write(fault, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(NOT_SET_UP)


def limit(spec: "dict[str, Any]") -> None:
    """Bound what the command may use, never above what we may ourselves."""
    for kind, most in [*spec["limits"], (resource.RLIMIT_NPROC, spec["processes"] + own_tasks())]:
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))


def own_tasks() -> int:
    """Threads of this user, whom the kernel counts all together; root it does not count."""
    count, own = 0, os.getuid()
    for name in os.listdir("/proc") if own else ():
        try:
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == own:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:  # it ended
            pass
    return count


def drop_capabilities(kept: list[int]) -> None:
    """Give all up but those, for good: with no new privileges none comes back."""
    libc.prctl(PR_CAP_AMBIENT, *map(ctypes.c_ulong, (CLEAR_AMBIENT, 0, 0, 0)))
    for number in set(range(CAPABILITIES)) - set(kept):
        libc.prctl(PR_CAPBSET_DROP, *map(ctypes.c_ulong, (number, 0, 0, 0)))  # fails where we have none
    bits = sum(1 << number for number in kept)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    check(libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)))


def filter_calls(program: bytes) -> None:
    """Put seccomp's filter upon this process and its children."""
    kept = ctypes.create_string_buffer(program, len(program))
    steps = struct.pack("@HP", len(program) // 8, ctypes.addressof(kept))  # struct sock_fprog
    check(libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(FILTER), steps, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def wait_for(command: int) -> int | None:
    """The status of the command when it has ended, with all below it; None where it had to be ended."""
    status = None
    while status is None:
        if signal.sigwait(ENDED) == signal.SIGTERM:
            press(signal.SIGTERM, TERM_S)
            break
        status = reap(command)
    press(signal.SIGKILL, KILL_S)
    return status


def press(number: int, seconds: float) -> None:
    """Signal all that is below, and wait until none is there, or the time is over.

    SIGTERM once: what they start to clean up, such as `rm`, is let work.
    """
    deadline = time.monotonic() + seconds
    asked = False
    while left := descendants():
        for pid in left if number == signal.SIGKILL or not asked else ():
            send(pid, number)
        asked = True
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S)
        reap(0)


def send(pid: int, number: int) -> None:
    """The signal; one that is stopped must go on to hear of it."""
    for one in (number, signal.SIGCONT):
        try:
            os.kill(pid, one)
        except OSError:  # gone
            return


def reap(command: int) -> int | None:
    """Take leave of all that have ended; the status of the command if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == command:
            found = status


def descendants() -> list[int]:
    """Living processes below us, parents first."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal():
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    parents.setdefault(int(fields[1]), []).append(int(name))
        except (OSError, IndexError):  # it ended
            pass
    found = parents.get(os.getpid(), [])
    for pid in found:
        found += parents.get(pid, [])
    return found


def exit_as(status: int | None, *, failed: bool) -> "NoReturn":
    """End as the command did, by its signal too."""
    if failed or status is None:
        os._exit(NOT_SET_UP)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def prctl(option: int, value: int) -> None:
    """Raises OSError where the kernel refuses."""
    check(libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def check(result: int) -> None:
    """Raise OSError if a call has failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main(sys.argv[1:])
