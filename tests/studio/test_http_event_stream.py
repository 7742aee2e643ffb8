"""Every event at the doors: its SSE and WebSocket form are a public contract, compared with golden bodies.

After a change that is meant, write the file anew and read what changed:
`WRITE_CONTRACTS=1 .venv/bin/python -m pytest tests/studio/test_http_event_stream.py`.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.http_door import sse_messages

from lockstitch.state.events import AgentCompletion, parse_event
from lockstitch.studio.http.event_stream import (
    FORMS,
    HEARTBEAT,
    ChatForm,
    seq_of,
    socket_messages,
    sse,
    with_heartbeats,
)

CONTRACTS = Path(__file__).parents[1] / "contracts"
EVENTS: dict[str, Any] = json.loads((CONTRACTS / "events.json").read_text(encoding="utf-8"))
HTTP = CONTRACTS / "http" / "events.json"
CHAT_TYPES = {
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
}  # the owner's


def golden() -> dict[str, Any]:
    held: dict[str, Any] = json.loads(HTTP.read_text(encoding="utf-8")) if HTTP.exists() else {}
    return held


def write(kind: str, forms: dict[str, Any]) -> None:
    """Put it into the file, in the order of the events, a form a line."""
    held = golden() | {kind: forms}
    parts = []
    for name in (name for name in EVENTS["fields"] if name in held):
        socket = ",\n".join(f"      {json.dumps(message)}" for message in held[name]["socket"])
        chat = json.dumps(held[name]["chat"])
        parts.append(f'  "{name}": {{\n    "chat": {chat},\n    "socket": [\n{socket}\n    ]\n  }}')
    HTTP.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def test_the_contract_has_every_event_and_no_other() -> None:
    assert list(golden()) == list(EVENTS["fields"])


def test_every_event_has_a_form_and_no_form_is_without_an_event() -> None:
    assert set(FORMS) == set(EVENTS["fields"])
    assert {form.chat for form in FORMS.values()} == {*CHAT_TYPES, None}


@pytest.mark.parametrize("body", EVENTS["examples"], ids=lambda body: str(body["type"]))
def test_an_event_has_the_golden_form_at_each_door(body: dict[str, Any]) -> None:
    event = parse_event(body)
    forms = {"chat": ChatForm().body(event), "socket": socket_messages(event)}
    told = json.loads(json.dumps(forms))
    if os.environ.get("WRITE_CONTRACTS"):
        write(body["type"], told)
    assert told == golden()[body["type"]]


@pytest.mark.parametrize("body", EVENTS["examples"], ids=lambda body: str(body["type"]))
def test_nothing_of_an_event_is_lost_at_the_socket(body: dict[str, Any]) -> None:
    update = socket_messages(parse_event(body))[0]
    assert update.pop("update_type") == body["type"]
    assert update == body | {"type": "agent_update"}


def test_the_chat_tells_the_state_the_run_is_in() -> None:
    form = ChatForm()
    place = {"seq": 1, "thread_id": "t", "run_id": "r", "step": 1, "timestamp": "now"}
    states = [
        form.body(parse_event(place | body))
        for body in (
            {"type": "agent_state", "state": "executing"},
            {"type": "agent_tool_start", "call_id": "c", "tool": "t", "args": {}},
            {"type": "agent_completion", "steps": 1, "reason": "model_error"},
        )
    ]
    assert [body["state"] for body in states if body] == ["executing", "executing", "error"]


def test_a_message_without_a_place_has_no_id_to_come_back_to() -> None:
    assert sse({"a": "line\nbreak"}, seq=7) == 'id: 7\ndata: {"a": "line\\nbreak"}\n\n'
    assert "id:" not in sse({})
    assert sse_messages(sse({"a": 1}, event="agent_answer", seq=7)) == [
        {"id": "7", "event": "agent_answer", "data": {"a": 1}}
    ]


@pytest.mark.parametrize(
    ("text", "seq"),
    [(None, 0), ("", 0), ("17", 17), ("-1", 0), ("abc", 0), ("1.5", 0), ("٣", 0), ("9" * 20, 2**53 - 1)],
)
def test_a_last_event_id_is_a_number_or_nothing(text: str | None, seq: int) -> None:
    assert seq_of(text) == seq


async def test_a_silent_stream_is_kept_open_by_comments() -> None:
    spoken = asyncio.Event()

    async def pieces() -> AsyncGenerator[str, None]:
        yield "one"
        await spoken.wait()
        yield "two"

    stream = with_heartbeats(pieces(), every_s=0.001)
    assert [await anext(stream), await anext(stream)] == ["one", HEARTBEAT]
    spoken.set()
    assert [piece async for piece in stream if piece != HEARTBEAT] == ["two"]


async def test_a_stream_that_is_left_closes_what_it_reads() -> None:
    closed = []

    async def pieces() -> AsyncGenerator[str, None]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    stream = with_heartbeats(pieces(), every_s=0.001)
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    assert closed == [True]


def test_every_reason_has_a_state() -> None:
    for reason in EVENTS["exit_codes"]:
        body = ChatForm().body(AgentCompletion(steps=1, reason=reason))
        assert body is not None
        assert body["state"] in EVENTS["phases"]
