"""POST /api/code-chat/query, its cancel and its confirm: a run as a stream of server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Final

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import Mode
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.http.choices import check_tools, run_context
from lockstitch.studio.http.desk import Desk, TheDesk, key_of
from lockstitch.studio.http.event_stream import STREAM, ChatForm, LastEventId, seq_of, sse, stream
from lockstitch.studio.http.problems import ProblemRoute, RefusedError
from lockstitch.studio.http.schemas import (
    Answer,
    Done,
    FolderPath,
    Name,
    RunChoices,
    Sent,
    ThreadId,
    UserApiKeys,
    said,
)
from lockstitch.studio.service import RunRequest

QUERY_CHARS: Final = 10_000  # the owner's figure
ITERATIONS_MAX: Final = 50  # the owner's figures
ITERATIONS: Final = 10
OVERRIDES_MAX: Final = 100
WEB_SEARCH: Final = "web_search"

router = APIRouter(prefix="/code-chat", route_class=ProblemRoute, tags=["code chat"])


class ToolOverride(Sent):
    """What is different for one tool in this run."""

    enabled: bool = Field(default=True, description="false takes the tool away")


class ChatQuery(Sent):
    """A task, and how to go about it."""

    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARS), AfterValidator(said)] = Field(
        description="what to do", examples=["Where are leap days handled?"]
    )
    session_id: ThreadId | None = Field(
        default=None, description="the thread_id to go on with; a new one is in every event's data"
    )
    workspace_path: FolderPath | None = Field(
        default=None, description="folder to work in, below an allowed root; default the server's"
    )
    context_name: Name | None = Field(default=None, description="the index to search, the only one")
    use_cgrag: bool | None = Field(
        default=None, description="begin with what the index finds; default the server's setting"
    )
    use_web_search: bool = Field(default=False, description="let the agent search the web")
    max_iterations: int = Field(default=ITERATIONS, ge=1, le=ITERATIONS_MAX, description="steps")
    preset: Name | None = Field(default=None, examples=["balanced"])
    strategy: Name | None = Field(default=None, examples=["react"])
    mode: Mode | None = None
    tool_overrides: Annotated[dict[Name, ToolOverride], Field(max_length=OVERRIDES_MAX)] = Field(
        default={}, description="by the tool's name", examples=[{"run_command": {"enabled": False}}]
    )
    user_api_keys: UserApiKeys | None = None


class Confirmation(Answer):
    """A person's word on a pending action."""

    session_id: ThreadId | None = Field(default=None, description="where two sessions wait for the same id")


@router.post(
    "/query",
    summary="Run a task as a stream of events",
    response_class=Response,
    responses={200: {"content": {STREAM: {}}, "description": "server-sent events"}},
)
async def query(body: ChatQuery, desk: TheDesk, last_event_id: LastEventId = None) -> Response:
    """Begin a run and stream its events until it has ended, through every wait for a person.

    Each message's id is the event's `seq`. The same request with `Last-Event-ID` and the session's id begins
    nothing: it goes on with the stream. The run goes on when the client hangs up; `cancel` stops it.
    """
    thread_id = body.session_id or new_thread_id()
    if body.session_id and last_event_id:
        await desk.known(thread_id)
        return stream(_pieces(thread_id, desk, after=seq_of(last_event_id)))
    request = RunRequest(
        thread_id=thread_id,
        prompt=body.query,
        context=await _context(body, desk),
        api_key=key_of(body.user_api_keys),
    )
    after = await desk.start(request)
    return stream(_pieces(thread_id, desk, after=after))


@router.post("/cancel/{session_id}", summary="Stop a session's run")
async def cancel(session_id: str, desk: TheDesk) -> Done:
    """Stop the run; the session is kept and its next query goes on with it."""
    stopped = await desk.stop(await desk.known(session_id))
    return Done(message="The run is being stopped." if stopped else "The session is not running here.")


@router.post(
    "/confirm/{action_id}",
    summary="Answer a pending action",
)
async def confirm(action_id: str, body: Confirmation, desk: TheDesk) -> Done:
    """Give a person's word; the session's stream goes on with the run."""
    thread_id = body.session_id or await _waiting_for(action_id, desk)
    await desk.answer(thread_id, body, action_id=action_id)
    return Done(message="The run goes on.")


async def _context(body: ChatQuery, desk: Desk) -> RunContext:
    off = {name for name, override in body.tool_overrides.items() if not override.enabled}
    check_tools([*body.tool_overrides], desk, field="tool_overrides")
    off |= set() if body.use_web_search else {WEB_SEARCH}
    tools = [tool.name for tool in desk.parts.guard.registry.list() if tool.name not in off]
    choices = RunChoices(
        strategy=body.strategy,
        mode=body.mode,
        workspace=body.workspace_path,
        preset=body.preset,
        tools=tools,
        use_cgrag=body.use_cgrag,
        user_api_keys=body.user_api_keys,
    )
    context = await run_context(
        choices, desk, max_steps=body.max_iterations, names={"workspace": "workspace_path"}
    )
    indexes = [body.context_name] if body.context_name else None
    return replace(context, indexes=indexes)


async def _pieces(thread_id: str, desk: Desk, *, after: int) -> AsyncGenerator[str, None]:
    form = ChatForm()
    async with aclosing(desk.follow_on(thread_id, after=after)) as events:
        async for event in events:
            body = form.body(event)
            if body is not None:
                yield sse(body, seq=event.seq)


async def _waiting_for(action_id: str, desk: Desk) -> str:
    """The thread that waits for this action.

    Raises:
        RefusedError: none does, or more than one.
    """
    waiting = [row.thread_id for row in await desk.rows(-1) if row.phase == "waiting"]
    found = []
    for thread_id in waiting:
        asked = (await desk.view(thread_id)).waiting_for
        if asked is not None and asked["action_id"] == action_id:
            found.append(thread_id)
    if len(found) > 1:
        raise RefusedError(409, "ambiguous", "Several sessions wait for this id.", field="session_id")
    if not found:
        raise RefusedError(404, "not_found", "No session waits for this action.")
    return found[0]
