"""What a command in the sandbox sees of the disk, and what of it can be changed: bubblewrap's arguments.

Everything is there to be read, but for what `home_secrets` and `Bounds.hidden` name. Only the workspace keeps
what is written. The home folder can be written to, and forgets it with the command; so do /tmp and /dev/shm.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.home_secrets import secrets_below
from lockstitch.tools.commands.protected import Protected
from lockstitch.tools.commands.sandbox import (
    FIRST_WITH_BIND_FD,
    NAMESPACES,
    OWN_USERS,
    Sandbox,
)
from lockstitch.tools.commands.whiteouts import whiteout_layer

TMP_BYTES: Final = 2 * 1024**3  # of /tmp, which is memory: enough for a build, too little to fill a machine
SMALL_BYTES: Final = 16 * 1024**2  # of folders where a command has little to write

# In a namespace of users, too, root's number may write these, which are settings of the whole machine.
# Programs read the first. An empty folder in the place of the others costs half of a mount that only reads.
# /proc/irq, /proc/bus and /proc/sysrq-trigger bubblewrap closes by itself.
READ_ONLY: Final = "/proc/sys"
EMPTIED: Final = ("/proc/fs", "/proc/acpi")
# Of /run, whose sockets (Docker's, D-Bus's) are ways out, only what programs and names are found by.
KEPT_OF_RUN: Final = ("/run/current-system", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
EMPTY: Final = ("/tmp", "/var/tmp", "/run", "/dev", "/proc")  # noqa: S108  a command's own: nobody else listens
UNIX_SOCKETS: Final = Path("/proc/net/unix")  # see proc_net(5): the last field is a path, if there is one
# A folder that belongs to somebody else can be written by root only with these, and in no namespace of users.
FOREIGN_CAPABILITIES: Final = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What one command may reach.

    Attributes:
        root: the workspace, absolute and without links; `root_fd` is its descriptor.
        folder: where the command starts, below the root.
        home: the person's, absolute and without links.
        hidden: folders that are empty for it, such as our own home.
        protected: what in the workspace stays as it is.
        discard: what it changes in the workspace is thrown away.
        layer: bubblewrap's options for the layer it writes into in the place of the workspace.
        network: it stays in the network that it is started in, and gets no empty one of its own.
        brought: files from outside, by the path at which they are seen.
        lasting: it may go on for days, in which somebody may delete what hides secrets by its content.
    """

    root: Path
    root_fd: int
    folder: str
    home: Path
    hidden: Sequence[Path] = ()
    protected: Protected = field(default_factory=Protected)
    discard: bool = False
    layer: Sequence[str] = ()
    network: bool = False
    brought: Mapping[str, Path] = field(default_factory=dict)
    lasting: bool = False


@dataclass(frozen=True)
class View:
    """What a command sees.

    Attributes:
        options: bubblewrap's.
        masked: what is hidden by a mount on it. Whoever deletes such a file or folder takes the mount away.
    """

    options: list[str]
    masked: Sequence[str]


def bubblewrap_arguments(sandbox: Sandbox, bounds: Bounds) -> list[str]:
    """The options of `view_of`, and its errors."""
    return view_of(sandbox, bounds).options


def view_of(sandbox: Sandbox, bounds: Bounds) -> View:
    """What a command in these bounds sees.

    Raises:
        ToolExecutionError: nothing can be both the workspace and outside of it.
    """
    if bounds.root == Path("/"):
        raise ToolExecutionError("the workspace is /: no sandbox can confine a command to everything.")
    sockets = () if bounds.network else _sockets(bounds)
    hidden = (os.path.realpath(path) for path in bounds.hidden)
    masks = sorted({*secrets_below(str(bounds.home)), *hidden, *sockets})
    inside = [path for path in masks if _is_below(path, bounds.root)]
    outside = [path for path in masks if _needs_mask(path, bounds) and path not in inside]
    at_home = tuple(path for path in outside if _is_below(path, bounds.home))
    has_home, whiteouts = _has_home(bounds), None
    if has_home and sandbox.overlay and at_home and not bounds.lasting:
        whiteouts = whiteout_layer(str(bounds.home), at_home, apart_from=str(bounds.root))
    outside = [path for path in outside if not (whiteouts and path in at_home)]
    options = [
        *_namespaces(bounds),
        *_machine(),
        *(_home(sandbox, bounds, whiteouts) if has_home else ()),
        *_masked(outside),
        *_workspace(sandbox, bounds),
        *([] if bounds.discard else _protected(sandbox, bounds)),
        *_masked(inside),
        *_brought(bounds),
        *("--chdir", str(bounds.root / bounds.folder)),
    ]
    return View(options, [*outside, *inside])


def _namespaces(bounds: Bounds) -> Iterator[str]:
    yield from NAMESPACES
    if os.geteuid() == 0 and os.fstat(bounds.root_fd).st_uid != 0:
        for capability in FOREIGN_CAPABILITIES:
            yield from ("--cap-add", capability)
    else:
        yield from OWN_USERS
    if not bounds.network:
        yield "--unshare-net"


