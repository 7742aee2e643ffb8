"""Five strategies on the same scripted tasks, each over HTTP to a model server on loopback.

A task is a file in bench/tasks: a workspace, the calls of a model that does the work, and a check. Per
task and strategy home and workspace are new, and the service is the one behind every door. The run must
make exactly these calls with exactly these results, use every reply, end well, and leave exactly the
files of the check, which must fail on the untouched workspace.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from report import report
from task_replies import RENDERED_FOR, Call, Numbered, Task, load_task, replies_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.model_server import ModelServer

from lockstitch.graph.models.scenario import Scenario
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.service import RunRequest, open_service

TASKS = Path(__file__).with_name("tasks")
STEPS_MAX = 60  # reason-act-observe makes one call a step; the longest task has half as many
RUN_S = 60  # a run that hangs is a fault, and the others go on
CHECK_S = 60
FAULT_CHARS = 300  # of one fault in the figure
ENDS_WELL = ("answered", "todos_completed", "finished")
LIST_TOOLS = ("create_tasks", "update_task_status")  # plan-and-execute's own, where the script has no list


def lay_out(task: Task, workspace: Path) -> None:
    """Write the task's files into the workspace, which is made where it is missing."""
    workspace.mkdir(exist_ok=True)
    for path, content in task.files.items():
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes_of(content))


def bytes_of(content: str | Numbered) -> bytes:
    return (content if isinstance(content, str) else content.text()).encode()


def wrong_files(task: Task, workspace: Path) -> list[str]:
    """How the files differ from what the check wants, all others being as they were."""
    wanted = {path: bytes_of(content) for path, content in task.files.items()}
    for path, content in task.check.files.items():
        wanted.pop(path, None)
        if content is not None:
            wanted[path] = bytes_of(content)
    found = {
        str(file.relative_to(workspace)): file.read_bytes() for file in workspace.rglob("*") if file.is_file()
    }
    differ = [path for path in sorted(wanted.keys() | found.keys()) if wanted.get(path) != found.get(path)]
    return [f"{path} is {found.get(path)!r:.300}" for path in differ]


def command_fault(task: Task, workspace: Path) -> list[str]:
    """What the check's command says against the workspace."""
    if not task.check.python:
        return []
    command = [sys.executable, "-B", *task.check.python]
    done = subprocess.run(
        command, cwd=workspace, capture_output=True, text=True, timeout=CHECK_S, check=False
    )
    return [f"the check's command ended with {done.returncode}: {done.stderr[-300:]}"] * bool(done.returncode)


def untouched_faults(task: Task) -> list[str]:
    """What is wrong with the task itself: its check must see that the work is not done yet."""
    with tempfile.TemporaryDirectory() as folder:
        lay_out(task, Path(folder))
        faults = ["the files of the check are there before the run"] * (not wrong_files(task, Path(folder)))
        if task.check.python and not command_fault(task, Path(folder)):
            faults.append("the check's command passes before the run")
    return faults


async def run_faults(task: Task, strategy: str) -> list[str]:
    """Run the task by that strategy; what went wrong."""
    replies = replies_for(task, strategy)
    with (
        tempfile.TemporaryDirectory() as folder,
        ModelServer(Scenario(name=task.name), replies=replies) as server,
    ):
        workspace = Path(folder, "work")
        lay_out(task, workspace)
        state = await run(task, strategy, workspace, server.base_url)
        unused = len(replies) - server.requests
        return [
            *end_faults(task, state),
            *call_faults(task, strategy, state),
            *([f"{server.requests} requests for {len(replies)} replies"] * bool(unused)),
            *wrong_files(task, workspace),
            *command_fault(task, workspace),
        ]


async def run(task: Task, strategy: str, workspace: Path, base_url: str) -> RunState:
    """One run on a new thread to its end; the thread's state."""
    settings = load_settings(
        home=workspace.with_name("home"),
        workspace=workspace,
        model="scripted-over-http",
        openai_base_url=base_url,
        openai_api_key="none",
        unsandboxed_commands="allow",
    )
    context = RunContext(strategy=strategy, mode="auto", max_steps=STEPS_MAX, door="cli")
    request = RunRequest(thread_id=new_thread_id(), prompt=task.prompt, context=context)
    async with open_service(settings) as service, asyncio.timeout(RUN_S):
        handle = service.start(request)
        async for _ in handle.events():
            pass
        await handle.ended()
        return (await service.view(request.thread_id)).state


