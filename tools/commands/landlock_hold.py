"""One command's surroundings under Landlock: what it may read and write, its own temporary folder, its end.

For machines where bubblewrap cannot make namespaces, such as containers. See docs/commands.md for what it
does not hold.
"""

import contextlib
import os
import platform
import resource
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.home_secrets import secrets_below
from lockstitch.tools.commands.landlock_probe import LAUNCHER
from lockstitch.tools.commands.landlock_rules import READ, WRITE, LandlockRules
from lockstitch.tools.commands.landlock_tree import LandlockTree
from lockstitch.tools.commands.protected import find_protected
from lockstitch.tools.commands.sandbox_tree import FILE_BYTES, PROCESSES_A_CPU, PROCESSES_MIN
from lockstitch.tools.commands.sandbox_view import EMPTY, KEPT_OF_RUN
from lockstitch.tools.commands.system_calls import MACHINES, build_filter
from lockstitch.tools.context import ToolContext
from lockstitch.tools.paths import SETTINGS_FOLDER

Writes = Literal["nothing", "below", "all"]
"""What a command may change of the workspace: nothing; what is in folders that are there, but for `.git` and
our settings; or all of it. Landlock knows no exception below a folder: where files can be made in the
workspace's own, a `.git/hooks` can be made as well."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED: Final = Path("/dev/shm")  # noqa: S108  semaphores live there, by names that cannot be moved
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER = 0, 1, 3  # as `FOREIGN_CAPABILITIES`, from linux/capability.h


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What one command may reach.

    Attributes:
        root: the workspace, absolute and without links; `root_fd` is its descriptor.
        home: the person's.
        hidden: what it can neither read nor write.
        writes: of the workspace.
        own: a folder of its own.
    """

    root: Path
    root_fd: int
    home: Path
    hidden: tuple[Path, ...]
    writes: Writes
    own: Path


def hold_back(call: ToolContext, stack: contextlib.ExitStack) -> tuple[LandlockTree, tuple[str, ...]]:
    """The tree of a command's processes, and what comes before its own arguments; `stack` closes it.

    Raises:
        ToolExecutionError: nothing can be both the workspace and outside of it, or the disk is full.
    """
    root, home = Path(os.path.realpath(call.workspace.root)), Path(os.path.realpath(Path.home()))
    if root == Path("/"):
        raise ToolExecutionError("the workspace is /: no sandbox can confine a command to everything.")
    own = stack.enter_context(_own_folder())
    reach = Reach(
        root=root,
        root_fd=stack.enter_context(call.workspace.open_folder(".")),
        home=home,
        hidden=(
            *map(Path, secrets_below(str(home))),
            *(Path(os.path.realpath(path)) for path in call.workspace.hidden),
        ),
        writes=writes_of(call),
        own=own,
    )
    network = call.network == "on"
    rules = build_rules(reach, network=network)
    stack.callback(rules.close)
    machine = MACHINES[platform.machine()]
    spec = {
        "filter": build_filter(machine, network=network, frozen=reach.writes == "nothing").hex(),
        "limits": [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, FILE_BYTES)],
        "processes": max(PROCESSES_MIN, PROCESSES_A_CPU * (os.cpu_count() or 1)),
        "capabilities": _capabilities(reach),
    }
    surroundings = {"TMPDIR": str(own), "XDG_CACHE_HOME": str(own / ".cache")}
    tree = LandlockTree(spec, rules=rules.fd, environment=surroundings)
    stack.callback(tree.close)
    return tree, (*LAUNCHER, str(tree.spec_fd), "--")


def writes_of(call: ToolContext) -> Writes:
    """All of the workspace only where a person stands behind the call."""
    if call.discard:
        return "nothing"
    return "all" if call.approved or call.settings.unsandboxed_commands == "allow" else "below"


def build_rules(reach: Reach, *, network: bool) -> LandlockRules:
    """The rules that let a command reach that and nothing else. Waits for the disk, a few ms."""
    rules = LandlockRules(network=network)
    try:
        _allow_reading(rules, reach)
        _allow_writing(rules, reach)
    except BaseException:
        rules.close()
        raise
    return rules


def _allow_reading(rules: LandlockRules, reach: Reach) -> None:
    rules.allow("/", READ, without=(*map(Path, EMPTY), *reach.hidden))
    for place in ("/proc", *KEPT_OF_RUN):
        rules.allow(place, READ)
    if any(reach.home.is_relative_to(place) for place in EMPTY):
        rules.allow(reach.home, READ, without=reach.hidden)
    rules.allow_open(reach.root_fd, reach.root, READ, without=reach.hidden)


def _allow_writing(rules: LandlockRules, reach: Reach) -> None:
    rules.allow(reach.own, WRITE)
    for device in DEVICES:
        rules.allow(device, WRITE)
    if SHARED.is_dir() and not any(SHARED.iterdir()):  # else it holds what others share
        rules.allow(SHARED, WRITE)
    if reach.writes == "nothing":
        return
    repositories = find_protected(reach.root).writable  # of a linked worktree, it lies elsewhere
    if reach.writes == "below":
        git = reach.root / ".git"
        obeyed = (git, Path(os.path.realpath(git)), *repositories, reach.root / SETTINGS_FOLDER)
        rules.allow_open(reach.root_fd, reach.root, WRITE, without=(*reach.hidden, *obeyed))
        return
    rules.allow_open(reach.root_fd, reach.root, WRITE, without=reach.hidden)
    for repository in repositories:
        rules.allow(repository, WRITE, without=reach.hidden)


def _capabilities(reach: Reach) -> list[int]:
    """Root may write in a folder that is another user's only with these."""
    foreign = os.geteuid() == 0 and os.fstat(reach.root_fd).st_uid != 0
    return [CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER] if foreign else []


@contextlib.contextmanager
def _own_folder() -> Iterator[Path]:
    """An empty folder that is deleted afterwards, whatever modes are in it."""
    try:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="lockstitch-command-")))
        (folder / ".cache").mkdir()
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise ToolExecutionError(f"there is no place for the command's temporary files: {reason}.") from error
    try:
        yield folder
    finally:
        _delete(folder)


def _delete(folder: Path) -> None:
    """Modes may lock us out, and are opened first; another try would find the same."""
    for place, folders, _ in os.walk(folder):
        for inner in (Path(place, name) for name in folders):
            with contextlib.suppress(OSError):
                if not inner.is_symlink():  # nobody is left to make it one
                    inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
