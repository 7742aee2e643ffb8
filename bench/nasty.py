"""Commands that try to outlive, outgrow or outwit the agent: each must end in time, and leave nobody behind.

They run through the tool itself, and once more as long-lived processes that are ended with their run.
Survivors are found by the folder they work in, or their environment. The fork bomb is held by the sandbox's
own limit or, where this runs as root, whom no such limit binds, by a control group of this bench; without
either it is left out, and said so.
"""

import argparse
import asyncio
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from nasty_commands import COMMANDS, Nasty
from report import report

from lockstitch.state.settings import CommandSandbox, Settings, load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.background import FIRST_S, start_process
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import Sandbox, find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

TIMEOUT_S = 3.0
GRACE_S = 1.0  # over the timeout
GROWTH_MB = 50
SURVIVES_S = 0.2  # after the answer: who is alive then has survived
PIDS = Path("/sys/fs/cgroup/pids")
PIDS_MAX = 600  # of the fork bomb, as root


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--sandbox", choices=get_args(CommandSandbox), default="auto", help="the one to try")
    sandbox = find_sandbox(parser.parse_args().sandbox)
    if sandbox.backend == "none":  # as root one of these would end every process of the machine
        report("nasty commands", seen=f"none ran: {sandbox.reason}", goal="a sandbox", holds=False)
        return 1
    if "NASTY_CANARY" not in os.environ:  # secrets of the first environment are what /proc shows
        os.environ["NASTY_CANARY"] = "nasty-canary"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as place:
        os.environ["HOME"] = _person(Path(place))
        return asyncio.run(_all(Path(place), sandbox))


def _person(place: Path) -> str:
    home = place / "person"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("nasty-canary")
    (home / ".netrc").write_text("nasty-canary")
    return str(home)


async def _all(place: Path, sandbox: Sandbox) -> int:
    failed, slowest, left_over, left_out = [], 0.0, 0, []
    ends_s, stayed = 0.0, 0
    settings = load_settings(home=place / "home")
    with socket.create_server(("127.0.0.1", 0)) as server, _watched_memory() as grown:
        port, find = server.getsockname()[1], lambda: sandbox
        await _one(Nasty("warm up", "true"), place, 0, settings, port, find)
        grown.begin()
        for number, nasty in enumerate(COMMANDS, 1):
            with _bounded(nasty) as can_run:
                if not can_run:
                    left_out.append(nasty.name)
                    continue
                seen = await _one(nasty, place, number, settings, port, find)
                ended = await _as_process(nasty, place, settings, number, find)
            ends_s, stayed = max(ends_s, ended.took_s), stayed + ended.survivors
            slowest, left_over = max(slowest, seen.took_s), left_over + seen.survivors
            if not seen.good:
                failed.append(f"{nasty.name} ({seen})")
            if "--figures" not in sys.argv:
                print(f"{'ok' if seen.good else 'BAD':4}{seen.took_s:6.2f} s  {nasty.name}", flush=True)
    ran = len(COMMANDS) - len(left_out)
    alone = report(
        f"{ran} nasty long-lived processes, ended with their run after {FIRST_S:g} s",
        seen=f"slowest end {ends_s:.2f} s, {stayed} survivors",
        goal=f"all within {GRACE_S:g} s, 0 survivors",
        holds=stayed == 0 and ends_s <= GRACE_S,
    )
    return (0 if alone else 1) | _report(
        ran, failed, slowest, left_over, grown.mb, f"{sandbox.reason}{_said_left_out(left_out)}"
    )


def _said_left_out(names: list[str]) -> str:
    return f"; left out: {', '.join(names)}" if names else ""


def _report(ran: int, failed: list[str], slowest: float, left_over: int, mb: float, reason: str) -> int:
    seen = f"{ran - len(failed)} of {ran} well, slowest {slowest:.2f} s, {left_over} survivors, +{mb:.0f} MB"
    wrong = f"; not: {'; '.join(failed)}" if failed else ""
    holds = not failed and left_over == 0 and mb < GROWTH_MB
    report(
        f"{ran} nasty commands, timeout {TIMEOUT_S:g} s ({reason})",
        seen=seen + wrong,
        goal=f"all within timeout + {GRACE_S:g} s, 0 survivors, under {GROWTH_MB} MB more memory",
        holds=holds,
    )
    return 0 if holds else 1


