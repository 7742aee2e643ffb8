"""A person's word on the processes of a thread, over HTTP: seen, kept beyond the run, ended."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.http_door import Door, open_door

from lockstitch.state.errors import SystemFaultError
from lockstitch.tools import background

THREAD = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"
PROCESSES = f"/api/threads/{THREAD}/processes"
TURNS = """
- calls: [{tool: start_process, args: {command: "sleep 60; :"}}]
- calls: [{tool: request_input, args: {question: "Which?"}}]
- say: Done.
"""


@pytest.fixture(autouse=True)
def short_first_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_S", 0.02)


async def begin(door: Door) -> None:
    reply = await door.post("/api/agent", {"prompt": "go", "thread_id": THREAD, "mode": "auto"})
    assert reply.json()["data"]["reason"] == "waiting"


async def finish(door: Door) -> None:
    reply = await door.post(f"/api/threads/{THREAD}/answer", {"decision": "respond", "message": "this"})
    assert reply.json()["success"]


async def test_one_that_is_kept_outlives_its_run_until_it_is_stopped(tmp_path: Path) -> None:
    async with open_door(tmp_path, TURNS, unsandboxed_commands="allow") as door:
        await begin(door)
        (item,) = (await door.get(PROCESSES)).json()["processes"]
        assert (item["process_id"], item["running"], item["kept"]) == ("p1", True, False)
        assert (await door.post(f"{PROCESSES}/p1", {"action": "keep"})).json()["kept"] is True
        await finish(door)
        (item,) = (await door.get(PROCESSES)).json()["processes"]
        assert item["running"] is True
        stopped = (await door.post(f"{PROCESSES}/p1", {"action": "stop"})).json()
        assert (stopped["running"], stopped["exit_code"], stopped["kept"]) == (False, None, False)
        again = await door.post(f"{PROCESSES}/p1", {"action": "keep"})
        assert (again.status_code, again.json()["error"]) == (409, "ended")


async def test_one_that_nobody_keeps_ends_with_its_run(tmp_path: Path) -> None:
    async with open_door(tmp_path, TURNS, unsandboxed_commands="allow") as door:
        await begin(door)
        await finish(door)
        assert (await door.get(PROCESSES)).json() == {"thread_id": THREAD, "processes": []}
        gone = await door.post(f"{PROCESSES}/p1", {"action": "stop"})
        assert (gone.status_code, gone.json()["error"]) == (404, "not_found")


async def test_all_end_with_the_server(tmp_path: Path) -> None:
    async with open_door(tmp_path, TURNS, unsandboxed_commands="allow") as door:
        await begin(door)
        process = door.desk.parts.processes.of(THREAD).find("p1")
        process.kept = True
    assert not process.running


async def test_all_end_with_their_thread(tmp_path: Path) -> None:
    async with open_door(tmp_path, TURNS, unsandboxed_commands="allow") as door:
        await begin(door)
        process = door.desk.parts.processes.of(THREAD).find("p1")
        process.kept = True
        await finish(door)
        assert process.running
        assert (await door.client.delete(f"/api/code-chat/sessions/{THREAD}")).json()["success"]
        assert not process.running


async def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    async with open_door(tmp_path, TURNS) as door:
        assert (await door.get(PROCESSES)).status_code == 404
        refused = await door.post(f"{PROCESSES}/p1", {"action": "restart"})
        assert (refused.status_code, refused.json()["fields"][0]["field"]) == (400, "action")


async def test_none_outlives_a_run_that_fails_between_two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> AsyncIterator[None]:
        raise SystemFaultError("the disk is full")
        yield

    async with open_door(tmp_path, TURNS, unsandboxed_commands="allow") as door:
        await begin(door)
        process = door.desk.parts.processes.of(THREAD).find("p1")
        monkeypatch.setattr(door.board.service._graph, "astream", fail)
        await door.post(f"/api/threads/{THREAD}/answer", {"decision": "respond", "message": "this"})
        assert not process.running
