"""The code chat: a run as a stream, through a wait for a person; cancelled, confirmed, come back to."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import FakeModel, says
from tests.http_door import PATIENCE_S, Door, open_door, sse_messages

from lockstitch.state.threads import new_thread_id

ANSWERS = "- say: One.\n- say: Two.\n"
ASKS = """
- say: I make it.
  calls: [{tool: run_command, args: {command: 'echo hi > made.txt'}}]
- say: Done.
"""
SLEEPS = """
- calls: [{tool: run_command, args: {command: 'exec sleep 60'}}]
- say: Went on.
"""
FIELDS = ["type", "state", "content", "tier", "tool", "step_number", "timestamp", "data"]


async def query(door: Door, **body: Any) -> list[dict[str, Any]]:
    reply = await door.post("/api/code-chat/query", {"query": "Go."} | body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    return sse_messages(reply.text)


async def test_a_query_streams_its_events_with_the_owners_fields(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        messages = await query(door)
    assert all(list(message["data"]) == FIELDS for message in messages)
    seqs = [int(message["id"]) for message in messages]
    assert seqs == list(range(1, len(seqs) + 1))
    answers = [m["data"]["content"] for m in messages if m["data"]["type"] == "answer"]
    assert answers == ["One."]
    last = messages[-1]["data"]
    assert (last["type"], last["state"], last["content"]) == ("state", "completed", "answered")


async def test_the_stream_goes_on_when_a_pending_action_is_confirmed(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        streaming = asyncio.create_task(query(door))
        waits = await door.waiting()
        reply = await door.post(f"/api/code-chat/confirm/{waits['action_id']}", {"decision": "approve"})
        assert reply.json()["success"]
        async with asyncio.timeout(PATIENCE_S):
            messages = await streaming
        types = [message["data"]["type"] for message in messages]
        (pending,) = (m["data"] for m in messages if m["data"]["type"] == "action_pending")
        assert pending["data"]["action_id"] == waits["action_id"]
        assert pending["tool"] == {"tool": "run_command", "args": {"command": "echo hi > made.txt"}}
        assert types.index("action_pending") < types.index("action") < types.index("answer")
        assert (door.workspace / "made.txt").exists()


async def test_nobody_answers_in_time_and_the_session_goes_on_waiting(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        settings = door.desk.settings.model_copy(update={"request_input_timeout_s": 0})
        door.desk.settings = settings
        messages = await query(door)
        assert messages[-1]["data"]["data"]["event"] == "agent_request_input_timeout"
        waits = await door.waiting()
        reply = await door.post(f"/api/threads/{waits['thread_id']}/answer", {"decision": "approve"})
        assert reply.json()["data"]["answer"] == "Done."


async def test_a_client_that_comes_back_misses_nothing_and_begins_nothing(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        whole = await query(door, session_id=(session := new_thread_id()))
        body = {"query": "Go.", "session_id": session}
        again = await door.post("/api/code-chat/query", body, headers={"last-event-id": whole[3]["id"]})
        assert [m["id"] for m in sse_messages(again.text)] == [m["id"] for m in whole[4:]]
        assert (await door.get(f"/api/threads/{session}")).json()["steps"] == 1


async def test_cancel_stops_the_run_and_the_next_query_goes_on(tmp_path: Path) -> None:
    alone = {"mode": "auto", "unsandboxed_commands": "allow"}
    async with open_door(tmp_path, SLEEPS, **alone) as door:
        session = new_thread_id()
        streaming = asyncio.create_task(query(door, session_id=session))
        await door.running(session)
        assert (await door.post(f"/api/code-chat/cancel/{session}")).json()["success"]
        async with asyncio.timeout(PATIENCE_S):
            messages = await streaming
        assert "cancelled" in [message["data"]["type"] for message in messages]
        assert messages[-1]["data"]["content"] == "cancelled"
        again = await query(door, session_id=session)
        assert [m["data"]["content"] for m in again if m["data"]["type"] == "answer"] == ["Went on."]


async def test_a_run_goes_on_when_its_client_leaves(tmp_path: Path) -> None:
    async with open_door(tmp_path, "- {say: Late., delay_s: 0.2}\n") as door:
        session = new_thread_id()
        streaming = asyncio.create_task(query(door, session_id=session))
        await door.running(session)
        streaming.cancel()
        await asyncio.wait([streaming])
        await door.board.rest(session)
        assert (await door.get(f"/api/threads/{session}")).json()["final_answer"] == "Late."


async def test_tools_are_taken_away_and_what_is_missing_is_said(tmp_path: Path) -> None:
    model = FakeModel(says("One."))
    async with open_door(tmp_path, ANSWERS, models=model) as door:
        overrides = {"run_command": {"enabled": False}, "read_file": {}}
        messages = await query(
            door, tool_overrides=overrides, use_cgrag=True, use_web_search=True, context_name="docs"
        )
    words = [m["data"]["content"] for m in messages if m["data"]["type"] == "context"]
    assert "retrieval, left out: the workspace has no index 'docs'" in words[0]
    assert "run_command" not in model.tools[0]
    assert "read_file" in model.tools[0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " "}, "query"),
        ({"query": "x" * 10_001}, "query"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": 51}, "max_iterations"),
        ({"session_id": "mine"}, "session_id"),
        ({"strategy": "nonsense"}, "strategy"),
        ({"tool_overrides": {"format_disk": {}}}, "tool_overrides"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused_before_the_stream(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        reply = await door.post("/api/code-chat/query", {"query": "Go."} | change)
        assert (reply.status_code, [f["field"] for f in reply.json()["fields"]]) == (400, [field])


async def test_a_confirmation_that_fits_nothing_changes_nothing(tmp_path: Path) -> None:
    async with open_door(tmp_path, ASKS) as door:
        await door.post("/api/agent", {"prompt": "Make it."})
        waits = await door.waiting()
        confirm = "/api/code-chat/confirm"
        assert (await door.post(f"{confirm}/other", {"decision": "approve"})).status_code == 404
        named = {"decision": "approve", "session_id": waits["thread_id"]}
        stale = await door.post(f"{confirm}/other", named)
        assert (stale.status_code, stale.json()["error"]) == (409, "other_action")
        edit = await door.post(f"{confirm}/{waits['action_id']}", {"decision": "edit"})
        assert (edit.status_code, edit.json()["fields"][0]["field"]) == (400, "args")
        huge = {"decision": "edit", "args": {"n": 10**400}}
        assert (await door.post(f"{confirm}/{waits['action_id']}", huge)).status_code == 400
        assert (await door.get(f"/api/threads/{waits['thread_id']}")).json()["waiting_for"]
        assert not (door.workspace / "made.txt").exists()


async def test_a_confirmation_passes_on_whether_always_and_of_what(tmp_path: Path) -> None:
    turns = ASKS.replace("echo hi > made.txt", "touch made.txt")
    async with open_door(tmp_path, turns) as door:
        streaming = asyncio.create_task(query(door))
        waits = await door.waiting()
        body = {"decision": "approve", "always": True, "digest": waits["digest"]}
        assert (await door.post(f"/api/code-chat/confirm/{waits['action_id']}", body)).status_code == 200
        async with asyncio.timeout(PATIENCE_S):
            await streaming
        assert [rule.as_fields() for rule in door.desk.parts.rules.rules().home] == [waits["rule"]]
        assert (door.workspace / "made.txt").exists()