@dataclass(frozen=True)
class Seen:
    """What came of one command."""

    took_s: float
    survivors: int
    held: bool

    @property
    def good(self) -> bool:
        """Whether it ended in time, alone, and as it should."""
        return self.held and self.survivors == 0 and self.took_s <= TIMEOUT_S + GRACE_S


async def _one(
    nasty: Nasty, place: Path, number: int, settings: Settings, port: int, find: Callable[[], Sandbox]
) -> Seen:
    root = place / f"ws{number}"
    root.mkdir()
    words = {"{agent}": str(os.getpid()), "{port}": str(port)}
    command = nasty.command
    for name, value in words.items():
        command = command.replace(name, value)
    with Workspace(root, hidden=(place / "home",)) as workspace:
        call = ToolContext(
            workspace=workspace,
            settings=settings,
            spill=SpillStore(place / "spill", "t"),
            find_sandbox=find,
        )
        known = _processes()
        began = time.monotonic()
        result = await run_command.ainvoke({"command": command, "call": call, "timeout_s": TIMEOUT_S})
        took_s = time.monotonic() - began
    held = nasty.holds(result, root)
    await asyncio.sleep(SURVIVES_S)
    survivors = _survivors(known, root)
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    return Seen(took_s, len(survivors), held)


async def _as_process(
    nasty: Nasty, place: Path, settings: Settings, number: int, find: Callable[[], Sandbox]
) -> Seen:
    """How long the end takes of one that is started to go on, and who survives it."""
    root = place / f"long{number}"
    root.mkdir()
    processes, known = ThreadProcesses(), _processes()
    with Workspace(root, hidden=(place / "home",)) as workspace:
        call = ToolContext(
            workspace=workspace,
            settings=settings,
            spill=SpillStore(place / "spill", "t"),
            find_sandbox=find,
            processes=processes,
        )
        command = nasty.command.replace("{agent}", str(os.getpid())).replace("{port}", "1")
        await start_process.ainvoke({"command": command, "call": call})
        began = time.monotonic()
        await processes.end_run()
        took_s = time.monotonic() - began
    await asyncio.sleep(SURVIVES_S)
    survivors = _survivors(known, root)
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    return Seen(took_s, len(survivors), held=True)


def _processes() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()}


def _survivors(known: set[int], root: Path) -> list[int]:
    """New processes whose folder or environment is that of the command."""
    found = []
    for pid in _processes() - known - {os.getpid()}:
        try:
            folder = str(Path(f"/proc/{pid}/cwd").readlink())
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # it ended, or it is somebody else's
            continue
        if folder.startswith(str(root)) or str(root).encode() in environ:
            found.append(pid)
    return found


class _Grown:
    """How much this process has grown, at its highest."""

    def __init__(self) -> None:
        self.mb = 0.0
        self._before = 0.0

    def begin(self) -> None:
        self._before = _resident_mb()
        self.mb = 0.0

    def look(self) -> None:
        if self._before:
            self.mb = max(self.mb, _resident_mb() - self._before)


@contextmanager
def _watched_memory() -> Iterator[_Grown]:
    grown, done = _Grown(), threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            grown.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield grown
    finally:
        done.set()
        watcher.join()


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024**2


@contextmanager
def _bounded(nasty: Nasty) -> Iterator[bool]:
    """Whether the command may run here: a fork bomb only where something holds it."""
    if nasty.name != "fork bomb" or os.geteuid() != 0:
        yield True
        return
    own, group = _own_group(), PIDS / f"nasty-{os.getpid()}"
    if own is None:
        yield False
        return
    group.mkdir()
    try:
        (group / "pids.max").write_text(str(PIDS_MAX))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield True
    finally:
        (own / "cgroup.procs").write_text(str(os.getpid()))
        time.sleep(0.2)  # for the kernel to forget the last ones
        group.rmdir()


def _own_group() -> Path | None:
    """The folder of our control group of process numbers; None where there is none to write to."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    named = (line.split(":", 2)[2].lstrip("/") for line in lines if line.split(":")[1] == "pids")
    own = next((PIDS / name for name in named), None)
    return own if own and os.access(own / "cgroup.procs", os.W_OK) and os.access(PIDS, os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
