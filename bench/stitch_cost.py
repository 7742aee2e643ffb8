"""What it costs to lock a step to its files: three of 16,000 changed, the journal included.

Pairs, each as often first as second: the same change with the journal and without. By file tools at once;
and by a command that writes into a layer and is committed, against one that writes into the workspace. A
run's commands find a sandbox that stands ready, all but the first, which has a row of its own. Beside them
what of such a first one the machine takes by itself: the overlay, its copies, a flush, the renames.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from report import report

from lockstitch.state.journal import BEGINNING, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.changes.call_journal import StepJournal
from lockstitch.tools.changes.spare_layers import wait_for_spares
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.commands.shell import bash, run_shell
from lockstitch.tools.confined.joint_change import FileAction
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

FILES, FOLDERS = 16_000, 400
GOAL_MS = 5.0
NAMES = ("f0.py", "f1.py", "f2.py")
LINES = "".join(f"line {number}\n" for number in range(200))


@contextmanager
def workspace() -> Iterator[ToolContext]:
    """A call whose workspace has the files, with a journal."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as place:
        base = Path(place)
        root, home = base / "work", base / "home"
        home.mkdir()
        for number in range(FOLDERS):
            folder = root / f"d{number}"
            folder.mkdir(parents=True)
            for file in range(FILES // FOLDERS):
                (folder / f"f{file}.py").write_text(LINES)
        processes = ThreadProcesses()
        with open_ledger(home / "ledger.db") as ledger, Workspace(root, hidden=(home,)) as opened:
            step = StepJournal(
                journal=Journal(ledger, ObjectStore(home / "objects", ledger)),
                thread_id="t",
                checkpoint_id="p",
                workspace=root,
                head=BEGINNING,
                now=lambda: "2026-01-01T00:00:00+00:00",
            )
            yield ToolContext(
                workspace=opened,
                settings=load_settings(),
                spill=SpillStore(home / "spill", "t"),
                find_sandbox=find_sandbox,
                journal=step.of_call("c", "bench"),
                layers=home,
                processes=processes,
            )
            asyncio.run(processes.end_all())


def by_files(call: ToolContext, turn: int, *, kept: bool) -> float:
    """Milliseconds of one joint change."""
    assert call.journal is not None
    place = call.workspace.journaled(call.journal) if kept else call.workspace
    changes = [
        FileAction(path=f"d{turn % FOLDERS}/{name}", data=f"{LINES}{turn} {kept}\n".encode())
        for name in NAMES
    ]
    began = time.perf_counter()
    place.change_all(changes)
    return (time.perf_counter() - began) * 1000


def by_command(call: ToolContext, turn: int, *, kept: bool) -> float:
    """Milliseconds of one command."""
    own = call if kept else replace(call, journal=None, layers=None, processes=None)
    began = time.perf_counter()
    asyncio.run(run_shell(bash, append(turn), own, folder=".", timeout_s=60))
    return (time.perf_counter() - began) * 1000


def by_first_command(call: ToolContext, turn: int, *, kept: bool) -> float:
    """Milliseconds of a command whose sandbox is made for it."""
    return by_command(replace(call, processes=None), turn, kept=kept)


def by_nobody(call: ToolContext, turn: int, *, kept: bool) -> float:
    """Milliseconds of the same without us: bubblewrap; kept, a flushed file and three renames besides."""
    root, changed = call.workspace.root, f"d{turn % FOLDERS}"
    place = root.parent / "bare"
    upper, work = place / "upper", place / "work"
    overlay = ["--overlay-src", str(root), "--overlay", str(upper), str(work), str(root)]
    view = [*("--ro-bind", "/", "/"), *("--dev", "/dev"), *("--proc", "/proc")]
    into = [*(overlay if kept else ["--bind", str(root), str(root)]), "--chdir", str(root)]
    began = time.perf_counter()
    if kept:
        for folder in (place, upper, work):
            folder.mkdir()
    apart = ("--unshare-user", "--unshare-pid", "--unshare-net")
    subprocess.run([find_sandbox().program, *apart, *view, *into, "bash", "-c", append(turn)], check=True)
    if kept:
        with (root.parent / "journal").open("ab") as journal:
            journal.write(LINES.encode() * 3)
            journal.flush()
            os.fsync(journal.fileno())
        for name in NAMES:
            (upper / changed / name).rename(root / changed / name)
        shutil.rmtree(place)
    return (time.perf_counter() - began) * 1000


def append(turn: int) -> str:
    """A command that adds a line to three files."""
    return f"for n in {' '.join(NAMES)}; do echo {turn} >> d{turn % FOLDERS}/$n; done"


WITHOUT_GOAL = {by_first_command: "none: once a run", by_nobody: "none: what the machine takes"}


def main() -> None:
    """Both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    with workspace() as call:
        ways = {
            "changed by a file tool, locked to their step": by_files,
            "changed by a command, locked to their step": by_command,
            "changed by a run's first command, locked to their step": by_first_command,
            "changed by a command by bubblewrap, a flush and renames alone": by_nobody,
        }
        for name, way in ways.items():
            took: dict[bool, list[float]] = {True: [], False: []}
            for turn in range(options.pairs):
                for kept in (True, False) if turn % 2 else (False, True):
                    took[kept].append(way(call, turn, kept=kept))
                    wait_for_spares()  # what is done behind a command's back, while a model thinks
                    call.processes.ready.wait()
            more = statistics.median(one - other for one, other in zip(took[True], took[False], strict=True))
            report(
                f"3 files of {FILES:,} {name}",
                seen=f"{more:+.1f} ms p50 over the change itself ({statistics.median(took[False]):.1f} ms)",
                goal=WITHOUT_GOAL.get(way, f"at most {GOAL_MS:.0f} ms"),
                holds=more <= GOAL_MS or way in WITHOUT_GOAL,
            )


if __name__ == "__main__":
    main()
