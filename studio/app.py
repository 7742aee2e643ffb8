"""The ASGI app: the API below /api, the socket at /ws, the page at /. Served alone, or by `langgraph dev`.

The server of LangGraph keeps its list of threads in memory and writes it every ten seconds, while ours are
on disk from the first step: under it the app gives it back its threads, after a crash too.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette

from lockstitch.graph.keyless import DemoProject
from lockstitch.graph.parts import current_folder
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.threads import ThreadIndex
from lockstitch.studio.board import Board, open_board
from lockstitch.studio.http.api import api_routes, build_api
from lockstitch.studio.http.desk import Desk
from lockstitch.studio.page import page_routes
from lockstitch.studio.security.guard import secure
from lockstitch.studio.security.login import describe_links

GRAPH_ID: Final = "agent"  # its name in langgraph.json; a thread without one looks empty to the server
THREADS_GIVEN_BACK: Final = 1000  # the newest; older ones come back when a client names them


def build_app(board: Board, settings: Settings, demo: DemoProject | None = None) -> Starlette:
    """The app on a board that is open; `demo` where no model is configured. It has no guard yet."""
    app = _build()
    _open(app, board, settings, demo)
    return app


def __getattr__(name: str) -> Starlette:
    """`app`, as langgraph.json names it: built when the server asks for it, and not by an import."""
    if name == "app":
        return _build_for_langgraph()
    raise AttributeError(name)


def _build_for_langgraph() -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        from lockstitch.graph.app import demo, settings  # what the graph runs with

        async with open_board(settings, holder="langgraph dev", on_loop=False) as board:
            await _give_threads_back(board.service.threads)
            await asyncio.to_thread(_open, app, board, settings, demo)
            _tell_links(token)
            yield

    app = _build(lifespan)
    token = secure(app, load_settings())
    return app


def _tell_links(token: str) -> None:
    """Print how to open page and Studio; the server names its address to what it runs."""
    if url := os.environ.get("LANGGRAPH_API_URL"):
        print(describe_links(url, token, now=time.time(), studio=True), file=sys.stderr)


def _build(lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None) -> Starlette:
    api = build_api()
    app = Starlette(routes=[*api_routes(api), *page_routes()], lifespan=lifespan)
    api.state = app.state  # one desk for both
    return app


def _open(app: Starlette, board: Board, settings: Settings, demo: DemoProject | None) -> None:
    app.state.desk = Desk(board, settings, allowed_roots(settings), demo)


def allowed_roots(settings: Settings) -> list[Path]:
    """The folders below which clients may choose a workspace, without links."""
    return [root.resolve() for root in settings.allowed_roots or [settings.workspace or current_folder()]]


async def _give_threads_back(threads: ThreadIndex) -> None:
    """Create a row in the server for every thread that is on disk."""
    from langgraph_sdk import get_client

    client = get_client()
    for row in await asyncio.to_thread(threads.recent, THREADS_GIVEN_BACK):
        await client.threads.create(
            thread_id=row.thread_id,
            graph_id=GRAPH_ID,
            if_exists="do_nothing",
            metadata={"title": row.title, "workspace": row.workspace},
        )
