"""Threads and sessions over HTTP: listed, looked at, followed, emptied, deleted."""

import asyncio
from pathlib import Path

import pytest
from tests.http_door import Door, open_door, sse_messages

from lockstitch.state.threads import new_thread_id

ANSWERS = "- say: One.\n- say: Two.\n- say: Three.\n"
LOOKS = "- calls: [{tool: list_directory}]\n  say: I look.\n- say: Looked.\n"


async def begun(door: Door, thread_id: str | None = None) -> str:
    thread_id = thread_id or new_thread_id()
    reply = await door.post("/api/agent", {"prompt": "Go.", "thread_id": thread_id})
    assert reply.json()["success"], reply.text
    return thread_id


async def test_the_list_has_the_last_active_thread_first(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        first, second = await begun(door), await begun(door)
        await begun(door, first)
        for path, key in (("/api/threads", "threads"), ("/api/code-chat/sessions", "sessions")):
            listed = (await door.get(path)).json()[key]
            assert [row["thread_id"] for row in listed] == [first, second]
            assert len((await door.get(f"{path}?limit=1")).json()[key]) == 1


async def test_a_thread_is_told_with_its_answer_and_its_steps(tmp_path: Path) -> None:
    async with open_door(tmp_path, LOOKS) as door:
        thread_id = await begun(door)
        thread = (await door.get(f"/api/threads/{thread_id}")).json()
        assert (thread["final_answer"], thread["reason"], thread["can_go_on"]) == (
            "Looked.",
            "answered",
            False,
        )
        steps = (await door.get(f"/api/threads/{thread_id}/steps")).json()["steps"]
        assert [step["number"] for step in steps] == [1, 2]
        assert steps[0]["thought"] == "I look."
        session = (await door.get(f"/api/code-chat/sessions/{thread_id}")).json()
        assert session == thread | {"steps_taken": steps}


async def test_events_since_a_seq_come_in_pages_without_gap_or_double(tmp_path: Path) -> None:
    async with open_door(tmp_path, LOOKS) as door:
        path = f"/api/threads/{await begun(door)}/events"
        whole = (await door.get(path)).json()
        read: list[int] = []
        while not read or read[-1] < whole["last_seq"]:
            page = (await door.get(f"{path}?after={read[-1] if read else 0}&limit=3")).json()
            read += [event["seq"] for event in page["events"]]
        assert read == [event["seq"] for event in whole["events"]] == list(range(1, whole["last_seq"] + 1))


async def test_events_stream_live_and_go_on_after_the_last_id(tmp_path: Path) -> None:
    async with open_door(tmp_path, "- {say: One., delay_s: 0.1}\n") as door:
        thread_id = new_thread_id()
        running = asyncio.create_task(begun(door, thread_id))
        await door.once(f"/api/threads/{thread_id}")
        accept = {"accept": "text/event-stream"}
        live = await door.get(f"/api/threads/{thread_id}/events", headers=accept)
        await running
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()["events"]
        messages = sse_messages(live.text)
        assert [message["data"] for message in messages] == kept
        assert [message["event"] for message in messages] == [event["type"] for event in kept]
        rest = await door.get(f"/api/threads/{thread_id}/events", headers=accept | {"last-event-id": "4"})
        assert [message["data"] for message in sse_messages(rest.text)] == kept[4:]


@pytest.mark.parametrize(
    "thread_id", ["0dceaa7e-7682-4126-9a12-9687dca8eb79", "nonsense", "%2e%2e", "1' OR '1'='1"]
)
async def test_an_unknown_thread_is_not_found_at_any_route(tmp_path: Path, thread_id: str) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        base, chat = f"/api/threads/{thread_id}", f"/api/code-chat/sessions/{thread_id}"
        replies = [
            *[await door.get(path) for path in (base, f"{base}/steps", f"{base}/events", chat)],
            await door.post(f"{base}/answer", {"decision": "approve"}),
            await door.post(f"{chat}/clear"),
            await door.client.delete(chat),
            await door.post(f"/api/code-chat/cancel/{thread_id}"),
        ]
        assert {(r.status_code, r.json()["error"]) for r in replies} == {(404, "not_found")}


async def test_an_answer_that_nothing_waits_for_is_refused(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        path = f"/api/threads/{await begun(door)}/answer"
        reply = await door.post(path, {"decision": "approve"})
        assert (reply.status_code, reply.json()["error"]) == (409, "not_waiting")


async def test_a_cleared_session_begins_anew_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        thread_id = await begun(door)
        session = f"/api/code-chat/sessions/{thread_id}"
        assert (await door.post(f"{session}/clear")).json()["success"]
        assert (await door.get(session)).json()["steps_taken"] == []
        await begun(door, thread_id)  # the scenario begins anew with it
        assert (await door.get(session)).json()["final_answer"] == "One."
        assert (await door.client.delete(session)).json()["success"]
        assert (await door.get(session)).status_code == 404


async def test_cleanup_deletes_what_is_idle_and_nothing_else(tmp_path: Path) -> None:
    async with open_door(tmp_path, ANSWERS) as door:
        thread_id, path = await begun(door), "/api/code-chat/sessions/cleanup"
        assert (await door.post(path, {})).json()["deleted"] == []  # a day
        assert (await door.post(path, {"idle_hours": 0})).json()["deleted"] == [thread_id]
        assert (await door.post(path, {"idle_hours": -1})).status_code == 400
        assert (await door.post(path, {"idle_hours": float("inf")})).status_code == 400


async def test_a_running_session_is_neither_deleted_nor_cleared(tmp_path: Path) -> None:
    async with open_door(tmp_path, "- {say: One., delay_s: 0.3}\n") as door:
        thread_id = new_thread_id()
        running = asyncio.create_task(begun(door, thread_id))
        session = f"/api/code-chat/sessions/{thread_id}"
        await door.once(session)
        assert (await door.client.delete(session)).status_code == 409
        assert (await door.post(f"{session}/clear")).status_code == 409
        await running
