"""A thread of 300 steps in a small window, over HTTP on loopback: what compactions keep, and what is found.

After each compaction the task, the project's rules and the TODO list must stand in the request to the byte,
each request must begin with the whole one before it until the next, and `recall` must find any line again.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.model_server import ModelServer

from lockstitch.graph.memory.history import history_of
from lockstitch.graph.models.scenario import Scenario
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.service import RunRequest, open_service
from lockstitch.tools.history import HistoryEntry, search_history
from lockstitch.tools.recall import HITS_MAX

STEPS = 300
WINDOW_TOKENS = 24_000  # a tenth of a real one, so that 300 steps fill it many times
LINES_TRIED = 500  # of the thread's lines, drawn by chance; the seed is fixed
TASK = 'Trace every "needle"\n\n\t- keep the API\n\t- caf\u00e9, \u4f60\u597d, \U0001f9f5\n'
RULES = "# House rules\n\nUse tabs.  Never touch `vendor/`.\n"
TASKS = ["Read all parts \u2014 in order", "Write the index", "Sum up"]


@dataclass
class Seen:
    """What the requests of the run show."""

    compactions: int = 0
    broken_prefixes: int = 0
    faults: list[str] = field(default_factory=list)


def script() -> Scenario:
    """The model's side: a TODO list, then one look or note a step, never the same twice."""
    turns: list[dict[str, Any]] = [
        {"say": "I plan.", "calls": [{"tool": "create_tasks", "args": {"tasks": TASKS}}]},
        {
            "say": "I begin.",
            "calls": [{"tool": "update_task_status", "args": {"task_id": "1", "status": "in_progress"}}],
        },
    ]
    for n in range(len(turns), STEPS):
        tool, args = (
            ("read_file", {"path": f"part{n % 20:02}.txt", "offset": 1 + n % 40, "limit": 60}),
            ("grep_files", {"pattern": f"needle_{n % 60} ", "path": "."}),
            ("write_file", {"path": f"notes/{n}.md", "content": f"note {n}\nof the part {n % 20}\n"}),
        )[n % 3]
        turns.append({"say": f"Step {n}: on with {tool}.", "calls": [{"tool": tool, "args": args}]})
    turns.append({"say": "All parts are traced."})
    return Scenario.model_validate(
        {"name": "memory", "summary": "SUMMARY: parts were traced.", "turns": turns}
    )


def lay_out(workspace: Path) -> None:
    """Twenty files, and the project's rules."""
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text(RULES, encoding="utf-8")
    for n in range(20):
        lines = (f"line {i} of part {n}: needle_{i % 60} and some words\n" for i in range(100))
        (workspace / f"part{n:02}.txt").write_text("".join(lines), encoding="utf-8")


async def run(folder: Path) -> tuple[RunState, list[dict[str, Any]]]:
    """The thread's last state, and every request's body."""
    lay_out(folder / "work")
    with ModelServer(script(), keep_bodies=True) as server:
        settings = load_settings(
            home=folder / "home",
            workspace=folder / "work",
            model="memory",
            openai_base_url=server.base_url,
            openai_api_key="none",
            context_window=WINDOW_TOKENS,
            rate_limit_per_minute=0,
        )
        async with open_service(settings) as service:
            thread_id = new_thread_id()
            context = RunContext(max_steps=STEPS + 10, mode="auto", door="cli")
            handle = service.start(RunRequest(thread_id=thread_id, prompt=TASK, context=context))
            async for _ in handle.events():
                pass
            return (await service.view(thread_id)).state, server.bodies


def look(bodies: Sequence[dict[str, Any]]) -> Seen:
    """Go through the turns' requests; those without tools ask for a summary."""
    seen, before = Seen(), list[Any]()
    for body in (body for body in bodies if body.get("tools")):
        messages = body["messages"]
        if before and messages[: len(before)] != before:
            head = str(messages[1]["content"])
            seen.compactions += head.startswith("This note stands for")
            seen.broken_prefixes += not head.startswith("This note stands for")
            pinned = {
                "task": TASK,
                "rules": RULES.rstrip("\n"),
                **{f"TODO {n}": t for n, t in enumerate(TASKS, 1)},
            }
            seen.faults += [f"{name} is not there" for name, text in pinned.items() if text not in head]
        before = messages
    return seen


def lines_found(history: Sequence[HistoryEntry]) -> tuple[int, int]:
    """Of lines drawn from all that was said, called and answered: how many were found, how many tried."""
    lines = sorted({line.strip() for entry in history for line in entry.text.splitlines() if line.strip()})
    tried = random.Random(1).sample(lines, min(LINES_TRIED, len(lines)))
    return sum(is_found(line, history) for line in tried), len(tried)


def is_found(line: str, history: Sequence[HistoryEntry]) -> bool:
    """Whether the first page of a search shows the line."""
    return any(hit.text.strip() == line for hit in search_history(history, line, limit=HITS_MAX).hits)


def main() -> None:
    """Run once and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", action="store_true")
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state, bodies = asyncio.run(run(Path(folder)))
    seen = look(bodies)
    found, tried = lines_found(history_of(state["messages"]))
    report(
        f"{STEPS} steps in a window of {WINDOW_TOKENS:,} tokens: task, rules and TODO after each compaction",
        seen="; ".join(sorted(set(seen.faults)))
        or f"to the byte after {seen.compactions} of {seen.compactions}",
        goal="equal to the byte",
        holds=not seen.faults and seen.compactions > 0 and state["reason"] == "answered",
    )
    report(
        "requests between compactions that begin with the whole one before",
        seen=f"all but {seen.broken_prefixes}",
        goal="all",
        holds=seen.broken_prefixes == 0,
    )
    report("earlier lines that recall finds", seen=f"{found} of {tried}", goal="all", holds=found == tried)


if __name__ == "__main__":
    main()