def end_faults(task: Task, state: RunState) -> list[str]:
    """What is wrong with the end of the run."""
    reason, answer = state.get("reason"), state.get("final_answer")
    return [f"ended as {reason}: {answer!r:.300}"] * (reason not in ENDS_WELL or answer != task.answer)


def call_faults(task: Task, strategy: str, state: RunState) -> list[str]:
    """How the calls that were made differ from the script's."""
    made = [call for step in state.get("steps", []) for call in step["calls"]]
    if strategy == "plan-and-execute" and not task.keeps_own_list:
        made = [call for call in made if call["tool"] not in LIST_TOOLS]
    if len(made) != len(task.calls):
        return [f"{len(made)} calls were made, the script has {len(task.calls)}"]
    pairs = zip(made, task.calls, strict=True)
    return [
        f"call {n} came to {seen!r:.400}" for n, (seen, call) in enumerate(pairs, 1) if not fits(seen, call)
    ]


def fits(seen: Mapping[str, Any], call: Call) -> bool:
    """Whether the recorded call is the script's, with the result it says."""
    same = (seen["tool"], seen["args"], seen["success"]) == (call.tool, call.args, not call.fails)
    return same and call.gives in seen["output"]


@dataclass(frozen=True)
class Outcome:
    """One task by one strategy."""

    task: str
    strategy: str
    faults: list[str]
    seconds: float

    @property
    def cell(self) -> str:
        """For the table."""
        return "FAULT" if self.faults else f"{self.seconds:.2f} s"


def attempt(task: Task, strategy: str) -> Outcome:
    """Run the task; one run that breaks is one fault."""
    began = time.monotonic()
    try:
        faults = asyncio.run(run_faults(task, strategy))
    except Exception as error:  # noqa: BLE001  whatever it is, the other runs go on
        faults = [f"{type(error).__name__}: {error}"]
    return Outcome(task.name, strategy, faults, time.monotonic() - began)


def run_all(tasks: Sequence[Task]) -> list[Outcome]:
    """Every task by every strategy, with a row of the table for each task."""
    print(f"{'task':<24}{''.join(f'{name:>20}' for name in RENDERED_FOR)}", flush=True)
    outcomes: list[Outcome] = []
    for task in tasks:
        broken = untouched_faults(task)
        row = [attempt(task, strategy) for strategy in RENDERED_FOR]
        row = [replace(outcome, faults=[*broken, *outcome.faults]) for outcome in row]
        print(f"{task.name:<24}{''.join(f'{outcome.cell:>20}' for outcome in row)}", flush=True)
        outcomes += row
    return outcomes


def report_all(outcomes: Sequence[Outcome], number: int) -> bool:
    """The figure: how many of the tasks each strategy has done."""
    done = Counter(outcome.strategy for outcome in outcomes if not outcome.faults)
    whole = number > 0 and all(done[strategy] == number for strategy in STRATEGIES)
    counts = ", ".join(f"{strategy} {done[strategy]}" for strategy in STRATEGIES)
    told = [f"{o.task} by {o.strategy}: {fault[:FAULT_CHARS]}" for o in outcomes for fault in o.faults]
    goal = f"{number} of {number} each"
    return report(
        f"{number} scripted tasks over HTTP by {len(STRATEGIES)} strategies",
        seen=goal if whole else "; ".join([counts, *told]),
        goal=goal,
        holds=whole,
    )


def main() -> int:
    """Run them all; the exit code is 1 when a task was not done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=TASKS, help="where the tasks are")
    parser.add_argument("--only", nargs="*", default=[], metavar="TASK", help="names of files; default all")
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    files = [
        file
        for file in sorted(options.folder.glob("*.yaml"))
        if file.stem in options.only or not options.only
    ]
    outcomes = run_all([load_task(file) for file in files])
    return 0 if report_all(outcomes, len(files)) else 1


if __name__ == "__main__":
    sys.exit(main())
