"""The guard before an ASGI app: nothing reaches it that may not come in, and no key leaves by it."""

import logging
import os
import traceback
from collections.abc import Collection
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from lockstitch.state.home import prepare_home
from lockstitch.state.mask import Mask, find_secrets
from lockstitch.state.settings import Settings
from lockstitch.studio.security.addresses import STUDIO_ORIGIN
from lockstitch.studio.security.door import Door, Proof, cookie_name
from lockstitch.studio.security.exchange import Exchange
from lockstitch.studio.security.login import LOGIN_PATH, STUDIO_PATH, Codes, cookie_of, studio_key
from lockstitch.studio.security.mask import mask_logs
from lockstitch.studio.security.rate import Rate
from lockstitch.studio.security.refusal import TurnedAwayError
from lockstitch.studio.security.token import read_or_make_token

BODY_MAX: Final = 1_000_000  # bytes: a prompt with its context is a tenth of it
# The path under which LangGraph's client calls the server it runs in. It stands in no request: a server
# that listens has its own there, which is empty.
FROM_WITHIN: Final = "/noauth"
COOKIE_S: Final = 30 * 86_400  # a month, after which a browser needs a new link
_LOGGED_IN: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">
<title>Lockstitch</title></head><body><p><a href="/">Lockstitch</a></p></body></html>
"""  # not a redirect: the browser would send a strict cookie only to what our own page leads to
_LINK_USED: Final = "This link was used, or is too old. `lockstitch serve --link` makes another one."
_UNTRUE: Final = "ASGI callable returned without completing handshake."  # uvicorn 0.54, of each refusal
_log = logging.getLogger(__name__)


def guarded(
    app: ASGIApp,
    *,
    token: str,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    body_max: int = BODY_MAX,
    secrets: Collection[str] = (),
    rate: Rate | None = None,
) -> ASGIApp:
    """The app behind the guard; also fit for `app.add_middleware(guarded, token=...)`.

    Args:
        app: what is guarded.
        token: what a client must prove to have.
        hosts: names the server may be reached by besides those of this machine; see `is_host_allowed`.
        origins: pages allowed besides our own.
        body_max: bytes of a body or of one WebSocket message.
        secrets: what must not leave in an answer, besides the token.
        rate: how many requests a client may make.
    """
    wait_s = (rate or Rate()).wait_s
    door = Door(token, hosts=hosts, origins=origins, body_max=body_max, wait_s=wait_s)
    return Guard(app, door, token=token, mask=Mask({*secrets, token}), body_max=body_max)


def secure(
    app: Starlette,
    settings: Settings,
    *,
    hosts: Collection[str] = (),
    origins: Collection[str] = (STUDIO_ORIGIN,),
) -> str:
    """Put the guard outermost before all routes of the app, and mask the log; the token.

    `langgraph dev` takes over the middleware of the app it mounts, so its own routes come behind it too.
    Only there Studio finds what it needs; elsewhere `origins` are none.

    Raises:
        HomeUnusableError: the home folder or the token in it cannot be used.
    """
    token = read_or_make_token(prepare_home(settings.home).path)
    secrets = find_secrets(settings, os.environ)
    mask_logs(Mask({*secrets, token}))
    logging.getLogger("uvicorn.error").addFilter(_is_true)
    app.add_middleware(guarded, token=token, hosts=hosts, origins=origins, secrets=secrets)
    return token


class Guard:
    """See `guarded`."""

    def __init__(self, app: ASGIApp, door: Door, *, token: str, mask: Mask, body_max: int) -> None:
        self._app = app
        self._door = door
        self._token = token
        self._codes = Codes(token)
        self._mask = mask
        self._body_max = body_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] not in {"http", "websocket"} or _is_from_within(scope):
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        exchange = Exchange(scope, receive, send, mask=self._mask, body_max=self._body_max)
        try:
            if not await self._log_in(request, exchange):
                await self._pass(request, exchange, self._door.admit(request))
        except TurnedAwayError as refused:
            refused.headers += self._door.cors(request)
            await exchange.refuse(refused, page=_wants_page(request))

    async def _pass(self, request: HTTPConnection, exchange: Exchange, proof: Proof) -> None:
        scope = self._as_bearer(request.scope, proof)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except (ClientDisconnect, WebSocketDisconnect):
            return  # nobody is left to be answered
        except Exception as error:  # noqa: BLE001  the process's boundary: its text may hold anything
            if exchange.refused:
                return  # what the app met when its client was gone
            where = "".join(traceback.format_tb(error.__traceback__))
            _log.error("%s %s failed: %s\n%s", scope["type"], scope["path"], type(error).__name__, where)
            raise TurnedAwayError(
                500, "fault", "Something unforeseen went wrong; the log says where."
            ) from None

    async def _log_in(self, request: HTTPConnection, exchange: Exchange) -> bool:
        """Answer a login link; False where the request is none."""
        if request["type"] != "http" or (request["method"], request["path"]) != ("GET", LOGIN_PATH):
            return False
        self._door.check_way(request)
        if not self._codes.take(request.query_params.get("once", "")):
            raise TurnedAwayError(401, "link_used", _LINK_USED)
        secure = "; Secure" if request.url.scheme == "https" else ""
        cookie = f"{cookie_name(request)}={cookie_of(self._token)}; Path=/; Max-Age={COOKIE_S}"
        cookie += f"; HttpOnly; SameSite=Strict{secure}"
        headers = [(b"content-type", b"text/html; charset=utf-8"), (b"set-cookie", cookie.encode())]
        await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
        await exchange.send({"type": "http.response.body", "body": _LOGGED_IN})
        return True

    def _as_bearer(self, scope: Scope, proof: Proof) -> Scope:
        """The request as one that brought the token itself: the app need know no other way."""
        if proof in {"token", "none"}:
            return scope
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        scope = {**scope, "headers": [*headers, (b"authorization", f"Bearer {self._token}".encode())]}
        if proof == "studio":
            before = len(f"{STUDIO_PATH}{studio_key(self._token)}")
            scope["path"] = scope["path"][before:] or "/"
            scope["raw_path"] = scope["path"].encode()
        return scope


def _is_true(record: logging.LogRecord) -> bool:
    return record.msg != _UNTRUE


def _is_from_within(scope: Scope) -> bool:
    root: str = scope.get("root_path", "")
    return root == FROM_WITHIN or root.startswith(f"{FROM_WITHIN}/")


def _wants_page(request: HTTPConnection) -> bool:
    return request["type"] == "http" and request.headers.get("sec-fetch-dest") == "document"
