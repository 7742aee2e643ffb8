"""What the sandbox costs a command: the same one with and without it in turn, the median of the differences.

Without: by our own runner, which looks for what a command left behind; and as a bare spawn of the shell. What
of it is bubblewrap's own is told by a spawn of it with the same mounts and namespaces, and nothing of ours.
A run's commands write into a layer, and all but the first find a sandbox that stands ready: it was made
behind the one before, and is waited for here as a model's thinking would be. The others are made for theirs.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from report import report

from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.changes.spare_layers import wait_for_spares
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.commands.sandbox_view import Bounds, bubblewrap_arguments
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

GOAL_MS = 10.0  # at the median, a command
WITHOUT = {"plain": "our runner without it", "bare": "a bare spawn"}


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--figures", action="store_true")
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as place:
        home, root = Path(place, "home"), Path(place, "ws")
        home.mkdir()  # noqa: ASYNC240  nobody else is on this loop
        root.mkdir()  # noqa: ASYNC240
        with Workspace(root, hidden=(home,)) as workspace:
            plain = ToolContext(
                workspace=workspace, settings=load_settings(home=home), spill=SpillStore(home / "spill", "t")
            )
            boxed = replace(plain, find_sandbox=find_sandbox)
            await alone(root, pairs)
            await paired("with a bind", plain, boxed, pairs)
            if find_sandbox().overlay:
                await paired("with an overlay thrown away", plain, replace(boxed, discard=True), pairs)
            processes = ThreadProcesses()
            processes.share_network("off", find_sandbox())
            if processes.shared_network("off"):
                shared = replace(boxed, processes=processes)
                await paired("in the network of the thread's processes", plain, shared, pairs)
            await processes.end_all()
            layered = replace(boxed, layers=home, processes=processes)
            if find_sandbox().overlay:
                await paired("of a run, with a layer, standing ready", plain, layered, pairs)
                first = replace(layered, processes=None)
                once = "none: once a run, and its layer's cost is transactions.py's"
                await paired("of a run's first command, with a layer", plain, first, pairs, without_goal=once)
            await processes.end_all()


async def paired(
    name: str, plain: ToolContext, boxed: ToolContext, pairs: int, *, without_goal: str = ""
) -> None:
    """One figure; the two of a pair run right after each other, each as often first as second."""
    took: dict[str, list[float]] = {"boxed": [], "plain": [], "bare": []}
    ways = {"boxed": lambda: command(boxed), "plain": lambda: command(plain), "bare": bare}
    for number in range(pairs + 1):
        for way in sorted(ways, reverse=bool(number % 2)):
            began = time.perf_counter()
            await ways[way]()
            if number:  # the first warms up
                took[way].append((time.perf_counter() - began) * 1000)
            await asyncio.to_thread(wait_for_spares)
            if boxed.processes:
                await asyncio.to_thread(boxed.processes.ready.wait)
    for without in ("plain", "bare"):
        differences = sorted(a - b for a, b in zip(took["boxed"], took[without], strict=True))
        median = statistics.median(differences)
        report(
            f"sandbox {name}, `true`, {pairs} pairs, against {WITHOUT[without]}",
            seen=f"{median:+.1f} ms p50, {differences[int(pairs * 0.95)]:+.1f} p95; "
            f"without {statistics.median(took[without]):.1f}; {find_sandbox().reason}",
            goal=without_goal or f"at most {GOAL_MS:.0f} ms more at p50",
            holds=find_sandbox().backend != "none" and bool(without_goal or median <= GOAL_MS),
        )


async def alone(root: Path, pairs: int) -> None:
    """Bubblewrap by itself, against a bare spawn."""
    took: dict[bool, list[float]] = {True: [], False: []}
    with Workspace(root) as workspace, workspace.open_folder(".") as fd:
        bounds = Bounds(root=root.resolve(), root_fd=fd, folder=".", home=Path.home())  # noqa: ASYNC240
        enclosed = [find_sandbox().program, *bubblewrap_arguments(find_sandbox(), bounds)]
        for number in range(2 * pairs):
            began = time.perf_counter()
            await bare(*([*enclosed, "--"] if number % 2 else []), pass_fds=[fd])
            took[bool(number % 2)].append((time.perf_counter() - began) * 1000)
    more = statistics.median(a - b for a, b in zip(took[True], took[False], strict=True))
    report(
        f"bubblewrap by itself, `true`, {pairs} pairs, against a bare spawn",
        seen=f"{more:+.1f} ms p50",
        goal="none: it is what the machine takes for the namespaces and mounts",
        holds=True,
    )


async def command(call: ToolContext) -> None:
    assert run_command.coroutine is not None
    await run_command.coroutine(command="true", call=call)  # as the guard does, without LangChain's callbacks


async def bare(*before: str, pass_fds: Sequence[int] = ()) -> None:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *before, "bash", "-c", "true", stdin=quiet, stdout=quiet, pass_fds=pass_fds
    )
    await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
