"""One request's way through: a limit on what comes in, headers and a mask on what goes out, one refusal."""

from typing import Any

from starlette.types import Message, Receive, Scope, Send

from lockstitch.state.mask import Mask
from lockstitch.studio.security.door import too_large
from lockstitch.studio.security.headers import secured
from lockstitch.studio.security.mask import MaskedStream
from lockstitch.studio.security.refusal import TurnedAwayError, close_socket, refuse_handshake, refuse_request


class Exchange:
    """What the app is given in the place of `receive` and `send`."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, mask: Mask, body_max: int) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._mask = mask
        self._stream = MaskedStream(mask)
        self._body_max = body_max
        self._size = 0
        self._started = False
        self.refused = False

    async def receive(self) -> Message:
        """The next message. After one too large the client is answered, and gone for the app."""
        if self.refused:
            return self._gone()
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
        elif message["type"] == "websocket.receive":
            self._size = len(message.get("bytes") or (message.get("text") or "").encode())
        if self._size > self._body_max:
            await self.refuse(too_large(self._body_max))
            return self._gone()
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on; nothing more after a refusal."""
        if not self.refused:
            await self._send(self._passed(message))

    async def refuse(self, refused: TurnedAwayError, *, page: bool = False) -> None:
        """Answer in the app's place, as far as nothing was answered yet."""
        if self._scope["type"] == "http":
            if not self._started:
                await refuse_request(self.send, refused, page=page)
        elif self._started:
            await close_socket(self.send, refused)
        else:
            await refuse_handshake(self.send, refused, self._scope.get("extensions") or {})
        self.refused = True

    def _passed(self, message: Message) -> Message:
        kind = message["type"]
        if kind in {"http.response.start", "websocket.http.response.start"}:
            self._started = True
            return {**message, "headers": secured(list(message.get("headers", [])))}
        if kind == "http.response.body":
            more = message.get("more_body", False)
            return {**message, "body": self._stream.feed(message.get("body", b""), more=more)}
        if kind == "websocket.accept":
            self._started = True
        if kind == "websocket.send":
            return {**message, **self._masked(message)}
        return message

    def _masked(self, message: Message) -> dict[str, Any]:
        text, data = message.get("text"), message.get("bytes")
        return (
            {"text": self._mask.text(text)} if text is not None else {"bytes": self._mask.data(data or b"")}
        )

    def _gone(self) -> Message:
        if self._scope["type"] == "http":
            return {"type": "http.disconnect"}
        return {"type": "websocket.disconnect", "code": 1009, "reason": ""}
