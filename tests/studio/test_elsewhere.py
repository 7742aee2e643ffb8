"""Runs of the command line as a server sees them: live, afterwards, and when their process was killed."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http_door import PATIENCE_S, Door, Socket, open_door, sse_messages
from tests.studio.conftest import PROGRAM

from lockstitch.state import thread_lock
from lockstitch.state.errors import SystemFaultError, ThreadBusyError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.events import AgentDelta, AgentReason, Event
from lockstitch.state.thread_lock import hold_for_run, hold_thread, writer_of
from lockstitch.state.threads import new_thread_id
from lockstitch.studio import elsewhere
from lockstitch.studio.event_keeper import EventKeeper

LOOKS = "- {say: I look., calls: [{tool: list_directory}]}\n- say: Done.\n"
LINGERS = "- {say: I look., calls: [{tool: list_directory}]}\n- {say: Late., delay_s: 600}\n"
ASKS = "- calls: [{tool: run_command, args: {command: 'touch made'}}]\n- say: Done.\n"
SSE = {"accept": "text/event-stream"}


@asynccontextmanager
async def beside(home: Path, tmp_path: Path, **settings: Any) -> AsyncIterator[Door]:
    """A server on the home that the command line uses, too."""
    folder = tmp_path / "server"
    folder.mkdir()
    async with open_door(folder, "- say: unused\n", home=home, **settings) as door:
        yield door


def run_to_its_rest(*argv: str) -> list[dict[str, Any]]:
    """The events of a run of the command line."""
    done = subprocess.run([*PROGRAM, "run", *argv, "--json"], stdout=subprocess.PIPE, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def running(prompt: str = "Go.") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A run of the command line that has begun its second step, and its thread."""
    with subprocess.Popen([*PROGRAM, "run", prompt, "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        event: dict[str, Any] = {}
        while (event.get("type"), event.get("step")) != ("agent_turn_start", 2):
            event = json.loads(process.stdout.readline())
        try:
            yield process, event["thread_id"]
        finally:
            process.kill()


async def seen(door: Door, thread_id: str, kind: str) -> None:
    """Wait until an event of that type is kept."""
    async with asyncio.timeout(PATIENCE_S):
        while kind not in [event.type for event in door.board.log.since(thread_id, 0)]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_the_command_line_told_is_told_by_a_server_afterwards(
    scenario: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    scenario(LOOKS)
    told = await asyncio.to_thread(run_to_its_rest, "Go.")
    thread_id = told[0]["thread_id"]
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    async with beside(home, tmp_path) as door:
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()
    assert kept["events"] == told
    assert not kept["running"]
    more = await asyncio.to_thread(run_to_its_rest, "And now?", "--thread", thread_id)
    assert more[0]["seq"] == told[-1]["seq"] + 1


async def test_a_run_of_another_process_is_followed_to_its_end(
    scenario: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    scenario(LINGERS)
    async with beside(home, tmp_path) as door:
        with running() as (process, thread_id):
            await seen(door, thread_id, "agent_tool_complete")
            thread = (await door.get(f"/api/threads/{thread_id}")).json()
            (listed,) = (await door.get("/api/threads")).json()["threads"]
            for shown in (thread, listed):
                assert shown["running"]
                assert "lockstitch run (pid" in shown["run_by"]
            assert not thread["unfinished"]
            assert not thread["can_go_on"]
            live = asyncio.create_task(door.get(f"/api/threads/{thread_id}/events", headers=SSE))
            process.terminate()
            messages = sse_messages((await live).text)
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()["events"]
        assert [message["data"] for message in messages] == kept
        assert kept[-1]["type"] == "agent_completion"
        assert kept[-1]["reason"] == "cancelled"
        assert not (await door.get(f"/api/threads/{thread_id}")).json()["running"]


async def test_a_run_of_another_process_cannot_be_disturbed_and_the_client_is_told_why(
    scenario: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    scenario(LINGERS)
    async with beside(home, tmp_path, allowed_roots=[tmp_path]) as door:
        with running() as (_, thread_id):
            await seen(door, thread_id, "agent_tool_complete")
            replies = [
                await door.post("/api/agent", {"prompt": "Mine.", "thread_id": thread_id}),
                await door.post(f"/api/code-chat/cancel/{thread_id}"),
                await door.client.delete(f"/api/code-chat/sessions/{thread_id}"),
            ]
            assert {(r.status_code, r.json()["error"]) for r in replies} == {(409, "busy")}
            socket = Socket(door.app)
            for message in (
                {"type": "chat", "content": "Mine."},
                {"type": "agent_control", "action": "stop"},
                {"type": "agent_user_input", "content": "Mine."},
            ):
                socket.send(thread_id=thread_id, **message)
                assert (await socket.hear())["error"] == "busy"
            await socket.leave()


async def test_a_run_whose_process_was_killed_ends_for_those_who_follow_it(
    scenario: Callable[[str], str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "LOOK_EVERY_S", 0.01)
    scenario(LINGERS)
    async with beside(home, tmp_path) as door:
        with running() as (process, thread_id):
            await seen(door, thread_id, "agent_tool_complete")
            socket = Socket(door.app)
            socket.send(type="agent_follow", thread_id=thread_id)
            await socket.until("agent_tool_complete")
            process.kill()
            rest = await socket.until("response_complete")
            await socket.leave()
        assert rest[-1]["reason"] == "system_error"
        assert [m["message"] for m in rest if m.get("update_type") == "agent_error"] == [elsewhere.GONE]
        thread = (await door.get(f"/api/threads/{thread_id}")).json()
        assert thread["unfinished"]
        assert thread["can_go_on"]
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()["events"]
        assert kept[-1]["type"] != "agent_completion"


async def test_what_the_command_line_left_waiting_is_answered_through_a_server(
    scenario: Callable[[str], str], home: Path, tmp_path: Path
) -> None:
    model = scenario(ASKS)
    told = await asyncio.to_thread(run_to_its_rest, "Go.")
    thread_id = told[0]["thread_id"]
    async with beside(home, tmp_path, model=model, allowed_roots=[tmp_path]) as door:
        reply = await door.post(f"/api/threads/{thread_id}/answer", {"decision": "approve"})
        kept = (await door.get(f"/api/threads/{thread_id}/events")).json()["events"]
    assert reply.json()["data"]["answer"] == "Done."
    assert [event["seq"] for event in kept] == list(range(1, len(kept) + 1))
    assert kept[: len(told)] == told


async def test_events_that_cannot_be_kept_are_said_once_and_end_nothing(home: Path) -> None:
    class FullLog(EventLog):
        def append(self, events: Any) -> None:
            raise SystemFaultError("the disk is full.")

    warned: list[str] = []
    with open_event_log(home) as log:
        keeper = EventKeeper(FullLog(log._connection, name="events.db"), warned.append)
        for seq in (1, 2):
            keeper.put(AgentReason(content="x", thread_id="t", seq=seq))
            await keeper.flush()
    assert len(warned) == 1
    assert "disk is full" in warned[0]


async def test_many_quick_events_are_written_together_and_pieces_not_at_all(home: Path) -> None:
    writes: list[list[int]] = []

    class CountingLog(EventLog):
        def append(self, events: Any) -> None:
            writes.append([event.seq for event in events])

    with open_event_log(home) as log:
        keeper = EventKeeper(CountingLog(log._connection, name="events.db"), print)
        events: list[Event] = [AgentReason(content="x", seq=seq) for seq in range(1, 100)]
        for event in [*events, AgentDelta(kind="text", content="x", seq=100)]:
            keeper.put(event)
        await keeper.flush()
    assert writes == [list(range(1, 100))]


def test_old_events_are_dropped_where_no_server_ever_runs(scenario: Callable[[str], str], home: Path) -> None:
    scenario(LOOKS)
    with open_event_log(home) as log:
        old = AgentReason(content="x", thread_id="old", seq=1, timestamp="2020-01-01T00:00:00.000+00:00")
        log.append([old])
    told = run_to_its_rest("Go.")
    with open_event_log(home) as log:
        assert log.since("old", 0) == []
        assert len(log.since(told[0]["thread_id"], 0)) == len(told)


def test_a_look_says_who_writes_and_leaves_the_lock_free(tmp_path: Path) -> None:
    thread_id = new_thread_id()
    assert writer_of(tmp_path, thread_id) == ""
    assert not list(tmp_path.glob("*.lock"))
    with hold_thread(tmp_path, thread_id, holder="somebody"):
        assert "somebody (pid" in writer_of(tmp_path, thread_id)
    assert writer_of(tmp_path, thread_id) == ""
    with hold_thread(tmp_path, thread_id, holder="the next"):
        pass


@pytest.mark.parametrize("on_loop", [True, False])
async def test_a_look_does_not_stand_in_the_way_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_loop: bool
) -> None:
    thread_id, tries = new_thread_id(), []

    async def look_ends(_: float) -> None:
        tries.append(1)
        looking.__exit__(None, None, None)

    monkeypatch.setattr(thread_lock.asyncio, "sleep", look_ends)
    looking = hold_thread(tmp_path, thread_id, holder="a look")
    looking.__enter__()
    async with hold_for_run(tmp_path, thread_id, holder="a run", on_loop=on_loop):
        assert "a run" in writer_of(tmp_path, thread_id)
    assert len(tries) == 1


@pytest.mark.parametrize("on_loop", [True, False])
async def test_a_thread_that_stays_taken_is_refused(tmp_path: Path, *, on_loop: bool) -> None:
    thread_id = new_thread_id()
    with (
        hold_thread(tmp_path, thread_id, holder="a run"),
        pytest.raises(ThreadBusyError, match=r"a run \(pid"),
    ):
        async with hold_for_run(tmp_path, thread_id, holder="another", on_loop=on_loop):
            pass
