"""Clients that stop reading: they hold up no run and nobody else, and miss nothing once they read again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message
from tests.http_door import PATIENCE_S, Door, open_door

from lockstitch.state.threads import new_thread_id
from lockstitch.studio import follower
from lockstitch.studio.http import event_stream

STEPS = 8
CALL = "- {{say: Note., calls: [{{tool: write_file, args: {{path: n{n}, content: x}}}}], delay_s: {delay}}}\n"
TURNS = "".join(CALL.format(n=n, delay=0.1 if n == 1 else 0) for n in range(1, STEPS)) + "- say: Done.\n"


class SlowClient:
    """Takes one message of the server, and the next only when it `reads`."""

    def __init__(self, door: Door, scope: dict[str, Any], *said: Message) -> None:
        self.heard: list[Message] = []
        self.reads = asyncio.Event()
        self.stuck = asyncio.Event()
        self._said = list(said)
        path: str = scope["path"]
        whole = {"app": door.app, "query_string": b"", "headers": [], "raw_path": path.encode(), **scope}
        self.task = asyncio.create_task(door.app(whole, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._said:
            return self._said.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: Message) -> None:
        self.heard.append(message)
        self.stuck.set()
        await self.reads.wait()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def sse_client(door: Door, thread_id: str) -> SlowClient:
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/api/threads/{thread_id}/events",
        "headers": [(b"accept", b"text/event-stream")],
    }
    return SlowClient(door, scope, {"type": "http.request"})


def socket_client(door: Door, thread_id: str) -> SlowClient:
    follow = json.dumps({"type": "agent_follow", "thread_id": thread_id})
    said: list[Message] = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": follow}]
    return SlowClient(door, {"type": "websocket", "path": "/ws"}, *said)


def seqs(heard: list[Message]) -> list[int]:
    """The numbers in what a client got, in the order it got them."""
    text = "".join(message.get("text", "") + "\n" for message in heard)
    text += b"".join(message.get("body", b"") for message in heard).decode()
    found = [
        line.removeprefix("data: ") for line in text.splitlines() if '"seq": ' in line or '"seq":' in line
    ]
    bodies = [json.loads(line) for line in found if line.startswith("{")]
    return [body["seq"] for body in bodies if body["type"] != "agent_delta"]


@pytest.mark.parametrize("client", [sse_client, socket_client], ids=["SSE", "WebSocket"])
async def test_a_client_that_stops_reading_holds_up_no_run_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Any
) -> None:
    monkeypatch.setattr(follower, "ROOM", 5)
    thread_id = new_thread_id()
    async with open_door(tmp_path, TURNS) as door:
        running = asyncio.create_task(door.post("/api/agent", {"prompt": "Go.", "thread_id": thread_id}))
        await door.once(f"/api/threads/{thread_id}")
        slow = client(door, thread_id)
        async with asyncio.timeout(PATIENCE_S):
            await slow.stuck.wait()
            assert (await running).json()["data"]["steps"] == STEPS
            assert len(slow.heard) == 1
            kept = [event.seq for event in door.board.log.since(thread_id, 0)]
            slow.reads.set()
            while seqs(slow.heard)[-1:] != kept[-1:]:  # noqa: ASYNC110  seen from outside only
                await asyncio.sleep(0.01)
        assert seqs(slow.heard) == kept
        await slow.leave()


async def test_a_silent_stream_of_a_route_has_a_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(event_stream.with_heartbeats.__kwdefaults__, "every_s", 0.01)
    thread_id = new_thread_id()
    async with open_door(tmp_path, "- {say: Late., delay_s: 60}\n") as door:
        running = asyncio.create_task(door.post("/api/agent", {"prompt": "Go.", "thread_id": thread_id}))
        await door.running(thread_id)
        listening = sse_client(door, thread_id)
        listening.reads.set()
        beat = event_stream.HEARTBEAT.encode()
        async with asyncio.timeout(PATIENCE_S):
            while beat not in [message.get("body") for message in listening.heard]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await listening.leave()
        door.board.stop(thread_id)
        await running
