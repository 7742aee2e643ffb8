"""The API: all routes below /api as one app, and the socket beside it."""

from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, WebSocketRoute

from lockstitch.studio.http import (
    agent,
    code_chat,
    contexts,
    moves,
    past,
    presets,
    processes,
    react_step,
    sessions,
    threads,
    workspaces,
)
from lockstitch.studio.http.problems import Problem, http_problem
from lockstitch.studio.http.socket import serve_socket

ABOUT: Final = """
A coding agent. Every request needs the server's token: `Authorization: Bearer ...`, or the cookie that the
page has. Every refusal has the body `Problem`. Runs outlive their clients; threads are the same at every
door. Live events come as server-sent events, or over the WebSocket at `/ws`.
"""
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": Problem, "description": "The request is not followed."},
    "5XX": {"model": Problem, "description": "The server failed."},
}
_ROUTERS: Final = (
    agent,
    react_step,
    code_chat,
    sessions,
    workspaces,
    contexts,
    presets,
    threads,
    past,
    moves,
    processes,
)


def build_api() -> FastAPI:
    """The app below /api. Its state needs a `desk` before it is asked anything."""
    # no page of docs: FastAPI's takes its scripts from a CDN
    api = FastAPI(
        title="Lockstitch", description=ABOUT, version="1", docs_url=None, redoc_url=None, responses=PROBLEMS
    )
    for module in _ROUTERS:
        api.include_router(module.router)
    api.add_exception_handler(HTTPException, http_problem)
    return api


def api_routes(api: FastAPI) -> list[BaseRoute]:
    """The routes as another app mounts them; each has an `app`, which the server of LangGraph wraps."""
    return [Mount("/api", app=api), WebSocketRoute("/ws", serve_socket)]
