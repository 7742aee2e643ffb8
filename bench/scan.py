"""What the fallback scan costs a command that changes 3 files in a workspace of 16,000, and its first look.

Once inside a clean git checkout, whose files need no copy, and once without git. A round is the look before
a command and the one after it, without the change itself. CPU is user and system time, also of git and of
the second process. Beside it stands what lstat(2) of every file takes one process, twice, in the same
rounds.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from report import report

from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import digests_in, inverse
from lockstitch.tools.changes.scan import find_changes, take_baseline
from lockstitch.tools.changes.second_walk import SECOND_WALK
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import KeptBytes

FOLDERS, FILES_EACH = 1_000, 16
CHANGED = 3
MANY = 10_000
FIRST_S_MAX = 1.0
ROUND_MS_MAX = 120.0

T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "ws")
        make_workspace(root)
        commit(root)
        holds = [scan(root, Path(folder, "home"), given.rounds, in_git=True)]
        shutil.rmtree(root / ".git")
        holds.append(scan(root, Path(folder, "other"), given.rounds, in_git=False))
        holds.append(many(root, Path(folder, "other")))
    return 0 if all(holds) else 1


def scan(root: Path, home: Path, rounds: int, *, in_git: bool) -> bool:
    """The first look, then rounds of three changed files each."""
    what = f"{FOLDERS * FILES_EACH:,} files " + ("of a clean checkout" if in_git else "without git")
    home.mkdir()
    place = home / "index"
    source, right, walls, cpus, floors = random.Random(1), 0, [], [], []
    with opened(root) as fd, open_ledger(home / "ledger.db") as ledger:
        objects = ObjectStore(home / "objects", ledger)
        look = partial(take_baseline, fd, place=place, objects=objects)
        _, wall, cpu = timed(look)
        holds = report(
            f"first look at {what}",
            seen=f"{wall:.2f} s, {cpu:.2f} s CPU; store {size_of(home)}, index {size_of(place)} of it",
            goal=f"at most {FIRST_S_MAX:.0f} s" if in_git else "none: each file is copied once",
            holds=wall <= FIRST_S_MAX or not in_git,
        )
        for number in range(rounds):
            baseline, wall, cpu = timed(look)
            paths = [f"{source.randrange(FOLDERS)}/{name}" for name in range(CHANGED)]
            for path in paths:
                (root / path).write_text(f"changed {number} {in_git}\n")
            found, more, cpu_more = timed(partial(find_changes, fd, baseline, objects=objects))
            kept = all(objects.has(digest) for digest in digests_in(found.changes))
            right += kept and sorted(change.path for change in found.changes) == sorted(paths)
            walls.append((wall + more) * 1000)
            cpus.append((cpu + cpu_more) * 1000)
            floors.append(timed(partial(stat_all, fd))[1] * 2 * 1000)
    median = statistics.median(walls)
    ninth = sorted(walls)[int(len(walls) * 0.9)]
    return holds & report(
        f"looks before and after a command that changes {CHANGED} of {what}, {rounds} rounds",
        seen=f"{median:.0f} ms p50, {min(walls):.0f} at best, {ninth:.0f} p90; "
        f"CPU {statistics.median(cpus):.0f} ms p50, {min(cpus):.0f} at best; "
        f"lstat alone {statistics.median(floors):.0f} ms p50, {min(floors):.0f} at best; "
        f"{right} of {rounds} right; store {size_of(home)}",
        goal=f"at most {ROUND_MS_MAX:.0f} ms at p50",
        holds=median <= ROUND_MS_MAX and right == rounds,
    )


def stat_all(root: int) -> None:
    """What a look alone cannot do without: each folder opened, each file in it asked for its status."""
    for folder in range(FOLDERS):
        fd = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
        for file in range(FILES_EACH):
            os.lstat(str(file), dir_fd=fd)
        os.close(fd)


def many(root: Path, home: Path) -> bool:
    """A command that makes very many files, and its undo."""
    place = home / "index"
    with opened(root) as fd, open_ledger(home / "ledger.db") as ledger:
        objects = ObjectStore(home / "objects", ledger)
        baseline = take_baseline(fd, place=place, objects=objects)
        (root / "many").mkdir()
        for number in range(MANY):
            (root / "many" / str(number)).write_text(f"{number}\n")
        found, wall, cpu = timed(partial(find_changes, fd, baseline, objects=objects))
        conflicts, undone, _ = timed(partial(apply, fd, inverse(found.changes), KeptBytes(objects.pieces)))
    holds = len(found.changes) == MANY + 1 and not conflicts and not (root / "many").exists()
    return report(
        f"look after a command that makes {MANY:,} files, and its undo",
        seen=f"{wall:.1f} s, {cpu:.1f} s CPU; undone in {undone:.1f} s; {len(found.changes):,} changes",
        goal="each found, and taken back",
        holds=holds,
    )


def make_workspace(root: Path) -> None:
    """Text of about 2 KB a file, as code has it."""
    source = random.Random(1)
    for folder in range(FOLDERS):
        (root / str(folder)).mkdir(parents=True)
        for file in range(FILES_EACH):
            lines = source.randint(10, 90)
            (root / str(folder) / str(file)).write_text(
                "".join(f"value_{source.randrange(10**6)} = {source.random()}\n" for _ in range(lines))
            )


def commit(root: Path) -> None:
    """A checkout as after a clone: packed, and nothing changed since."""
    for arguments in (
        ["init", "-q"],
        ["config", "gc.auto", "0"],
        ["add", "-A"],
        [*WHO, "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    subprocess.run(["git", "repack", "-adq"], cwd=root, check=True)
    time.sleep(0.1)
    (root / ".git" / "index").touch()  # younger than all files, as after a clone than all but the last ones


WHO = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """The result, wall seconds, and CPU seconds."""
    began, cpu = time.perf_counter(), cpu_s()
    result = work()
    return result, time.perf_counter() - began, cpu_s() - cpu


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + second_cpu_s()


def second_cpu_s() -> float:
    """Of the process that helps looks, where there is one."""
    seen = Path("/proc", str(SECOND_WALK.process.pid), "schedstat")
    return int(seen.read_text().split()[0]) / 1e9 if seen.exists() else 0.0


def size_of(place: Path) -> str:
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return f"{sum(file.stat().st_size for file in files) / 1e6:.2f} MB"


@contextmanager
def opened(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
