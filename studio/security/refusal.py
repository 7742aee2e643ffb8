"""Why a request is not let in, and how it is told: as JSON, as a page, or as a refused handshake."""

import json
from typing import Any, Final

from starlette.types import Message, Send

Headers = list[tuple[bytes, bytes]]  # as ASGI has them: names in lower case

TOO_BIG_CLOSE: Final = 1009  # RFC 6455: a message too big to process
FAULT_CLOSE: Final = 1011  # RFC 6455: the server met something unexpected
REFUSED_CLOSE: Final = 1008  # RFC 6455: a message that violates policy
_CLOSE_CODES: Final = {413: TOO_BIG_CLOSE, 500: FAULT_CLOSE}
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Lockstitch</title></head><body><h1>Lockstitch</h1><p>{}</p></body></html>
"""


class TurnedAwayError(Exception):
    """A request that goes no further; the message is for whoever sent it."""

    def __init__(self, status: int, code: str, message: str, *, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or []


def as_json(refused: TurnedAwayError) -> bytes:
    """The body of a refusal, in the shape of every other problem of the HTTP door."""
    problem = {
        "success": False,
        "message": refused.message,
        "data": None,
        "error": refused.code,
        "fields": [],
    }
    return json.dumps(problem).encode()


def as_page(refused: TurnedAwayError) -> bytes:
    """The same for a person; the message is ours and holds nothing of the request."""
    return _PAGE.format(refused.message).encode()


async def refuse_request(send: Send, refused: TurnedAwayError, *, page: bool = False) -> None:
    """Answer an HTTP request of which nothing was answered yet."""
    body = as_page(refused) if page else as_json(refused)
    kind = b"text/html; charset=utf-8" if page else b"application/json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *refused.headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def refuse_handshake(send: Send, refused: TurnedAwayError, extensions: dict[str, Any]) -> None:
    """Answer a WebSocket handshake with the status, where the server can; else it says 403."""
    if "websocket.http.response" not in extensions:
        await send({"type": "websocket.close", "code": REFUSED_CLOSE})
        return
    body = as_json(refused)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    start: Message = {"type": "websocket.http.response.start", "status": refused.status}
    await send({**start, "headers": headers + refused.headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def close_socket(send: Send, refused: TurnedAwayError) -> None:
    """End a WebSocket that was open."""
    code = _CLOSE_CODES.get(refused.status, REFUSED_CLOSE)
    await send({"type": "websocket.close", "code": code, "reason": refused.code})
