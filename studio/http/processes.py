"""Routes below /api/threads/{thread_id}/processes: what goes on between calls, and a person's word on it."""

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.studio.http.desk import Desk, TheDesk
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.schemas import NAME_CHARS, Got, Sent
from lockstitch.tools.commands.long_process import LongProcess

router = APIRouter(prefix="/threads", route_class=ProblemRoute, tags=["threads"])


class ProcessItem(Got):
    """One process."""

    process_id: str
    command: str
    working_directory: str
    started_at: str = Field(description="ISO 8601 in UTC")
    running: bool
    exit_code: int | None = Field(description="null while it runs, and where it was ended")
    kept: bool = Field(description="it goes on after its run, until this server ends")


class ProcessList(Got):
    """The processes of a thread, the first started one first."""

    thread_id: str
    processes: list[ProcessItem]


class ProcessAction(Sent):
    """What a person wants of a process."""

    action: Literal["keep", "stop"] = Field(description="keep: it goes on after its run. stop: it is ended")


@router.get("/{thread_id}/processes", summary="Its long-lived processes")
async def list_processes(thread_id: str, desk: TheDesk) -> ProcessList:
    """Those that this server runs. They end with the run that started them, unless they are kept."""
    thread_id = await desk.known(thread_id)
    items = [_item(process) for process in desk.parts.processes.of(thread_id)]
    return ProcessList(thread_id=thread_id, processes=items)


@router.post("/{thread_id}/processes/{process_id}", summary="Keep or stop a long-lived process")
async def act_on_process(
    thread_id: str,
    process_id: Annotated[str, InPath(max_length=NAME_CHARS)],
    body: ProcessAction,
    desk: TheDesk,
) -> ProcessItem:
    """Let it go on after its run, or end it with all it started. 409: it has ended, and cannot be kept."""
    process = _find(await desk.known(thread_id), process_id, desk)
    if body.action == "stop":
        await _stop(process)
    elif not process.running:
        raise RefusedError(409, "ended", "The process has ended: there is nothing to keep.")
    process.kept = body.action == "keep"
    return _item(process)


async def _stop(process: LongProcess) -> None:
    try:
        await process.end()
    except ToolExecutionError as error:
        raise RefusedError(409, "busy", "The process does not end yet: it waits for a disk.") from error


def _find(thread_id: str, process_id: str, desk: Desk) -> LongProcess:
    try:
        return desk.parts.processes.of(thread_id).find(process_id)
    except ToolValidationError:
        words = "There is no such process: it may have ended with its run."
        raise RefusedError(404, "not_found", words) from None


def _item(process: LongProcess) -> ProcessItem:
    running = process.running
    return ProcessItem(
        process_id=process.process_id,
        command=process.command,
        working_directory=process.folder,
        started_at=process.started_at,
        running=running,
        exit_code=process.result.exit_code if process.result and not running else None,
        kept=process.kept,
    )
