"""What threads cost on disk and per step, and whether many writers get along, with the product's own graph.

The model is scripted, the tools read files: three nodes and three checkpoints a step. Results are random
words, which compress to about half; one row has random letters instead. The messages' bytes are those of
LangGraph's serializer. `--full` uses the stated counts.
"""

import argparse
import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import LOCKSTITCH
from report import report

from lockstitch.state.errors import ThreadBusyError
from lockstitch.state.lean_saver import LeanSaver
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.service import AgentService, RunRequest, open_service

KNOWN = ["".join(random.Random(n).choices("abcdefghijklmnop", k=2 + n % 8)) for n in range(3000)]  # words
STEPS_A_RUN = 400  # a run may take 500; then the model answers, and a person says to go on
GROWTH_GOAL = 1.3
PATIENCE_S = 600


@dataclass
class Seen:
    """What one thread came to; times are CPU seconds of the event loop's thread."""

    file_bytes: int = 0
    raw_bytes: int = 0
    text_bytes: int = 0
    storing_s: list[float] = field(default_factory=list)  # of each checkpoint, with the writes before it
    view_s: float = 0


def words(seed: int, size: int) -> str:
    """`size` letters of random words, in lines of ten."""
    chance = random.Random(seed)
    lines = [" ".join(chance.choices(KNOWN, k=10)) for _ in range(size // 30)]
    return "\n".join(lines)[:size]


def letters(seed: int, size: int) -> str:
    """`size` random letters and digits, in lines of 80."""
    text = random.Random(seed).choices(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", k=size
    )
    return "\n".join("".join(text[n : n + 80]) for n in range(0, size, 80))


def prepare(folder: Path, steps: int, result: Any) -> Settings:
    """A workspace with a file a step, and a model that reads each."""
    workspace = folder / "work"
    workspace.mkdir()
    turns: list[dict[str, Any]] = []
    for n in range(steps):
        (workspace / f"part{n}.txt").write_text(result(n))
        call = {"tool": "read_file", "args": {"path": f"part{n}.txt"}}
        turns.append({"say": f"Step {n}: on with part {n}.", "calls": [call]})
        if (n + 1) % STEPS_A_RUN == 0 and n + 1 < steps:
            turns.append({"say": f"{n + 1} parts are read."})
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps({"name": "storage", "turns": [*turns, {"say": "Done."}]}))
    return load_settings(
        home=folder / "home", workspace=workspace, model=f"scripted:{scenario}", rate_limit_per_minute=0,
        context_window=100_000_000,
    )  # fmt: skip


def watch(saver: LeanSaver, seen: Seen) -> None:
    """Note what each checkpoint costs in the event loop's thread."""
    put, put_writes = saver.aput, saver.aput_writes
    spent = [0.0]

    async def aput(*args: Any) -> Any:
        config = await Timed(put(*args), spent)
        seen.storing_s.append(spent[0])
        spent[0] = 0.0
        return config

    async def aput_writes(*args: Any) -> None:
        await Timed(put_writes(*args), spent)

    saver.aput, saver.aput_writes = aput, aput_writes  # type: ignore[method-assign, assignment]


class Timed:
    """Awaits a coroutine and adds up the CPU time of its own legs, not that of others while it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], spent: list[float]) -> None:
        self._steps, self._spent = coroutine, spent

    def __await__(self) -> Generator[Any, Any, Any]:
        """Each leg runs from one suspension to the next."""
        given: Any = None
        while True:
            began = time.thread_time()
            try:
                waits_for = self._steps.send(given)
            except StopIteration as end:
                return end.value
            finally:
                self._spent[0] += time.thread_time() - began
            given = yield waits_for


async def run(service: AgentService, thread_id: str, prompt: str, *, steps: int) -> None:
    context = RunContext(max_steps=steps + 10, mode="auto", door="cli")
    handle = service.start(RunRequest(thread_id=thread_id, prompt=prompt, context=context))
    async for _ in handle.events():
        pass
    await handle.ended()


async def measure(steps: int, result: Any) -> Seen:
    """One thread of so many steps."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        settings = prepare(Path(folder), steps, result)
        async with open_service(settings) as service:
            saver = service._graph.checkpointer  # noqa: SLF001  no door shows it
            assert isinstance(saver, LeanSaver)
            watch(saver, seen)
            thread_id = new_thread_id()
            runs = max(1, -(-steps // STEPS_A_RUN))
            for _ in range(runs):
                await run(service, thread_id, "Read the next parts.", steps=STEPS_A_RUN)
        async with open_service(settings) as service:  # as another process would find it
            began = time.process_time()
            state = (await service.view(thread_id)).state
            seen.view_s = time.process_time() - began
        messages = state["messages"]
        assert len(messages) == 2 * (steps + runs), (
            f"{len(messages)} messages of {steps} steps: {state.get('reason')}"
        )
        seen.raw_bytes = sum(len(saver.serde.dumps_typed(message)[1]) for message in messages)
        seen.text_bytes = sum(len(message.text.encode()) for message in messages)
        database = Path(folder) / "home" / "threads.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        seen.file_bytes = database.stat().st_size
    return seen


def report_size(name: str, seen: Seen, *, must: float, aim: float) -> None:
    ratio = seen.file_bytes / seen.raw_bytes
    bare = seen.file_bytes / seen.text_bytes
    told = f"x{ratio:.2f} of the messages (x{bare:.2f} of their bare text), {seen.file_bytes / 1e6:.1f} MB"
    report(f"threads.db after {name}", seen=told, goal=f"must x{must}, aim x{aim}", holds=ratio <= must)


def report_growth(steps: int, seen: Seen) -> None:
    tenth = len(seen.storing_s) // 10
    first, last = sum(seen.storing_s[:tenth]), sum(seen.storing_s[-tenth:])
    report(
        f"growth of a step's storage time, last to first tenth, {steps} steps",
        seen=f"x{last / first:.2f} ({sum(seen.storing_s) / steps * 1e3:.2f} ms CPU a step)",
        goal=f"at most x{GROWTH_GOAL}",
        holds=last <= GROWTH_GOAL * first,
    )


def report_processes(count: int) -> None:
    """So many processes at once, each with a thread of its own in one home."""
    with tempfile.TemporaryDirectory() as folder:
        settings = prepare(Path(folder), 5, lambda n: words(n, 1000))
        command = [*LOCKSTITCH, "run", "Read all.", "--mode", "auto", "--model", str(settings.model)]
        environment = os.environ | {
            "LOCKSTITCH_HOME": f"{folder}/home",
            "LOCKSTITCH_RATE_LIMIT_PER_MINUTE": "0",
        }
        runs = [
            subprocess.Popen(
                command, cwd=f"{folder}/work", env=environment, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ) for _ in range(count)
        ]  # fmt: skip
        said = [process.communicate(timeout=PATIENCE_S)[0] for process in runs]
        failed = [text for process, text in zip(runs, said, strict=True) if process.returncode]
        with closing(sqlite3.connect(f"{folder}/home/threads.db")) as connection:
            ((threads,),) = connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints")
    for text in failed[:1]:
        print(text[-500:], file=sys.stderr)
    report(
        f"{count} processes on one home: runs that failed, of a lock or otherwise",
        seen=f"{len(failed)}, {threads} threads kept",
        goal=f"0, {count} threads",
        holds=not failed and threads == count,
    )


async def report_writers(writers: int, turns: int) -> None:
    """So many writers at once on one thread, each with its share of the turns."""
    kept: list[str] = []
    refused: list[str] = []
    lost: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = prepare(Path(folder), 0, str)
        async with open_service(settings) as service:
            thread_id = new_thread_id()

            async def write(writer: int) -> None:
                for turn in range(turns // writers):
                    words_said = f"writer {writer}, turn {turn}"
                    try:
                        await run(service, thread_id, words_said, steps=3)
                        kept.append(words_said)
                    except ThreadBusyError:
                        refused.append(words_said)

            async with asyncio.TaskGroup() as group:
                for writer in range(writers):
                    group.create_task(write(writer))
            texts = [message.text for message in (await service.view(thread_id)).state["messages"]]
        lost = [said for said in kept if texts.count(said) != 1] + [said for said in refused if said in texts]
    report(
        f"{turns} turns of {writers} writers on one thread: lost, doubled or kept in spite of a refusal",
        seen=f"{len(lost)} ({len(kept)} kept, {len(refused)} refused)",
        goal="0, each kept or refused",
        holds=not lost and len(kept) + len(refused) == turns,
    )


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the stated counts")
    parser.add_argument("--figures", action="store_true")
    full = parser.parse_args().full
    few, many, long, processes = (400, 2000, 1000, 32) if full else (60, 100, 100, 4)
    seen = asyncio.run(measure(few, lambda n: words(n, 5000)))
    report_size(f"{few} steps with results of 5 KB", seen, must=3, aim=2)
    seen = asyncio.run(measure(few, lambda n: letters(n, 5000)))
    report_size(f"{few} steps with 5 KB of random letters", seen, must=3, aim=2)
    seen = asyncio.run(measure(many, lambda n: words(n, 1000)))
    report_size(f"{many} steps with results of 1 KB", seen, must=6, aim=3)
    print(f"the state of {many} steps is read in {seen.view_s:.2f} s CPU", file=sys.stderr)
    seen = asyncio.run(measure(long, lambda n: words(n, 1000)))
    report_growth(long, seen)
    print(f"the state of {long} steps is read in {seen.view_s:.2f} s CPU", file=sys.stderr)
    report_processes(processes)
    asyncio.run(report_writers(20, 80))


if __name__ == "__main__":
    main()
