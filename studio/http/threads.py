"""Routes below /api/threads: the list, one thread, its steps, its events, and the answer it waits for."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.events import AgentPhase, dump_event
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_context import Door
from lockstitch.state.settings import Mode
from lockstitch.state.threads import ThreadRow, check_thread_id
from lockstitch.state.todos import Todo
from lockstitch.studio.http.agent import rested
from lockstitch.studio.http.desk import Desk, TheDesk
from lockstitch.studio.http.event_stream import STREAM, LastEventId, seq_of, sse, stream
from lockstitch.studio.http.problems import ProblemRoute
from lockstitch.studio.http.schemas import SEQ_MAX, Answer, Got, RunReply
from lockstitch.studio.service import CAN_GO_ON, ThreadView

EVENTS_MAX: Final = 1000  # of one reply: about a megabyte
THREADS_MAX: Final = 1000  # of one list
Limit = Annotated[int, Query(ge=1, le=THREADS_MAX, description="at most so many, the last active first")]

router = APIRouter(prefix="/threads", route_class=ProblemRoute, tags=["threads"])


class ThreadItem(Got):
    """What a list shows of one thread; times are ISO 8601 in UTC."""

    thread_id: str
    title: str
    workspace: str
    model: str
    strategy: str
    mode: Mode
    door: Door
    created_at: str
    updated_at: str
    steps: int
    phase: AgentPhase
    reason: TerminationReason | None
    running: bool = Field(description="whether a run goes on now, in this server or in another process")
    run_by: str = Field(description="who runs it, where this server does not; else empty")


class ThreadList(Got):
    """Threads, the last active first."""

    threads: list[ThreadItem]


class ThreadDetail(ThreadItem):
    """One thread as it stands."""

    final_answer: str
    error: str
    todos: list[Todo]
    waiting_for: dict[str, Any] | None = Field(description="the question to a person, with its action_id")
    unfinished: bool = Field(description="a run was cut off, and goes on by itself when it is resumed")
    can_go_on: bool = Field(description="it can be resumed without a new prompt")
    last_seq: int = Field(description="of the last kept event")


class Timeline(Got):
    """The steps of a thread, the first one first."""

    thread_id: str
    steps: list[dict[str, Any]] = Field(
        description="each with number, prompt, thought, calls, observation, todos, state, model, tier, "
        "started_at, plan_ms, execute_ms, input_tokens, output_tokens, cost_usd"
    )


class EventPage(Got):
    """Kept events, in order."""

    thread_id: str
    events: list[dict[str, Any]]
    last_seq: int = Field(description="of the thread; ask again while the last event has a smaller seq")
    running: bool


@router.get("", summary="List threads")
async def list_threads(desk: TheDesk, limit: Limit = 50) -> ThreadList:
    """The threads of every door: command line, page, `langgraph dev`."""
    rows = await desk.rows(limit)
    writers = await desk.writers(rows)
    return ThreadList(threads=[_item(row, desk, writers) for row in rows])


@router.get("/{thread_id}", summary="One thread as it stands")
async def read_thread(thread_id: str, desk: TheDesk) -> ThreadDetail:
    """Its answer, its TODO list, and what it waits for."""
    row = await desk.row(thread_id)
    return await look_at(row, desk)


@router.get("/{thread_id}/steps", summary="Its timeline of steps")
async def read_steps(thread_id: str, desk: TheDesk) -> Timeline:
    """The record that each step left."""
    view = await _view(thread_id, desk)
    steps = [dict(step) for step in view.state.get("steps", [])]
    return Timeline(thread_id=check_thread_id(thread_id), steps=steps)


@router.get(
    "/{thread_id}/events",
    summary="Its events since a seq",
    response_model=EventPage,
    responses={200: {"content": {STREAM: {}}}},
)
async def read_events(
    thread_id: str,
    request: Request,
    desk: TheDesk,
    *,
    after: Annotated[int, Query(ge=0, le=SEQ_MAX, description="the last seq that was seen")] = 0,
    limit: Annotated[int, Query(ge=1, le=EVENTS_MAX)] = EVENTS_MAX,
    last_event_id: LastEventId = None,
) -> Response | EventPage:
    """The kept events with a greater `seq`; as a live stream where `Accept` is text/event-stream.

    The stream goes on until the thread rests; each message's id is the event's seq, its name the event's.
    """
    thread_id = await desk.known(thread_id)
    after = max(after, seq_of(last_event_id))
    if STREAM in request.headers.get("accept", ""):
        return stream(_pieces(thread_id, desk, after=after))
    events = await asyncio.to_thread(desk.board.log.since, thread_id, after, limit=limit)
    return EventPage(
        thread_id=thread_id,
        events=[dump_event(event) for event in events],
        last_seq=await desk.last_seq(thread_id),
        running=desk.board.is_running(thread_id) or bool(await desk.board.elsewhere.writer(thread_id)),
    )


@router.post(
    "/{thread_id}/answer",
    summary="Answer what it waits for",
)
async def answer_thread(
    thread_id: str,
    body: Answer,
    desk: TheDesk,
    action_id: Annotated[
        str | None, Query(description="the one meant; 409 where it waits for another")
    ] = None,
) -> RunReply:
    """Give a person's word; the run goes on, and the reply comes when it has ended or waits again."""
    thread_id = check_thread_id(thread_id)
    await desk.answer(thread_id, body, action_id=action_id)
    return await rested(desk, thread_id)


async def look_at(row: ThreadRow, desk: Desk) -> ThreadDetail:
    """All that is told of one thread."""
    writers = await desk.writers([row])  # before the view: a run that ends meanwhile is seen as it was
    view, last_seq = await _view(row.thread_id, desk), await desk.last_seq(row.thread_id)
    item = _item(row, desk, writers)
    return describe_thread(item, view, last_seq=last_seq)


def describe_thread(item: ThreadItem, view: ThreadView, *, last_seq: int) -> ThreadDetail:
    """The thread's item with what its state says."""
    state, running = view.state, item.running
    return ThreadDetail(
        **item.model_dump(),
        final_answer=state.get("final_answer", ""),
        error=state.get("error", ""),
        todos=state.get("todos", []),
        waiting_for=dict(view.waiting_for) if view.waiting_for is not None else None,
        unfinished=view.unfinished and not running,
        can_go_on=not running and (view.unfinished or state.get("reason") in CAN_GO_ON),
        last_seq=last_seq,
    )


async def _view(thread_id: str, desk: Desk) -> ThreadView:
    """The thread as it stands; for a moment one that another process begins is listed and stores nothing."""
    try:
        return await desk.view(thread_id)
    except ThreadUnknownError:
        await desk.row(thread_id)
        return ThreadView(state={}, waiting_for=None, unfinished=False)


async def _pieces(thread_id: str, desk: Desk, *, after: int) -> AsyncGenerator[str, None]:
    async with aclosing(desk.follow(thread_id, after=after)) as events:
        async for event in events:
            yield sse(dump_event(event), event=event.type, seq=event.seq)


def _item(row: ThreadRow, desk: Desk, writers: Mapping[str, str]) -> ThreadItem:
    run_by = writers.get(row.thread_id, "")
    running = bool(run_by) or desk.board.is_running(row.thread_id)
    return ThreadItem(**vars(row), running=running, run_by=run_by)
