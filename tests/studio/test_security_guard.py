"""Who gets through the guard to an app, and what the app's answers look like behind it."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Scope
from starlette.websockets import WebSocket

from lockstitch.state.settings import load_settings
from lockstitch.studio.security.addresses import STUDIO_ORIGIN
from lockstitch.studio.security.guard import guarded, secure
from lockstitch.studio.security.headers import CONTENT_POLICY
from lockstitch.studio.security.login import cookie_of, make_link, make_studio_url
from lockstitch.studio.security.rate import Rate
from lockstitch.studio.security.token import token_file

TOKEN = "t" * 43
KEY = "canary/7Q+zP4mW=k3y"
HERE = "http://127.0.0.1:8765"
BODY_MAX = 1000
BEARER = {"authorization": f"Bearer {TOKEN}"}
COOKIE = {"cookie": f"lockstitch-8765={cookie_of(TOKEN)}"}
PAGE = {**COOKIE, "origin": HERE, "sec-fetch-site": "same-origin"}
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse(
        {"size": len(body), "path": request.url.path, "sent": request.headers.get("authorization")}
    )


async def leak(request: Request) -> Response:
    return JSONResponse({"__error__": {"message": f"refused: {KEY}"}})


async def leak_in_pieces(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield f"data: {KEY[:5]}".encode()
        yield f"{KEY[5:]}\n\n".encode()

    return StreamingResponse(pieces(), media_type="text/event-stream")


async def fail(request: Request) -> Response:
    raise RuntimeError(f"refused: {KEY}")


async def fail_late(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise RuntimeError(KEY)

    return StreamingResponse(pieces())


class Stubborn:
    """Answers, and then fails, although its client is gone."""

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await PlainTextResponse("too late")(scope, receive, send)
        raise RuntimeError("too late")


async def cached(request: Request) -> Response:
    headers = {"cache-control": "max-age=60", "content-security-policy": "default-src *"}
    return PlainTextResponse("x", headers=headers)


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    while True:
        await socket.send_json({"said": await socket.receive_text(), "key": KEY})


@pytest.fixture
def app() -> Starlette:
    routes = [
        Route("/ok", echo),
        Route("/leak", leak),
        Route("/pieces", leak_in_pieces),
        Route("/fail", fail),
        Route("/fail-late", fail_late),
        Route("/cached", cached),
        Route("/stubborn", Stubborn(), methods=METHODS),
        WebSocketRoute("/ws", talk),
        Route("/{rest:path}", echo, methods=METHODS),
    ]
    app = Starlette(routes=routes)
    options: dict[str, Any] = {"token": TOKEN, "origins": [STUDIO_ORIGIN], "secrets": {KEY}}
    app.add_middleware(guarded, **options, body_max=BODY_MAX, rate=Rate(per_second=0.001, burst=50))
    app.middleware_stack = app.build_middleware_stack()  # now: a guard takes no link that is older than it
    return app


Ask = Callable[..., httpx.Response]


def make_ask(app: ASGIApp) -> Ask:
    def ask(method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    return ask


@pytest.fixture
def ask(app: Starlette) -> Ask:
    return make_ask(app)


async def carry(
    app: ASGIApp, method: str, path: str, headers: dict[str, str], received: list[Message]
) -> list[Message]:
    """What the server is handed for one request, message by message; after `received` the client stays."""
    sent: list[Message] = []
    waiting = list(received)

    async def receive() -> Message:
        return waiting.pop(0) if waiting else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    names = {"host": "127.0.0.1:8765", **headers}
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
        "query_string": b"",
        "server": ("127.0.0.1", 8765),
        "client": None,
        "scheme": "http",
    }
    await app(scope, receive, send)
    return sent


async def shake_hands(
    app: ASGIApp, headers: dict[str, str], *said: str, extensions: dict[str, Any] | None = None
) -> list[Message]:
    """What a WebSocket client is sent that shakes hands, says all and leaves."""
    received: list[Message] = [{"type": "websocket.connect"}]
    received += [{"type": "websocket.receive", "text": text} for text in said]
    received.append({"type": "websocket.disconnect", "code": 1000})
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    names = {"host": "127.0.0.1:8765", **headers}
    scope: Scope = {
        "type": "websocket",
        "path": "/ws",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
        "query_string": b"",
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 5),
        "scheme": "ws",
        "subprotocols": [],
        "extensions": extensions if extensions is not None else {"websocket.http.response": {}},
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/", "/api/agent", "/threads", "/docs", "/openapi.json", "/login", "//ok"])
def test_nothing_is_answered_without_the_token(ask: Ask, method: str, path: str) -> None:
    refused = ask(method, path, json={} if method != "GET" else None)
    assert refused.status_code == 401
    assert refused.json()["success"] is False
    assert refused.headers["content-security-policy"] == CONTENT_POLICY


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": TOKEN},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"lockstitch-8765={TOKEN}"},
        {"cookie": f"lockstitch-9999={cookie_of(TOKEN)}"},
        {"cookie": "lockstitch-8765="},
        {"x-auth-scheme": "langsmith"},
        {"x-api-key": TOKEN},
    ],
)
def test_what_is_nearly_the_token_is_refused(ask: Ask, headers: dict[str, str]) -> None:
    assert ask("GET", "/threads", headers=headers).status_code == 401


def test_token_lets_in_by_header_and_by_cookie(ask: Ask) -> None:
    assert ask("POST", "/threads", headers=BEARER, json={}).status_code == 200
    assert ask("POST", "/threads", headers=PAGE, json={}).status_code == 200
    assert ask("GET", "/", headers=COOKIE).status_code == 200


def test_app_sees_the_token_however_it_was_proved(ask: Ask) -> None:
    sent = ask("GET", "/threads", headers={**PAGE, "authorization": "Bearer other"}).json()["sent"]
    assert sent == "Bearer " + "*" * len(TOKEN)  # and the mask hides it from the answer


def test_health_is_open_but_not_to_other_pages_and_names(ask: Ask) -> None:
    assert ask("GET", "/ok").status_code == 200
    assert ask("POST", "/ok").status_code == 401
    assert ask("GET", "/ok", headers={"host": "evil.example"}).status_code == 403
    assert ask("GET", "/ok", headers={"origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1:9999", "0.0.0.0:8765"])
def test_name_of_another_is_refused_with_the_token_too(ask: Ask, host: str) -> None:
    assert ask("GET", "/", headers={**BEARER, "host": host}).json()["error"] == "host_not_allowed"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3000"])
@pytest.mark.parametrize("method", METHODS)
def test_page_of_another_is_refused_with_the_token_too(ask: Ask, method: str, origin: str) -> None:
    refused = ask(method, "/threads", headers={**PAGE, **BEARER, "origin": origin})
    assert refused.json()["error"] == "origin_not_allowed"
    assert "access-control-allow-origin" not in refused.headers


def test_header_that_comes_twice_is_refused(ask: Ask) -> None:
    twice = [("origin", HERE), ("origin", STUDIO_ORIGIN), *BEARER.items()]
    assert ask("GET", "/", headers=twice).json()["error"] == "header_twice"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", COOKIE),  # no browser leaves the origin out
        ("DELETE", COOKIE),
        ("POST", {**PAGE, "sec-fetch-site": "same-site"}),
        ("GET", {**COOKIE, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}),
        ("GET", {**COOKIE, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}),
    ],
)
def test_cookie_is_believed_from_our_own_page_alone(ask: Ask, method: str, headers: dict[str, str]) -> None:
    assert ask(method, "/threads", headers=headers).json()["error"] == "not_own_page"


def test_link_on_another_page_leads_to_ours(ask: Ask) -> None:
    headers = {**COOKIE, "sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}
    assert ask("GET", "/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_only_json_is_taken(ask: Ask, kind: str) -> None:
    headers = {**BEARER, "content-type": kind}
    assert ask("POST", "/threads", headers=headers, content=b"{}").status_code == 415
    assert ask("POST", "/threads", headers=headers).status_code == 200  # there is nothing to mistake
    headers["content-type"] = "application/json; charset=utf-8"
    assert ask("POST", "/threads", headers=headers, content=b"{}").status_code == 200


def in_pieces(size: int) -> AsyncIterator[bytes]:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(0, size, 100):
            yield b"x" * 100

    return pieces()


@pytest.mark.parametrize("size", [BODY_MAX, BODY_MAX + 100])
def test_body_beyond_the_limit_is_refused_whether_or_not_its_length_was_said(ask: Ask, size: int) -> None:
    headers = {**BEARER, "content-type": "application/json"}
    expected = 200 if size <= BODY_MAX else 413
    assert ask("POST", "/threads", headers=headers, content=b"x" * size).status_code == expected
    assert ask("POST", "/threads", headers=headers, content=in_pieces(size)).status_code == expected


def test_body_that_is_said_to_be_too_large_is_not_even_read(ask: Ask) -> None:
    assert ask("GET", "/cached", headers={**BEARER, "content-length": f"{BODY_MAX + 1}"}).status_code == 413


async def test_app_that_goes_on_after_a_refusal_is_heard_by_nobody(
    app: Starlette, caplog: pytest.LogCaptureFixture
) -> None:
    chunk = {"type": "http.request", "body": b"x" * BODY_MAX, "more_body": True}
    headers = {**BEARER, "content-type": "application/json"}
    sent = await carry(app, "POST", "/stubborn", headers, [chunk, chunk, chunk])
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 413
    assert caplog.text == ""


def test_client_that_asks_too_often_is_told_when_to_come_again(ask: Ask) -> None:
    answers = [ask("GET", "/ok") for _ in range(60)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 9
    assert all(900 < int(answer.headers["retry-after"]) <= 1001 for answer in refused)


def test_login_link_gives_one_browser_its_cookie(ask: Ask) -> None:
    link = make_link(HERE, TOKEN, now=time.time())
    page = ask("GET", link)
    (cookie,) = SimpleCookie(page.headers["set-cookie"]).values()
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["domain"]) == (
        True,
        "Strict",
        "/",
        "",
    )
    assert 'http-equiv="refresh"' in page.text
    assert TOKEN not in page.headers["set-cookie"]
    assert ask("GET", "/", headers={"cookie": f"{cookie.key}={cookie.value}"}).status_code == 200
    again = ask("GET", link, headers={"sec-fetch-dest": "document"})
    assert again.status_code == 401
    assert "was used" in again.text
    assert "set-cookie" not in again.headers


def test_login_link_does_not_work_from_another_page_or_name(ask: Ask) -> None:
    link = make_link(HERE, TOKEN, now=time.time())
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example:8765"}):
        assert ask("GET", link, headers=headers).status_code == 403
    assert ask("HEAD", link).status_code == 401  # what looks ahead does not use it up
    assert ask("GET", link).status_code == 200


def test_browser_without_a_cookie_is_told_in_a_page_how_to_come_in(ask: Ask) -> None:
    page = ask("GET", "/", headers={"sec-fetch-dest": "document"})
    assert page.status_code == 401
    assert page.headers["content-type"].startswith("text/html")
    assert "lockstitch serve --link" in page.text


def test_studio_comes_in_by_its_address_from_its_own_page(ask: Ask) -> None:
    base = make_studio_url(HERE, TOKEN)
    answer = ask("POST", f"{base}/threads", headers={"origin": STUDIO_ORIGIN}, json={})
    assert answer.json() == {"size": 2, "path": "/threads", "sent": "Bearer " + "*" * len(TOKEN)}
    assert ask("POST", f"{base}/threads", headers={"origin": HERE}, json={}).status_code == 401
    assert ask("POST", f"{base}/threads", json={}).status_code == 401
    assert ask("POST", f"{base}x/threads", headers={"origin": STUDIO_ORIGIN}, json={}).status_code == 401


def test_studio_may_read_why_it_was_refused(ask: Ask) -> None:
    refused = ask("GET", "/threads", headers={"origin": STUDIO_ORIGIN, "x-auth-scheme": "langsmith"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == STUDIO_ORIGIN


def test_keys_are_masked_in_answers_and_streams(ask: Ask) -> None:
    answer = ask("GET", "/leak", headers=BEARER)
    assert answer.json()["__error__"]["message"] == "refused: " + "*" * len(KEY)
    stream = ask("GET", "/pieces", headers=BEARER)
    assert stream.text == "data: " + "*" * len(KEY) + "\n\n"


def test_fault_of_the_app_tells_nothing_to_the_client_and_where_to_the_log(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = ask("GET", "/fail", headers=BEARER)
    assert (answer.status_code, answer.json()["error"]) == (500, "fault")
    assert KEY not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text
    assert "in fail" in caplog.text


async def test_fault_in_the_middle_of_an_answer_cuts_it_off(app: Starlette) -> None:
    sent = await carry(app, "GET", "/fail-late", BEARER, [])
    assert [message.get("more_body") for message in sent] == [None, True]


def test_answers_carry_our_headers_and_leave_caching_to_the_app(ask: Ask) -> None:
    answer = ask("GET", "/cached", headers=BEARER)
    assert answer.headers.get_list("content-security-policy") == [CONTENT_POLICY]
    assert answer.headers["cache-control"] == "max-age=60"
    assert ask("GET", "/", headers=BEARER).headers["cache-control"] == "no-store"


async def test_handshake_needs_the_same_proofs_as_a_request(app: Starlette) -> None:
    async def status(**headers: str) -> int:
        first = (await shake_hands(app, {name.replace("_", "-"): text for name, text in headers.items()}))[0]
        return 101 if first["type"] == "websocket.accept" else first["status"]

    assert await status(**BEARER) == 101
    assert await status(cookie=COOKIE["cookie"], origin=HERE) == 101
    assert await status() == 401
    assert await status(cookie=COOKIE["cookie"]) == 403
    assert await status(cookie=COOKIE["cookie"], origin="http://evil.example") == 403
    assert await status(**BEARER, origin="http://evil.example") == 403
    assert await status(**BEARER, host="evil.example:8765") == 403


async def test_server_that_cannot_say_why_refuses_a_handshake_all_the_same(app: Starlette) -> None:
    assert [message["type"] for message in await shake_hands(app, {}, extensions={})] == ["websocket.close"]


async def test_socket_masks_keys_and_closes_on_a_message_too_large(app: Starlette) -> None:
    sent = await shake_hands(app, BEARER, "hello", "x" * (BODY_MAX + 1), "never heard")
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert json.loads(sent[1]["text"]) == {"said": "hello", "key": "*" * len(KEY)}
    assert sent[2]["code"] == 1009


async def test_client_that_leaves_is_no_fault(app: Starlette, caplog: pytest.LogCaptureFixture) -> None:
    sent = await shake_hands(app, BEARER, "hello")
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.send"]
    half = {"type": "http.request", "body": b"{", "more_body": True}
    headers = {**BEARER, "content-type": "application/json"}
    assert await carry(app, "POST", "/threads", headers, [half, {"type": "http.disconnect"}]) == []
    assert caplog.text == ""


async def test_calls_of_the_server_itself_need_no_proof(app: Starlette) -> None:
    transport = httpx.ASGITransport(app, root_path="/noauth")
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        assert (await client.post("/noauth/threads", json={})).status_code == 200
    transport = httpx.ASGITransport(app, root_path="/noauthority")
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        assert (await client.post("/threads", json={})).status_code == 403


@settings(max_examples=200)
@given(
    method=st.sampled_from([*METHODS, "HEAD", "OPTIONS"]),
    headers=st.dictionaries(
        st.sampled_from(["host", "origin", "authorization", "cookie", "x-auth-scheme", "sec-fetch-site"]),
        st.sampled_from(
            ["127.0.0.1:8765", HERE, STUDIO_ORIGIN, "Bearer x", "null", "lockstitch-8765=x", "é", ";;"]
        ),
    ),
)
def test_no_mixture_of_headers_lets_in_without_the_token(method: str, headers: dict[str, str]) -> None:
    reached: list[Scope] = []

    async def inner(scope: Scope, receive: Any, send: Any) -> None:
        reached.append(scope)
        await PlainTextResponse("in")(scope, receive, send)

    app = guarded(inner, token=TOKEN, origins=[STUDIO_ORIGIN])
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    answer = make_ask(app)(method, "/threads", headers=raw)
    preflight = method == "OPTIONS" and headers.get("origin") == STUDIO_ORIGIN
    assert answer.status_code < 500
    assert bool(reached) == (preflight and headers.get("host", "127.0.0.1:8765") == "127.0.0.1:8765")


def test_secured_app_makes_the_token_of_its_home_and_asks_for_it(app: Starlette) -> None:
    app = Starlette(routes=[Route("/", echo)])
    settings_of_test = load_settings()
    token = secure(app, settings_of_test)
    assert token_file(settings_of_test.home).read_text().strip() == token
    ask = make_ask(app)
    assert ask("GET", "/").status_code == 401
    assert ask("GET", "/", headers={"authorization": f"Bearer {token}"}).status_code == 200
