"""Routes below /api/code-chat/sessions: what is kept of each session, emptied, deleted, cleaned up."""

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import AfterValidator, Field

from lockstitch.state.threads import check_thread_id
from lockstitch.studio.http.desk import TheDesk
from lockstitch.studio.http.problems import ProblemRoute
from lockstitch.studio.http.schemas import Done, Got, Sent, finite
from lockstitch.studio.http.threads import Limit, ThreadDetail, ThreadItem, list_threads, look_at, read_steps

IDLE_HOURS: Final = 24.0  # the owner's figure
HOURS_MAX: Final = 24 * 365 * 100  # a century; a time before the first year is no time

router = APIRouter(prefix="/code-chat/sessions", route_class=ProblemRoute, tags=["code chat"])


class SessionList(Got):
    """Sessions, the last active first; a session is a thread."""

    sessions: list[ThreadItem]


class Session(ThreadDetail):
    """One session with its steps."""

    steps_taken: list[dict[str, Any]] = Field(description="as /api/threads/{thread_id}/steps has them")


class Cleanup(Sent):
    """Which sessions to delete."""

    idle_hours: Annotated[float, Field(ge=0, le=HOURS_MAX), AfterValidator(finite)] = Field(
        default=IDLE_HOURS, description="those that nobody used for so long"
    )


class CleanedUp(Got):
    """What was deleted."""

    deleted: list[str] = Field(description="ids")
    busy: list[str] = Field(description="ids of those that were used meanwhile, and stay")
    freed_bytes: int


@router.get("", summary="List sessions")
async def list_sessions(desk: TheDesk, limit: Limit = 50) -> SessionList:
    """All sessions; those of the other doors, too."""
    return SessionList(sessions=(await list_threads(desk, limit)).threads)


@router.get("/{session_id}", summary="One session")
async def read_session(session_id: str, desk: TheDesk) -> Session:
    """The session as it stands, with its steps."""
    row = await desk.row(session_id)
    detail = await look_at(row, desk)
    steps = (await read_steps(row.thread_id, desk)).steps
    return Session(**detail.model_dump(), steps_taken=steps)


@router.delete("/{session_id}", summary="Delete a session")
async def delete_session(session_id: str, desk: TheDesk) -> Done:
    """Delete all of it. The files it changed stay as they are."""
    await desk.forget(check_thread_id(session_id))
    return Done(message="The session is deleted.")


@router.post("/{session_id}/clear", summary="Empty a session's memory")
async def clear_session(session_id: str, desk: TheDesk) -> Done:
    """Forget what was said and done; the session and its workspace stay."""
    async with desk.housekeeping() as housekeeping:
        await housekeeping.clear(session_id, now=desk.parts.now())
    return Done(message="The session begins anew.")


@router.post("/cleanup", summary="Delete idle sessions")
async def clean_up(body: Cleanup, desk: TheDesk) -> CleanedUp:
    """Delete the sessions that nobody used for so long; nothing is deleted unasked."""
    async with desk.housekeeping() as housekeeping:
        idle = await housekeeping.idle_threads(idle_hours=body.idle_hours, now=desk.parts.now())
        pruned = await housekeeping.prune(idle)
    return CleanedUp(deleted=pruned.deleted, busy=pruned.busy, freed_bytes=pruned.freed)
