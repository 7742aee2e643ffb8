"""What grep_files costs beside ripgrep itself, and a glob by list_directory, on 22,000 files.

Paired: every round measures both, in turn. CPU is user and system time of this process and its children.
ripgrep alone gets the options that decide what is searched, and writes to /dev/null.
"""

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from report import report

from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.files import list_directory
from lockstitch.tools.grep import grep_files
from lockstitch.tools.ripgrep import find_ripgrep
from lockstitch.tools.workspace import Workspace

FOLDERS, FILES = 200, 110  # files in each folder
BODY = "import os\n\n\ndef some_function(value: int) -> int:\n    return value + 1\n" * 20  # 1.4 KB
GREP_MAX = 1.3  # times ripgrep
GLOB_MAX_S = 0.2
PATTERNS = {
    "no match": "raise ZeroDivisionError",
    "200 matches": r"^# file \d+ of folder 7\d*$|value of 5,",
    "440,000 matches": "some_function",
}


def build(root: Path) -> None:
    """Lay out the tree."""
    for folder in range(FOLDERS):
        place = root / f"package{folder % 20}" / f"part{folder}"
        place.mkdir(parents=True)
        for file in range(FILES):
            name = f"test_{file}.py" if file % 10 == 0 else f"module_{file}.py"
            (place / name).write_text(f"# file {file} of folder {folder}\n{BODY}")


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of `work`, children included."""
    began = _spent_s()
    work()
    return _spent_s() - began


def _spent_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def alone(root: Path, pattern: str) -> None:
    """Ripgrep without us."""
    options = ("--no-config", "--hidden", "--no-require-git", "--line-number", "--sort=path")
    command = [find_ripgrep(root), *options, "--", pattern, "./"]
    subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, check=False)


async def compare(call: ToolContext, name: str, pattern: str, *, rounds: int) -> bool:
    """One pattern, by both; in one event loop, as in a run."""
    search = grep_files.coroutine
    assert search is not None
    await search(pattern, call)
    root, pairs, walls = call.workspace.root, [], []
    for _ in range(rounds):
        usual = cpu_s(lambda: alone(root, pattern))
        before, began = _spent_s(), time.monotonic()
        await search(pattern, call)
        pairs.append((_spent_s() - before, usual))
        walls.append(time.monotonic() - began)
    share = statistics.median(ours / usual for ours, usual in pairs)
    ours, usual = (statistics.median(values) for values in zip(*pairs, strict=True))
    return report(
        f"grep_files on {FOLDERS * FILES:,} files, {name}, CPU of {rounds} rounds",
        seen=f"{ours:.3f} s, ripgrep {usual:.3f} s: {share:.2f} times; {statistics.median(walls):.3f} s wall",
        goal=f"at most {GREP_MAX} times",
        holds=share <= GREP_MAX,
    )


def glob(call: ToolContext, pattern: str, *, rounds: int) -> bool:
    """One glob over everything."""
    args = {"recursive": True, "max_depth": 32, "pattern": pattern, "call": call}
    found = list_directory.invoke(args).data["total"]
    spent = statistics.median(cpu_s(lambda: list_directory.invoke(args)) for _ in range(rounds))
    return report(
        f"glob {pattern} over {FOLDERS * FILES:,} files, CPU of {rounds} rounds",
        seen=f"{spent:.3f} s for {found:,} found",
        goal=f"at most {GLOB_MAX_S} s",
        holds=spent <= GLOB_MAX_S,
    )


def main() -> int:
    """Measure all of it on one tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--figures", action="store_true")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as base:
        root = Path(base).resolve() / "workspace"
        build(root)
        with Workspace(root) as workspace:
            spill = SpillStore(Path(base) / "spill", "bench")
            call = ToolContext(workspace=workspace, settings=load_settings(), spill=spill)
            held = [
                *(asyncio.run(compare(call, name, text, rounds=rounds)) for name, text in PATTERNS.items()),
                *(
                    glob(call, pattern, rounds=rounds)
                    for pattern in ("**/*.py", "**/test_*.py", "package1/**/*")
                ),
            ]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
