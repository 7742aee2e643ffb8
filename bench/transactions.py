"""Commands as transactions: as if they had run in the workspace, whole after any kill, and cheap.

Three figures. Random scripts end in the same tree in a layer that is committed as in the workspace itself,
both in the sandbox. A process that runs a script in a layer and commits it is killed with -9, half of the
times at any moment and half after the seal; what is left is wholly before, or after recovery wholly after.
A command that changes nothing costs little more in a layer, with the look for changes and the commit, than
with a bind.
"""

import argparse
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from report import report

from lockstitch.state.tree_change import from_json, to_json
from lockstitch.tools.changes.transaction import Layer, clear_layers, open_layer, reopen_layer
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.confined.apply import apply

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_commands import Contents, contents, random_script, sandboxed

STEPS = 15  # of one script
MANY = 10_000  # files that one of the steps makes, in one script of `MANY_EVERY`
MANY_EVERY = 50
FEW = 20
GOAL_MS = 5.0  # at the median, a command
DIES_S = 5.0  # for a sandbox to end after its agent; it takes some ms
FILES = 16_000


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scripts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args()
    if not find_sandbox().overlay:
        report("transactions", seen=f"none ran: {find_sandbox().reason}", goal="an overlay", holds=False)
        return 1
    with tempfile.TemporaryDirectory() as place:
        holds = [
            equal(Path(place, "equal"), given.scripts, random.Random(given.seed)),
            whole(Path(place, "whole"), given.kills, random.Random(given.seed)),
            cheap(Path(place, "cheap"), given.pairs),
        ]
    return 0 if all(holds) else 1


def equal(place: Path, scripts: int, source: random.Random) -> bool:
    """Random scripts in a layer and in the workspace itself, from the same random beginning."""
    failed, changes, began = list[str](), 0, time.monotonic()
    for number in range(scripts):
        few = MANY if number % MANY_EVERY == 0 else FEW
        direct, layered = workspaces(place, source)
        script = random_script(source, steps=STEPS, few=few)
        if few == MANY:
            script = f"mkdir -p many; for i in {{1..{MANY}}}; do echo $i > many/$i; done\n{script}"
        sandboxed(bind(direct), direct, script)
        with opened(layered) as root, open_layer(layered, home=place) as layer:
            sandboxed(layer.bwrap_options(), layered, script)
            changes += commit(layer, root)
        if contents(direct) != contents(layered):
            failed.append(script)
            print(
                "--- differs:", *differences(contents(direct), contents(layered)), sep="\n", file=sys.stderr
            )
        remove(place)
    for script in failed[:3]:
        print(f"--- by:\n{script}", file=sys.stderr)
    return report(
        f"{scripts} random scripts in a layer, committed",
        seen=f"{scripts - len(failed)} as in the workspace itself, {changes} changes, "
        f"{time.monotonic() - began:.0f} s",
        goal="all",
        holds=not failed,
    )


def whole(place: Path, kills: int, source: random.Random) -> bool:
    """Kill the process that runs and commits a script, then recover as the next process would."""
    good, counted = 0, {"before the seal": 0, "in the commit": 0, "after it": 0}
    windows = {
        False: 0.02,
        True: 0.01,
    }  # s to the seal, and from there on, as last seen
    for number in range(kills):
        direct, layered = workspaces(place, source)
        script = random_script(source, steps=STEPS, few=200)
        before = contents(layered)
        sandboxed(bind(direct), direct, script)
        kill_within(place, script, windows, source, sealed=number % 2 == 1)
        sealed, done = (place / "seal").exists(), (place / "done").exists()
        counted["after it" if done else "in the commit" if sealed else "before the seal"] += 1
        if sealed:
            recover(place, layered)
        wait_for_end(place, layered)
        expected, left = contents(direct) if sealed else before, contents(layered)
        if any((place / "layers").glob("*")):
            left[b"layers"] = ("left", 0, "")
        good += left == expected
        if left != expected:
            print("--- not whole:", sealed, done, *differences(expected, left), sep="\n", file=sys.stderr)
        remove(place)
    return report(
        f"{kills} transactions killed with -9, then recovered",
        seen=f"{good} whole; killed " + ", ".join(f"{count} {where}" for where, count in counted.items()),
        goal="all, wholly before or wholly after",
        holds=good == kills and min(counted.values()) > 0,
    )


def kill_within(
    place: Path, script: str, windows: dict[bool, float], source: random.Random, *, sealed: bool
) -> None:
    """Kill a process between its start and its seal, or between that and its end."""
    began, (told, tell) = time.monotonic(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        run_and_commit(place, script, tell)
    os.close(tell)
    if sealed and os.read(told, 1):
        windows[False] = time.monotonic() - began
        began = time.monotonic()
    poll = select.poll()
    poll.register(told, select.POLLIN)  # a byte, or the end
    if poll.poll(source.uniform(0, windows[sealed]) * 1000) and sealed:
        windows[True] = time.monotonic() - began
    elif sealed:
        windows[True] *= 1.05  # it was not done: the window may be longer
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)


