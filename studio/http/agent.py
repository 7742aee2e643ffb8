"""POST /api/agent: a whole run in one request and one reply."""

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field

from lockstitch.state.reasons import ENDINGS
from lockstitch.state.run_context import Exchange, HandedContext
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.http.choices import run_context
from lockstitch.studio.http.desk import Desk, TheDesk, key_of
from lockstitch.studio.http.problems import ProblemRoute
from lockstitch.studio.http.schemas import Prompt, RunChoices, RunData, RunReply, Sent, Steps, ThreadId
from lockstitch.studio.service import RunRequest, ThreadView

HISTORY_MAX: Final = 1000  # entries of a body; of them the last 20 are told to the model
TEXT_CHARS: Final = 200_000  # of one earlier prompt or result
WELL: Final = frozenset({"answered", "todos_completed", "finished"})

router = APIRouter(route_class=ProblemRoute, tags=["agent"])


class HistoryEntry(Sent):
    """One earlier prompt and what came of it."""

    timestamp: str = Field(default="", max_length=100)
    prompt: str = Field(max_length=TEXT_CHARS)
    result: str = Field(max_length=TEXT_CHARS)


class AgentRequest(RunChoices):
    """A task."""

    prompt: Prompt = Field(description="what to do", examples=["Why does the date parser fail on leap days?"])
    tool_type: str = Field(
        default="auto", alias="toolType", max_length=100, description="accepted and ignored"
    )
    context_history: Annotated[list[HistoryEntry] | None, Field(max_length=HISTORY_MAX)] = Field(
        default=None, alias="contextHistory", description="earlier exchanges, the last 20 are read"
    )
    thread_id: ThreadId | None = Field(
        default=None, description="goes on with this thread, or begins it; without one nothing is remembered"
    )
    max_steps: Steps | None = Field(default=None, description="default 10")


@router.post(
    "/agent",
    summary="Run a task to its end",
)
async def run_agent(body: AgentRequest, desk: TheDesk) -> RunReply:
    """Run the whole loop and reply with its end.

    A run that needs a person replies with `success: false` and `data.reason: "waiting"`; answer by
    `POST /api/threads/{thread_id}/answer`. The run goes on when the client hangs up.
    """
    thread_id = body.thread_id or new_thread_id()
    context = await run_context(body, desk, max_steps=body.max_steps, handed=_handed(body))
    request = RunRequest(
        thread_id=thread_id,
        prompt=body.prompt,
        context=context,
        api_key=key_of(body.user_api_keys),
    )
    await desk.start(request)
    reply = await rested(desk, thread_id)
    if body.thread_id is None and reply.data.reason != "waiting":
        await desk.forget(thread_id)
    return reply


async def rested(desk: Desk, thread_id: str) -> RunReply:
    """Wait until the thread rests; how its run ended."""
    await desk.board.rest(thread_id)
    return describe_run(thread_id, await desk.view(thread_id))


def describe_run(thread_id: str, view: ThreadView) -> RunReply:
    """The thread's last run."""
    state = view.state
    reason = "waiting" if view.waiting_for is not None else state.get("reason")
    well = reason in WELL
    words = ENDINGS[reason].meaning if reason else "the run was cut off and can go on"
    return RunReply(
        success=well,
        message=state.get("error") or f"{words[:1].upper()}{words[1:]}.",
        data=RunData(
            thread_id=thread_id,
            answer="" if reason == "waiting" else state.get("final_answer", ""),
            steps=state.get("step", 0),
            tasks=state.get("todos", []),
            reason=reason,
            waiting_for=_question(view),
        ),
        error=None if well else reason or "system_error",
    )


def _question(view: ThreadView) -> dict[str, Any] | None:
    return dict(view.waiting_for) if view.waiting_for is not None else None


def _handed(body: AgentRequest) -> HandedContext | None:
    if not body.context_history:
        return None
    entries = [
        Exchange(prompt=entry.prompt, result=entry.result, timestamp=entry.timestamp)
        for entry in body.context_history
    ]
    return HandedContext(history=tuple(entries))
