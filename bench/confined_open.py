"""What it costs to open a file through the confined layer, against the usual `resolve()` and check.

Paired: every round measures both, in turn, by the CPU time of this process. A path of five parts.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from report import report

from lockstitch.tools.confined.confinement import Backend, Confinement
from lockstitch.tools.confined.openat2 import has_openat2

PATH = "a/b/c/d/file"
SHARE_MAX = 0.5  # of the CPU of the usual way


def resolve_and_check(root: Path) -> int:
    """The usual way: it is open to a race, see bench/race.py."""
    resolved = root.resolve()
    path = (root / PATH).resolve()
    if not path.is_relative_to(resolved):
        raise PermissionError(PATH)
    return os.open(path, os.O_RDONLY)


def cpu_us(work: Callable[[], int], opens: int) -> float:
    """CPU time of one open and close, in microseconds."""
    began = time.process_time_ns()
    for _ in range(opens):
        os.close(work())
    return (time.process_time_ns() - began) / opens / 1000


def measure(backend: Backend, root: Path, *, rounds: int, opens: int) -> bool:
    """Compare one back end; prints the figure and says whether it holds."""
    place = Confinement(root, backend=backend)
    pairs = []
    for _ in range(rounds):
        usual = cpu_us(lambda: resolve_and_check(root), opens)
        pairs.append((cpu_us(lambda: place.open(PATH, os.O_RDONLY), opens), usual))
    place.close()
    share = statistics.median(ours / usual for ours, usual in pairs)
    ours, usual = (statistics.median(values) for values in zip(*pairs, strict=True))
    return report(
        f"open through the confined layer by {backend}, CPU of {rounds} x {opens:,} opens",
        seen=f"{ours:.1f} us, resolve() and check {usual:.1f} us: {share:.2f} of it",
        goal=f"at most {SHARE_MAX}",
        holds=share <= SHARE_MAX,
    )


def main() -> int:
    """Measure every back end there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--opens", type=int, default=2_000, help="in one round")
    parser.add_argument("--figures", action="store_true")
    wanted = parser.parse_args()
    backends: list[Backend] = ["openat2", "walk"] if has_openat2() else ["walk"]
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve()
        (root / PATH).parent.mkdir(parents=True)
        (root / PATH).write_bytes(b"content")
        held = [measure(backend, root, rounds=wanted.rounds, opens=wanted.opens) for backend in backends]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
