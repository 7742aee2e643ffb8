"""Fifty scripted runs at once, followed over HTTP by another process: what is lost, how late events come.

The server is `lockstitch serve` on a home of its own; its model takes 200 ms for a reply. A client hangs up
and comes back with the last id it saw, in the second round a thousand times over all runs.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from loopback import serve
from report import report

STEPS = 20
MODEL_DELAY_S = 0.2  # of each reply
RECONNECTS = 1000  # over all runs of the second round
P95_MS = 250.0  # the goal, on two cores
RUN_S = 120  # for all runs of a round; they take a tenth of it


@dataclass
class Followed:
    """What one client saw of one run."""

    thread_id: str
    seqs: list[int] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    steps: int = 0
    reason: str = ""
    reconnects: int = 0

    def fault(self) -> str:
        """What is wrong with it, or nothing."""
        if self.seqs != list(range(1, len(self.seqs) + 1)):
            return f"{self.thread_id}: lost or doubled: {self.seqs}"
        if (self.steps, self.reason) != (STEPS, "answered"):
            return f"{self.thread_id}: {self.steps} steps, {self.reason or 'no end'}"
        return ""


@contextmanager
def served(folder: Path, runs: int) -> Iterator[httpx.AsyncClient]:
    """A client of a server with a workspace for each run; ended by its process id."""
    for number in range(runs):
        (folder / "work" / str(number)).mkdir(parents=True)
    settings = {"LOCKSTITCH_MODEL": f"scripted:{write_scenario(folder)}"}
    with serve(folder / "home", folder / "work", settings) as (base_url, token):
        yield httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            limits=httpx.Limits(max_connections=None),
            timeout=RUN_S,
        )


def write_scenario(folder: Path) -> Path:
    """A run that writes a file a step, then answers."""
    turns: list[dict[str, Any]] = [
        {
            "say": f"Note {n}.",
            "calls": [{"tool": "write_file", "args": {"path": f"note{n}.md", "content": f"{n}\n" * 20}}],
            "delay_s": MODEL_DELAY_S,
        }
        for n in range(1, STEPS)
    ]
    turns.append({"say": "Done.", "delay_s": MODEL_DELAY_S})
    path = folder / "scenario.json"  # JSON is YAML
    path.write_text(json.dumps({"name": "streams", "turns": turns}))
    return path


async def begin(client: httpx.AsyncClient, folder: Path, number: int) -> str:
    """Begin a run, and hang up once its first step has begun."""
    thread_id = str(uuid4())
    body = {
        "query": "Take notes.",
        "session_id": thread_id,
        "workspace_path": str(folder / "work" / str(number)),
        "max_iterations": STEPS + 5,
        "mode": "auto",
    }
    async with client.stream("POST", "/api/code-chat/query", json=body) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if '"agent_turn_start"' in line:
                break
    return thread_id


async def follow(
    client: httpx.AsyncClient, thread_id: str, *, breaks: int, moments: random.Random
) -> Followed:
    """Follow the run to its end, hanging up `breaks` times after a few events."""
    seen = Followed(thread_id)
    while not seen.reason:
        patience = moments.randint(1, 12) if seen.reconnects < breaks else None
        async for event in stream(client, thread_id, seen.seqs[-1] if seen.seqs else 0):
            seen.seqs.append(event["seq"])
            born = datetime.fromisoformat(event["timestamp"]).timestamp()
            seen.delays_ms.append((time.time() - born) * 1000)
            if event["type"] == "agent_completion":
                seen.steps, seen.reason = event["steps"], event["reason"]
            patience = patience - 1 if patience else patience
            if patience == 0:
                break
        else:
            if not seen.reason:
                seen.reason = "the stream ended early"
        seen.reconnects += not seen.reason
    return seen


async def stream(client: httpx.AsyncClient, thread_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
    """The thread's events as its SSE route sends them; waits where the server says it is asked too often."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    while True:
        async with client.stream("GET", f"/api/threads/{thread_id}/events", headers=headers) as reply:
            if reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
                await asyncio.sleep(float(reply.headers.get("Retry-After", 1)))
                continue
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
            return


async def round_of(runs: int, *, reconnects: int, seed: int) -> tuple[list[Followed], float]:
    """So many runs at once, each with its client; and the seconds it took."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), runs) as opened:
        async with opened as client, asyncio.timeout(RUN_S):
            began = time.monotonic()

            async def one(number: int) -> Followed:
                thread_id = await begin(client, Path(folder), number)
                return await follow(client, thread_id, breaks=reconnects // runs, moments=moments)

            followed = await asyncio.gather(*(one(number) for number in range(runs)))
            return followed, time.monotonic() - began


def tell(name: str, followed: list[Followed], *, words: str, goal: str, holds: bool = True) -> None:
    """Report a round."""
    faults = [fault for one in followed if (fault := one.fault())]
    events = sum(len(one.seqs) for one in followed)
    seen = f"{len(followed) - len(faults)} of {len(followed)} runs whole, {events:,} events, {words}"
    report(name, seen="; ".join([seen, *faults[:3]]), goal=goal, holds=holds and not faults)


def main() -> None:
    """Both rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()

    followed, took_s = asyncio.run(round_of(options.runs, reconnects=0, seed=options.seed))
    delays = sorted(delay for one in followed for delay in one.delays_ms)
    p95 = delays[int(len(delays) * 0.95)]
    print(
        f"p50 {delays[len(delays) // 2]:.0f} ms, greatest {delays[-1]:.0f} ms, {took_s:.1f} s",
        file=sys.stderr,
    )
    tell(
        f"{options.runs} runs of {STEPS} steps at once, over HTTP",
        followed,
        words=f"p95 of an event's delay {p95:.0f} ms on {os.cpu_count()} cores",
        goal=f"none lost, p95 under {P95_MS:.0f} ms on 2 cores",
        holds=p95 < P95_MS,
    )

    wanted = RECONNECTS * options.runs // 50
    followed, _ = asyncio.run(round_of(options.runs, reconnects=wanted, seed=options.seed))
    reconnects = sum(one.reconnects for one in followed)
    tell(
        f"{options.runs} runs whose clients hang up and come back",
        followed,
        words=f"{reconnects:,} reconnects",
        goal=f"{wanted:,} reconnects lose and double no event",
        holds=reconnects >= wanted,
    )


if __name__ == "__main__":
    main()