def _machine() -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    if os.geteuid() == 0:
        yield from ("--ro-bind-try", READ_ONLY, READ_ONLY)
        for path in EMPTIED:
            if os.path.isdir(path) and os.listdir(path):  # noqa: PTH112, PTH208  for each command
                yield from ("--perms", "0555", "--size", str(SMALL_BYTES), "--tmpfs", path)
    yield from ("--size", str(TMP_BYTES), "--tmpfs", "/tmp")  # noqa: S108  its own
    yield from ("--size", str(TMP_BYTES), "--tmpfs", "/var/tmp")  # noqa: S108  its own
    yield from ("--size", str(SMALL_BYTES), "--tmpfs", "/run")
    for path in KEPT_OF_RUN:
        yield from ("--ro-bind-try", path, path)


def _has_home(bounds: Bounds) -> bool:
    """Whether there is one, and it is neither the workspace nor in it."""
    home = str(bounds.home)
    return home != "/" and not _is_below(f"{home}/", bounds.root) and bounds.home.is_dir()


def _home(sandbox: Sandbox, bounds: Bounds, whiteouts: str | None) -> Iterator[str]:
    """Caches are read and, for the command's own use, written; nothing planted in them reaches a person."""
    home = str(bounds.home)
    if sandbox.overlay:
        over = ("--overlay-src", whiteouts) if whiteouts else ()
        yield from ("--overlay-src", home, *over, "--tmp-overlay", home)
    elif (bounds.home / ".cache").is_dir():
        yield from ("--size", str(TMP_BYTES), "--tmpfs", f"{home}/.cache")


def _masked(paths: Sequence[str]) -> Iterator[str]:
    """An empty folder for a folder, an empty file for a file."""
    for path in map(Path, paths):
        if path.is_dir():
            yield from ("--size", str(SMALL_BYTES), "--tmpfs", str(path))
        elif path.exists():
            yield from ("--dev-bind", "/dev/null", str(path))


def descriptors_for(sandbox: Sandbox, bounds: Bounds) -> list[int]:
    """What the program must inherit. No more: one that it does not use and close leads the command out."""
    binds_it = not (bounds.discard or bounds.layer) and sandbox.version >= FIRST_WITH_BIND_FD
    return [bounds.root_fd] if binds_it else []


def _workspace(sandbox: Sandbox, bounds: Bounds) -> Iterator[str]:
    root = str(bounds.root)
    if bounds.layer:
        yield from bounds.layer
    elif bounds.discard:
        yield from ("--overlay-src", root, "--tmp-overlay", root)
    elif descriptors_for(sandbox, bounds):
        yield from ("--bind-fd", str(bounds.root_fd), root)  # refused if another folder is there by now
    else:
        yield from ("--bind", root, root)


def _protected(sandbox: Sandbox, bounds: Bounds) -> Iterator[str]:
    for path in bounds.protected.writable:
        yield from ("--bind", str(path), str(path))
    for path in bounds.protected.kept:
        yield from ("--ro-bind", str(path), str(path))
    masked = list(map(str, bounds.protected.masked))
    if sandbox.overlay and _can_be_overlaid(bounds):  # it only reads, and costs a quarter of the other way
        empty = [word for folder in masked[:2] for word in ("--overlay-src", folder)]
        yield from (word for folder in masked for word in (*empty, "--ro-overlay", folder))
    else:
        for folder in masked:
            yield from ("--size", str(SMALL_BYTES), "--tmpfs", folder, "--remount-ro", folder)


def _can_be_overlaid(bounds: Bounds) -> bool:
    """Whether there are two empty folders, and they can lie below an overlay, as the home surely can."""
    places = [*bounds.protected.masked[:2], bounds.home]
    try:
        return len(places) > 2 and len({place.stat().st_dev for place in places}) == 1
    except OSError:
        return False


def _brought(bounds: Bounds) -> Iterator[str]:
    for seen, path in bounds.brought.items():
        yield from ("--ro-bind", str(path), seen)


def _sockets(bounds: Bounds) -> Iterator[str]:
    """Where other programs listen: a server can be reached through a mount that only reads."""
    try:
        lines = UNIX_SOCKETS.read_bytes().splitlines()[1:]
    except OSError:
        return
    names = {fields[7] for line in lines if len(fields := line.split(maxsplit=7)) == 8}
    real = lru_cache(maxsize=None)(os.path.realpath)  # a desktop has a hundred of them in a few folders
    for name in sorted(name for name in names if name.startswith(b"/")):  # others have no file we find
        folder, _, last = os.fsdecode(name).rpartition("/")
        place = os.path.join(real(folder or "/"), last)  # noqa: PTH118  none of these is an object yet
        if _is_seen(place, bounds) or os.path.islink(place):  # noqa: PTH114
            path = os.path.realpath(place)
            if _is_seen(path, bounds) and Path(path).is_socket():
                yield path


def _is_seen(path: str, bounds: Bounds) -> bool:
    if _is_below(path, bounds.root) or _is_below(path, bounds.home):
        return True
    return not any(_is_below(path, place) for place in EMPTY)


def _needs_mask(path: str, bounds: Bounds) -> bool:
    """Whether it is no part of what is empty anyway; one around the home hides that, too."""
    return path != str(bounds.root) and (_is_seen(path, bounds) or _is_below(f"{bounds.home}/", path))


def _is_below(path: str, folder: Path | str) -> bool:
    """Quicker than by their parts: it is asked often, for each command."""
    return path.startswith(f"{folder}/")
