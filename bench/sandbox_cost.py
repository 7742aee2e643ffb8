"""What the sandbox costs a command: the same one with and without it in turn, the median of the differences.

Without: by our own runner, which looks for what a command left behind; and as a bare spawn of the shell.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from report import report

from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import find_sandbox
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
            await paired("with a bind", plain, boxed, pairs)
            if find_sandbox().overlay:
                await paired("with an overlay thrown away", plain, replace(boxed, discard=True), pairs)
            processes = ThreadProcesses()
            processes.share_network("off", find_sandbox())
            if processes.shared_network("off"):
                shared = replace(boxed, processes=processes)
                await paired("in the network of the thread's processes", plain, shared, pairs)
            await processes.end_all()


async def paired(name: str, plain: ToolContext, boxed: ToolContext, pairs: int) -> None:
    """One figure; the two of a pair run right after each other, each as often first as second."""
    took: dict[str, list[float]] = {"boxed": [], "plain": [], "bare": []}
    ways = {"boxed": lambda: command(boxed), "plain": lambda: command(plain), "bare": bare}
    for number in range(pairs + 1):
        for way in sorted(ways, reverse=bool(number % 2)):
            began = time.perf_counter()
            await ways[way]()
            if number:  # the first warms up
                took[way].append((time.perf_counter() - began) * 1000)
    for without in ("plain", "bare"):
        differences = sorted(a - b for a, b in zip(took["boxed"], took[without], strict=True))
        median = statistics.median(differences)
        report(
            f"sandbox {name}, `true`, {pairs} pairs, against {WITHOUT[without]}",
            seen=f"{median:+.1f} ms p50, {differences[int(pairs * 0.95)]:+.1f} p95; "
            f"without {statistics.median(took[without]):.1f}; {find_sandbox().reason}",
            goal=f"at most {GOAL_MS:.0f} ms more at p50",
            holds=find_sandbox().backend != "none" and median <= GOAL_MS,
        )


async def command(call: ToolContext) -> None:
    assert run_command.coroutine is not None
    await run_command.coroutine(command="true", call=call)  # as the guard does, without LangChain's callbacks


async def bare() -> None:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", "true", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
