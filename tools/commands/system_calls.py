"""Which calls of the kernel a command under Landlock may not make: a filter for seccomp, as bytes.

Landlock holds files and signals. What it does not know is refused here: sockets, namespaces, other programs'
limits, keys and shared memory, and the modes of files, which it lets a command change wherever they are.
"""

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Of a filter's program, from linux/filter.h and linux/seccomp.h. It reads struct seccomp_data.
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16  # an argument has 8 bytes, the low half first
ALLOW, ERROR = 0x7FFF0000, 0x00050000
X32: Final = 0x40000000  # the bit in the number by which x86-64's third set of calls is reached

NAMESPACES: Final = 0x7E020080  # CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET, -TIME
INTERNET: Final = (
    2,
    10,
    16,
)  # AF_INET, AF_INET6, AF_NETLINK, which resolvers ask for this machine's addresses
PAIRS: Final = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET: a datagram one could be sent to any path
TYPED: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into a terminal
SET_ID_OR_EVERYBODY: Final = 0o6002  # bits of a mode that no file needs
OWNER: Final = (0o400, 0o200)  # bits that stay: nobody is locked out of their own files


@dataclass(frozen=True)
class Machine:
    """A processor's name in `seccomp_data`, and its numbers of calls by name (-1: it has none)."""

    audit: int
    calls: Mapping[str, int]


# Name, x86-64, arm64. From asm/unistd_64.h and asm-generic/unistd.h.
_CALLS: Final = """
clone 56 220, clone3 435 435, unshare 272 97, setns 308 268, prlimit64 302 261, ioctl 16 29,
socket 41 198, socketpair 53 199, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
keyctl 250 219, add_key 248 217, request_key 249 218, bpf 321 280, perf_event_open 298 241,
open_by_handle_at 304 265, userfaultfd 323 282,
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7,
removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16,
setxattrat 463 463, removexattrat 466 466, file_setattr 469 469,
chmod 90 -1, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452,
chown 92 -1, fchown 93 55, lchown 94 -1, fchownat 260 54,
utime 132 -1, utimes 235 -1, futimesat 261 -1, utimensat 280 88
"""
_ROWS: Final = [row.split() for row in _CALLS.replace("\n", " ").split(",")]
MACHINES: Final = {
    "x86_64": Machine(0xC000003E, {name: int(number) for name, number, _ in _ROWS}),
    "aarch64": Machine(0xC00000B7, {name: int(number) for name, _, number in _ROWS}),
}

# As if the kernel had none of these: programs have another way, or say plainly that they need it.
_MISSING: Final = (
    *("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "mq_open", "mq_unlink"),
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl"),
)
_FORBIDDEN: Final = (
    *("setns", "keyctl", "add_key", "request_key", "bpf", "perf_event_open"),
    *("open_by_handle_at", "userfaultfd"),
)
_UNSUPPORTED: Final = (
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "file_setattr"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
_MODES: Final = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}  # and which argument is the mode
_OWNERS_AND_TIMES: Final = (
    *("chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat"),
)

Step = tuple[int, int, int, int]
"""An instruction: what it does, how many to skip if it holds and if it does not, and its number."""


def build_filter(machine: Machine, *, network: bool, frozen: bool) -> bytes:
    """The program, as seccomp(2) takes it.

    Args:
        machine: the processor's.
        network: sockets of the internet can be made. Named sockets of this machine never can.
        frozen: no mode, owner or time of any file can be changed.
    """
    steps: list[Step] = [
        (LOAD, 0, 0, MACHINE_AT),
        (EQUAL, 1, 0, machine.audit),
        _refuse(errno.ENOSYS),
        (LOAD, 0, 0, NUMBER_AT),
        (AT_LEAST, 0, 1, X32),
        _refuse(errno.ENOSYS),
    ]
    for name, checks in _rules(network=network, frozen=frozen):
        if machine.calls[name] >= 0:
            steps += [(EQUAL, 0, len(checks), machine.calls[name]), *checks]
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _rules(*, network: bool, frozen: bool) -> Iterator[tuple[str, list[Step]]]:
    """Each call that is looked at, with the steps that end in its refusal or its leave."""
    yield from ((name, [_refuse(errno.ENOSYS)]) for name in _MISSING)
    yield from ((name, [_refuse(errno.EPERM)]) for name in _FORBIDDEN)
    yield from ((name, [_refuse(errno.EOPNOTSUPP)]) for name in _UNSUPPORTED)
    for name in ("clone", "unshare"):
        yield name, [_argument(0), (ANY_BIT, 0, 1, NAMESPACES), _refuse(errno.EPERM), _ALLOW]
    yield "prlimit64", _only(0, (0,), errno.EPERM)  # one's own
    yield "ioctl", [_argument(1), *_none_of(TYPED), _ALLOW]
    yield "socket", _only(0, INTERNET, errno.EACCES) if network else [_refuse(errno.EACCES)]
    kind = [_argument(1), (AND, 0, 0, 0xF), *_one_of(PAIRS), _refuse(errno.EACCES)]
    yield "socketpair", kind
    for name, place in _MODES.items():
        yield name, [_refuse(errno.EPERM)] if frozen else _mode(place)
    if frozen:
        yield from ((name, [_refuse(errno.EPERM)]) for name in _OWNERS_AND_TIMES)


def _mode(place: int) -> list[Step]:
    refused = _refuse(errno.EPERM)
    kept = [step for bit in OWNER for step in ((ANY_BIT, 1, 0, bit), refused)]
    return [_argument(place), (ANY_BIT, 0, 1, SET_ID_OR_EVERYBODY), refused, *kept, _ALLOW]


def _only(place: int, values: Sequence[int], code: int) -> list[Step]:
    return [_argument(place), *_one_of(values), _refuse(code)]


def _one_of(values: Sequence[int]) -> list[Step]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), _ALLOW)]


def _none_of(values: Sequence[int]) -> list[Step]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), _refuse(errno.EPERM))]


def _argument(place: int) -> Step:
    """Load the low half: all that the kernel reads of a number of 32 bits."""
    return (LOAD, 0, 0, ARGUMENTS_AT + 8 * place)


def _refuse(code: int) -> Step:
    return (RETURN, 0, 0, ERROR | code)


_ALLOW: Final[Step] = (RETURN, 0, 0, ALLOW)
