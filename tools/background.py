"""The tools `start_process`, `read_process` and `stop_process`: what goes on between calls."""

import asyncio
import math
from typing import TYPE_CHECKING, Annotated, Any, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.command_answer import below, describe_exit
from lockstitch.tools.commands.enclosure import Job, open_enclosure, open_way_out
from lockstitch.tools.commands.hearing import Stop, in_worker
from lockstitch.tools.commands.long_process import LongProcess
from lockstitch.tools.commands.process import OutputWatcher, ProcessResult
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.shell import bash, check_command, run_job
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

if TYPE_CHECKING:
    from lockstitch.tools.commands.domain_proxy import Proxy

FIRST_S: Final = 1.0  # what fails at its start has failed by then; a server has said its address
WAIT_S_MAX: Final = 60.0  # of one reading; half of what any tool may take
FAULT_BYTES: Final = 4096  # kept for the sandbox's own words, when it cannot be set up
STAYS: Final = (
    "It ends with this run, unless the person keeps it. read_process gives what it says next, "
    "stop_process ends it."
)
UNREACHED: Final = (
    "Other commands cannot reach its ports: this machine lets no sandbox enter another one's network. "
    "To talk to a server, start it and its client in one run_command."
)


@tool(extras={"effect": "command"})
async def start_process(
    command: Annotated[str, Field(description="read by bash")],
    call: CallContext,
    *,
    working_directory: Annotated[str, Field(description="a folder of the workspace")] = ".",
) -> ToolResult:
    """Start a program that goes on while you work: a development server, a watcher, a database.

    The answer has its id (p1, p2, ...) and what it said in its first second, or that it has ended. Read on
    with read_process, end it with stop_process; at most 5 run at once. It runs in the sandbox of run_command,
    with the same network; later commands reach its ports on 127.0.0.1. It ends with the run. Not for what
    ends by itself: run_command waits for that. Do not send it to the background with &.
    Example: start_process(command="python -m http.server 8000"), then
    run_command(command="curl -s localhost:8000").
    """
    check_command(command)
    processes = _processes(call)
    processes.check_room()
    job = Job(bash, command, folder=working_directory, timeout_s=math.inf, keep_bytes=FAULT_BYTES)
    process = processes.start(
        lambda on_output: _live(job, call, processes, on_output), command=command, folder=working_directory
    )
    await process.over_within(FIRST_S)
    if process.fault is not None:
        processes.forget(process)
        raise process.fault
    notes = [STAYS, *([UNREACHED] if processes.is_apart(call.network) else [])] if process.running else []
    return await asyncio.to_thread(_answer, process, call, *notes)


@tool(extras={"effect": "read"})
async def read_process(
    process_id: Annotated[str, Field(description="as start_process gave it")],
    call: CallContext,
    *,
    wait_s: Annotated[float, Field(description="seconds to wait for something new", ge=0, le=WAIT_S_MAX)] = 0,
) -> ToolResult:
    """Read what a process of start_process has said since you last read it, and whether it still runs.

    With wait_s it waits for new output, or for the end, at most so long. Of long output beginning and end
    are shown. Example: read_process(process_id="p1", wait_s=10).
    """
    process = _processes(call).find(process_id)
    await process.heard_within(wait_s)
    return await asyncio.to_thread(_answer, process, call)


@tool(extras={"effect": "state"})
async def stop_process(
    process_id: Annotated[str, Field(description="as start_process gave it")], call: CallContext
) -> ToolResult:
    """End a process of start_process with all it started, and read its last words.

    It gets SIGTERM and a moment to clean up. Example: stop_process(process_id="p1").
    """
    process = _processes(call).find(process_id)
    await process.end()
    return await asyncio.to_thread(_answer, process, call)


def _processes(call: ToolContext) -> ThreadProcesses:
    if call.processes is None:
        raise ToolExecutionError("a process needs a run that it ends with, and this call has none.")
    return call.processes


async def _live(
    job: Job, call: ToolContext, processes: ThreadProcesses, on_output: OutputWatcher
) -> ProcessResult:
    """Run it to its end, in a workspace of its own: the call's is closed with its step."""
    processes.share_network(call.network, call.find_sandbox())
    with Workspace(call.workspace.root, hidden=call.workspace.hidden) as workspace:
        own = ToolContext(
            workspace=workspace,
            settings=call.settings,
            spill=call.spill,
            find_sandbox=call.find_sandbox,
            approved=call.approved,
            discard=call.discard,
            network=call.network,
            processes=processes,
        )
        async with open_way_out(own) as proxy:
            return await in_worker(lambda stop: _run(job, own, proxy=proxy, on_output=on_output, stop=stop))


def _run(
    job: Job, call: ToolContext, *, proxy: "Proxy | None", on_output: OutputWatcher, stop: Stop
) -> ProcessResult:
    with open_enclosure(job, call, proxy=proxy) as enclosure:
        return run_job(job, enclosure, on_output=on_output, stop=stop)


def _answer(process: LongProcess, call: ToolContext, *notes: str) -> ToolResult:
    """Its state, then what is new; the state is looked at first, so that no last word is missed."""
    running = process.running
    result = None if running else process.result
    lines = [f"Process {process.process_id}: {_state(process, running=running)}", *(f"[{n}]" for n in notes)]
    data: dict[str, Any] = {
        "process_id": process.process_id,
        "running": running,
        "exit_code": result.exit_code if result else None,
    }
    fresh = process.take()
    if not fresh.total_bytes:
        lines.append("[it has said nothing new]")
    return ToolResult(output=below("\n".join(lines), fresh, call), data=data)


def _state(process: LongProcess, *, running: bool) -> str:
    if running:
        return "running"
    if process.fault is not None:
        return f"ended: {process.fault.message}"
    if process.result is None:
        return "ended: it was stopped"
    return f"ended\nExit code: {describe_exit(process.result)}"