def run_and_commit(place: Path, script: str, tell: int) -> NoReturn:
    """What is to be killed. The seal is a file that a rename brings."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # bubblewrap complains of its end
    try:
        root = place / "ws"
        with opened(root) as fd, open_layer(root, home=place) as layer:
            sandboxed(layer.bwrap_options(), root, script)
            changes = layer.changes(fd).changes
            (place / "draft").write_text(f"{layer.folder}\n{to_json(changes)}")
            layer.kept = True
            (place / "draft").rename(place / "seal")
            os.write(tell, b"s")
            with layer.files() as files:
                apply(fd, changes, files)
            (place / "done").touch()
            layer.discard()
    finally:
        os._exit(0)


def recover(place: Path, root: Path) -> None:
    """Finish what is sealed, unless it is done."""
    folder, _, changes = (place / "seal").read_text().partition("\n")
    if not (place / "done").exists():
        with opened(root) as fd, reopen_layer(Path(folder), root) as layer:
            with layer.files() as files:
                conflicts = apply(fd, from_json(changes), files)
            if conflicts:
                print(f"--- conflicts: {conflicts[:3]}", file=sys.stderr)
            layer.discard()


def wait_for_end(place: Path, root: Path) -> None:
    """Clear the layers, as soon as a sandbox that dies with its agent lets them be."""
    ends = time.monotonic() + DIES_S
    while time.monotonic() < ends and any((place / "layers").glob("*")):
        clear_layers(root, home=place)


def cheap(place: Path, pairs: int) -> bool:
    """The two of a pair run right after each other, each as often first as second."""
    root = place / "ws"
    for folder in range(FILES // 100):
        (root / f"d{folder}").mkdir(parents=True)
        for file in range(100):
            (root / f"d{folder}" / str(file)).write_text("one line\n")
    took: dict[bool, list[float]] = {True: [], False: []}
    with opened(root) as fd:
        for number in range(pairs + 1):
            for layered in sorted(took, reverse=bool(number % 2)):
                began = time.perf_counter()
                if layered:
                    with open_layer(root, home=place) as layer:
                        sandboxed(layer.bwrap_options(), root, "true")
                        commit(layer, fd)
                else:
                    sandboxed(bind(root), root, "true")
                if number:  # the first warms up
                    took[layered].append((time.perf_counter() - began) * 1000)
    differences = sorted(one - other for one, other in zip(took[True], took[False], strict=True))
    median = statistics.median(differences)
    return report(
        f"`true` in a layer over {FILES} files, commit included, {pairs} pairs, against a bind",
        seen=f"{median:+.1f} ms p50, {differences[int(pairs * 0.95)]:+.1f} p95; "
        f"with the bind {statistics.median(took[False]):.1f}",
        goal=f"at most {GOAL_MS:.0f} ms more at p50",
        holds=median <= GOAL_MS,
    )


def commit(layer: Layer, root: int) -> int:
    """The number of changes."""
    found = layer.changes(root)
    layer.kept = True
    with layer.files() as files:
        conflicts = apply(root, found.changes, files)
    layer.touch(root, found.touched)
    layer.discard()
    if conflicts or found.overtaken:
        print(f"--- conflicts: {conflicts[:3]} {found.overtaken[:3]}", file=sys.stderr)
    return len(found.changes)


def workspaces(place: Path, source: random.Random) -> tuple[Path, Path]:
    """Two equal ones, of a random script's making; the first to run in directly."""
    direct, layered = place / "direct", place / "ws"
    direct.mkdir(parents=True)
    sandboxed(bind(direct), direct, random_script(source, steps=STEPS, few=FEW, closes=False))
    # not `cp -a`: hard links of the first script would be hard links that were there before the second
    subprocess.run(["cp", "-RP", "--preserve=mode,timestamps", str(direct), str(layered)], check=True)
    remove(direct)
    subprocess.run(["cp", "-a", str(layered), str(direct)], check=True)
    return direct, layered


def differences(one: Contents, other: Contents) -> list[str]:
    return [
        f"{path!r}: {one.get(path)} {other.get(path)}"
        for path in sorted(one.keys() | other.keys())
        if one.get(path) != other.get(path)
    ][:5]


def bind(root: Path) -> list[str]:
    return ["--bind", str(root), str(root)]


@contextmanager
def opened(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def remove(folder: Path) -> None:
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
