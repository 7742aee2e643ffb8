"""The event stream: the one table that maps each event to its SSE and WebSocket form, and their writing."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Header
from fastapi.responses import StreamingResponse

from lockstitch.state.events import (
    AgentCompletion,
    AgentPhase,
    AgentStateChange,
    AgentUsage,
    Event,
    dump_event,
)
from lockstitch.state.reasons import TerminationReason
from lockstitch.studio.http.schemas import SEQ_MAX

HEARTBEAT_S: Final = 15.0  # proxies close a connection that was silent for 30 to 60 s
HEARTBEAT: Final = ": heartbeat\n\n"
STREAM: Final = "text/event-stream"
LastEventId = Annotated[
    str | None, Header(description="of a stream that broke off: goes on after that event", max_length=20)
]

ChatType = Literal[
    "state",
    "thought",
    "action",
    "action_pending",
    "observation",
    "answer",
    "error",
    "cancelled",
    "context",
    "diff_preview",
]


class Form(NamedTuple):
    """How one event looks at the doors.

    Attributes:
        chat: its type in the SSE stream of /api/code-chat/query; None is not sent there.
        content: the field that is the `content` there.
        beside: the type of a second, shorter message that follows it at /ws.
    """

    chat: ChatType | None
    content: str = ""
    beside: str = ""


FORMS: Final[dict[str, Form]] = {
    "agent_start": Form("state"),
    "agent_turn_start": Form("state"),
    "agent_state": Form("state", "state"),
    "agent_context": Form("context", "content"),
    "agent_reason": Form("thought", "content"),
    "agent_tool_start": Form("action", "tool", "tool_start"),
    "agent_tool_progress": Form("state", "content"),
    "agent_tool_complete": Form("observation", "result", "tool_complete"),
    "agent_tool_error": Form("observation", "message", "tool_error"),
    "agent_diff_preview": Form("diff_preview", "file_path"),
    "agent_approval_request": Form("action_pending", "reason"),
    "agent_request_input": Form("action_pending", "question"),
    "agent_request_input_timeout": Form("state"),
    "agent_observe": Form("observation", "content"),
    "agent_todos": Form("state"),
    "agent_usage": Form("state"),
    "agent_delta": Form(None),  # the whole thought follows
    "agent_notice": Form("state", "content"),
    "agent_answer": Form("answer", "content"),
    "agent_stopped": Form("cancelled"),
    "agent_error": Form("error", "message"),
    "agent_completion": Form("state", "reason"),
}
_PLACE: Final = ("type", "seq", "thread_id", "step", "timestamp", "run_id")  # not part of `data`
_SHORT: Final = ("tool", "args", "call_id", "result", "message", "thread_id", "step")
_PHASES: Final[dict[TerminationReason, AgentPhase]] = {
    "answered": "completed",
    "todos_completed": "completed",
    "finished": "completed",
    "step_limit": "completed",
    "waiting": "waiting",
    "cancelled": "cancelled",
}  # any other reason is an error


def socket_messages(event: Event) -> list[dict[str, Any]]:
    """The messages that the event is at /ws: the event itself, and for a tool call a short one beside."""
    body = dump_event(event)
    messages = [body | {"type": "agent_update", "update_type": event.type}]
    beside = FORMS[event.type].beside
    if beside:
        messages.append({"type": beside, **{name: body[name] for name in _SHORT if name in body}})
    return messages


class ChatForm:
    """Writes the events of one stream as /api/code-chat/query has them; knows the state and the tier."""

    def __init__(self) -> None:
        self._state: AgentPhase = "planning"
        self._tier: str | None = None

    def body(self, event: Event) -> dict[str, Any] | None:
        """The event's body; None where it is not sent."""
        self._hear(event)
        form, fields = FORMS[event.type], dump_event(event)
        if form.chat is None:
            return None
        rest = {name: value for name, value in fields.items() if name not in {*_PLACE, form.content}}
        return {
            "type": form.chat,
            "state": self._state,
            "content": fields[form.content] if form.content else "",
            "tier": self._tier,
            "tool": {"tool": fields["tool"], "args": fields.get("args")} if "tool" in fields else None,
            "step_number": event.step,
            "timestamp": event.timestamp,
            "data": {"event": event.type, "session_id": event.thread_id, "seq": event.seq, **rest},
        }

    def _hear(self, event: Event) -> None:
        if isinstance(event, AgentStateChange):
            self._state = event.state
        elif isinstance(event, AgentCompletion):
            self._state = _PHASES.get(event.reason, "error")
        elif isinstance(event, AgentUsage):
            self._tier = event.tier or None


def sse(body: dict[str, Any], *, event: str | None = None, seq: int = 0) -> str:
    """One server-sent event. A `seq` of 0 is no place to come back to, and is left out."""
    head = f"event: {event}\n" if event else ""
    place = f"id: {seq}\n" if seq else ""
    return f"{place}{head}data: {json.dumps(body, ensure_ascii=False)}\n\n"


def seq_of(last_event_id: str | None) -> int:
    """The seq in a `Last-Event-ID`; 0 where it holds none."""
    text = last_event_id or ""
    return min(int(text), SEQ_MAX) if text.isascii() and text.isdecimal() else 0


def stream(pieces: AsyncGenerator[str, None]) -> StreamingResponse:
    """The reply that sends the pieces as they come."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # the latter is nginx's word
    return StreamingResponse(with_heartbeats(pieces), media_type=STREAM, headers=headers)


async def with_heartbeats(
    pieces: AsyncGenerator[str, None], *, every_s: float = HEARTBEAT_S
) -> AsyncGenerator[str, None]:
    """The pieces, and a comment whenever none came for so long."""
    async with contextlib.aclosing(pieces):
        upcoming = asyncio.ensure_future(anext(pieces, None))
        try:
            while True:
                done, _ = await asyncio.wait([upcoming], timeout=every_s)
                if not done:
                    yield HEARTBEAT
                    continue
                piece = upcoming.result()
                if piece is None:
                    return
                yield piece
                upcoming = asyncio.ensure_future(anext(pieces, None))
        finally:
            upcoming.cancel()
            await asyncio.wait([upcoming])
