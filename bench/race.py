"""Race the workspace: an attacker swaps a folder and a link to the outside while every verb runs.

Run alone: `python bench/race.py --attempts 30000`. Prints attempts, what came through and escapes for
each verb and back end; exits 1 on any escape. Refusals are expected: half of the time the link is there.
`grep` starts a ripgrep each time, and so makes a hundredth of the attempts.
A plain open(2) runs first: it must escape, or the race is none and the other numbers say nothing.
"""

import argparse
import asyncio
import ctypes
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from report import report

from lockstitch.state.errors import RecoverableError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.confined.confinement import Backend
from lockstitch.tools.confined.openat2 import has_openat2
from lockstitch.tools.context import ToolContext
from lockstitch.tools.grep import grep_files
from lockstitch.tools.workspace import Workspace

SYS_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
RENAME_EXCHANGE = 2
INSIDE, OUTSIDE = b"inside", b"SECRET of the outside"
TARGETS = 64  # files to delete outside; one that is gone is an escape
LIMIT = 1024


@dataclass(frozen=True)
class Arena:
    """`ws/swap` is a folder, and a link to `outside` in the next instant; both hold the same names."""

    base: Path

    @property
    def workspace(self) -> Path:
        """The confined folder."""
        return self.base / "ws"

    @property
    def outside(self) -> Path:
        """What must stay as it is."""
        return self.base / "outside"

    def build(self) -> None:
        """Lay it out anew."""
        for folder in (self.workspace / "swap", self.outside):
            (folder / "deep").mkdir(parents=True)
            content = OUTSIDE if folder == self.outside else INSIDE
            for name in ("file", *(f"victim{i}" for i in range(TARGETS))):
                (folder / name).write_bytes(content)
                (folder / "deep" / name).write_bytes(content)
        (self.outside / "only-outside").write_bytes(OUTSIDE)
        (self.workspace / "link").symlink_to(self.outside)

    def outside_state(self) -> dict[str, bytes]:
        """Every file outside with its bytes."""
        return {
            str(p.relative_to(self.outside)): p.read_bytes() for p in self.outside.rglob("*") if p.is_file()
        }


def attack(workspace: str, began: Event) -> None:
    """Swap until killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = SYS_RENAMEAT2[os.uname().machine]
    one, two = os.fsencode(f"{workspace}/swap"), os.fsencode(f"{workspace}/link")
    while True:
        if libc.syscall(number, -100, one, -100, two, RENAME_EXCHANGE) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")
        began.set()


def control(workspace: Workspace, _: int) -> bool:
    """What a check before the open comes to: the link is there when the file is opened."""
    path = workspace.root / "swap" / "file"
    return path.resolve().is_relative_to(workspace.root.resolve()) and path.read_bytes() == OUTSIDE


def read(workspace: Workspace, turn: int) -> bool:
    """Escape: bytes of the outside."""
    path = ("swap/file", "swap/deep/file", "link/file")[turn % 3]
    return workspace.read_bytes(path, max_bytes=LIMIT) == OUTSIDE


def write(workspace: Workspace, turn: int) -> bool:
    """Escape: seen afterwards, as a changed or new file outside."""
    path = ("swap/file", "swap/deep/file", "swap/deep/new", "swap/made/new")[turn % 4]
    workspace.write_bytes(path, INSIDE, create_dirs=True)
    return False


def list_folder(workspace: Workspace, turn: int) -> bool:
    """Escape: a name that is only outside."""
    return any(entry.name == "only-outside" for entry in workspace.entries(("swap", "link")[turn % 2]))


def delete(workspace: Workspace, turn: int) -> bool:
    """Escape: seen afterwards, as a missing file outside; what was deleted inside is made again."""
    path = f"swap/{'deep/' if turn % 2 else ''}victim{turn % TARGETS}"
    workspace.delete(path)
    workspace.write_bytes(path, INSIDE)
    return False


def edit(workspace: Workspace, turn: int) -> bool:
    """Escape: bytes of the outside read, or seen afterwards."""
    path = ("swap/file", "swap/deep/file")[turn % 2]
    before = workspace.read_bytes(path, max_bytes=LIMIT)
    workspace.write_bytes(path, before.replace(b"in", b"in"))
    return before == OUTSIDE


def move(workspace: Workspace, turn: int) -> bool:
    """Escape: seen afterwards, as a file that left the outside, or came there; what was moved goes back."""
    one, other = f"swap/victim{turn % TARGETS}", f"swap/deep/moved{turn % TARGETS}"
    workspace.move(one, other)
    workspace.move(other, one)
    return False


def grep(workspace: Workspace, _: int) -> bool:
    """Escape: a line of the outside."""
    call = ToolContext(workspace=workspace, settings=load_settings(), spill=SpillStore(Path("nowhere"), "t"))
    search = grep_files.coroutine
    assert search is not None
    return OUTSIDE.decode() in asyncio.run(search("SECRET", call, max_results=1)).output


VERBS: dict[str, Callable[[Workspace, int], bool]] = {
    "read": read,
    "write": write,
    "list": list_folder,
    "delete": delete,
    "edit": edit,
    "move": move,
    "grep": grep,
}
RARE = {"grep": 100}  # one attempt for so many of the others
CONTROL = {"control": control}


def run(verb: str, backend: Backend, attempts: int) -> int:
    """Race one verb; prints a row and returns the escapes."""
    attempts = max(1, attempts // RARE.get(verb, 1))
    with tempfile.TemporaryDirectory() as base:
        arena = Arena(Path(base))
        arena.build()
        before = arena.outside_state()
        spawn = multiprocessing.get_context("spawn")
        began = spawn.Event()
        attacker = spawn.Process(target=attack, args=(str(arena.workspace), began))
        attacker.start()
        try:
            if not began.wait(timeout=30):
                raise TimeoutError("the attacker did not begin")
            through, escapes = race(arena, verb, backend, attempts)
        finally:
            attacker.kill()
            attacker.join()
        after = arena.outside_state()
        escapes += sum(before.get(name) != after.get(name) for name in before.keys() | after.keys())
    print(f"{backend:<8} {verb:<7} {attempts:>9} {through:>9} {escapes:>8}", flush=True)
    return escapes


def race(arena: Arena, verb: str, backend: Backend, attempts: int) -> tuple[int, int]:
    """How many attempts came through, and how many were seen to escape at once."""
    through = escapes = 0
    with Workspace(arena.workspace, backend=backend) as workspace:
        for turn in range(attempts):
            try:
                escapes += (VERBS | CONTROL)[verb](workspace, turn)
                through += 1
            except (RecoverableError, OSError):  # OSError: of the control alone
                continue
    return through, escapes


def main() -> int:
    """Race every verb on every back end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=30_000, help="for each verb and back end")
    parser.add_argument("--figures", action="store_true")
    attempts = parser.parse_args().attempts
    backends: list[Backend] = ["openat2", "walk"] if has_openat2() else ["walk"]
    print(f"{'backend':<8} {'verb':<7} {'attempts':>9} {'through':>9} {'escapes':>8}")
    naive = run("control", backends[0], attempts)
    if naive == 0:
        print("the race is none: nothing was shown", file=sys.stderr)
        return 1
    escapes = sum(run(verb, backend, attempts) for backend in backends for verb in VERBS)
    report(
        f"symlink race, {attempts:,} attempts for each of {len(VERBS)} verbs (grep: a hundredth) and "
        f"{len(backends)} back ends",
        seen=f"{escapes} escapes ({naive} of the naive check)",
        goal="0",
        holds=escapes == 0,
    )
    return int(escapes > 0)


if __name__ == "__main__":
    sys.exit(main())
