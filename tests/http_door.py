"""The HTTP door without a server: the real app on a real board, asked in the loop of the test."""

import asyncio
import json
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from lockstitch.graph.models.source import ModelSource
from lockstitch.state.settings import load_settings
from lockstitch.studio.app import build_app
from lockstitch.studio.board import Board, open_board
from lockstitch.studio.http.desk import Desk
from lockstitch.tools.commands.sandbox import NO_SANDBOX

PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it


@dataclass
class Door:
    """A client before the app; `workspace` is the one folder where runs may work."""

    app: Starlette
    board: Board
    client: httpx.AsyncClient
    workspace: Path

    @property
    def desk(self) -> Desk:
        desk: Desk = self.app.state.desk
        return desk

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        content = json.dumps(body)  # not httpx's own, which refuses half a character
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        return await self.client.post(path, content=content, headers=headers, **options)

    async def once(self, path: str) -> httpx.Response:
        """The reply, as soon as what is asked for is there."""
        async with asyncio.timeout(PATIENCE_S):
            while (reply := await self.get(path)).status_code == 404:  # noqa: ASYNC110  seen from outside only
                await asyncio.sleep(0.01)
        return reply

    async def running(self, thread_id: str) -> None:
        """Wait until the thread's run goes on, and has told its first step."""
        async with asyncio.timeout(PATIENCE_S):
            while self.board.log.last_seq(thread_id) < 2:  # noqa: ASYNC110  seen from outside only
                await asyncio.sleep(0.01)

    async def waiting(self) -> dict[str, Any]:
        """What the first thread that waits for a person asks, once one does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for row in (await self.get("/api/threads")).json()["threads"]:
                    found = (await self.get(f"/api/threads/{row['thread_id']}")).json()
                    if found["waiting_for"] and not found["running"]:
                        return {"thread_id": row["thread_id"], **found["waiting_for"]}
                await asyncio.sleep(0.01)


class Socket:
    """A WebSocket client; what the server sends is read in order."""

    def __init__(self, app: Starlette) -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"", "app": app}
        self._sent.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(app(scope, self._sent.get, self._heard.put))

    def send(self, **message: Any) -> None:
        self.send_text(json.dumps(message))

    def send_text(self, text: str) -> None:
        self._sent.put_nowait({"type": "websocket.receive", "text": text})

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            message = await self._heard.get()
            if message["type"] == "websocket.accept":
                message = await self._heard.get()
        body: dict[str, Any] = json.loads(message["text"])
        return body

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """All messages up to the first of that type or update_type."""
        heard = [await self.hear()]
        while kind not in (heard[-1]["type"], heard[-1].get("update_type")):
            heard.append(await self.hear())
        return heard

    async def leave(self) -> None:
        self._sent.put_nowait({"type": "websocket.disconnect", "code": 1001})
        async with asyncio.timeout(PATIENCE_S):
            await self.task


@asynccontextmanager
async def open_door(
    tmp_path: Path, turns: str, *, models: ModelSource | None = None, **settings: Any
) -> AsyncIterator[Door]:
    """A door whose model replays the turns of a scenario, or is the one of `models`."""
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("name: test\nturns:\n" + textwrap.indent(textwrap.dedent(turns), "  "))
    chosen = {"home": tmp_path / "home", "workspace": workspace, "model": f"scripted:{scenario}"} | settings
    loaded = load_settings(**chosen)
    async with open_board(loaded, holder="test", on_loop=True) as board:
        object.__setattr__(board.service.parts, "find_sandbox", lambda: NO_SANDBOX)
        if models is not None:
            object.__setattr__(board.service.parts, "models", models)
        app = build_app(board, loaded)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Door(app, board, client, workspace)


def sse_messages(text: str) -> list[dict[str, Any]]:
    """The messages of a stream: data, with `id` and `event` where they were given."""
    messages = []
    for block in text.split("\n\n"):
        lines = [line.partition(": ") for line in block.splitlines() if line and not line.startswith(":")]
        if lines:
            fields = {name: value for name, _, value in lines}
            messages.append(fields | {"data": json.loads(fields["data"])})
    return messages
