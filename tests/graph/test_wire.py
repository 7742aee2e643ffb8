"""Requests over connections of our own: what servers may do, what is told, and when httpx2 is asked."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from openai import APIConnectionError, AsyncOpenAI
from tests.certificates import make_certificate

from lockstitch.graph.models.build import ModelOptions, build_chat_model
from lockstitch.graph.models.choice import parse_model
from lockstitch.graph.models.lean_openai import LeanChatOpenAI
from lockstitch.graph.models.posting import Endpoint
from lockstitch.graph.models.wire import Wire, Wires, head_of, wires_of, with_content
from lockstitch.graph.models.wire_reply import HEAD_BYTES_MAX
from lockstitch.state.settings import Settings

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
PATIENCE_S = 60.0
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Server:
    def __init__(self, answer: Answer) -> None:
        self.connections = 0
        self.open = 0
        self.asked: list[bytes] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.asked.append(await reader.readexactly(length))
                await self._answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def all_gone(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.open:  # noqa: ASYNC110  sockets tell nobody
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, str]]:
    server = Server(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield server, f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1"
    finally:
        listener.close()
        await server.all_gone()


def says(*parts: bytes, end: bool = False) -> Answer:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if end:
            writer.close()

    return answer


@asynccontextmanager
async def wired(url: str, **options: object) -> AsyncIterator[Wires]:
    async with httpx2.AsyncClient(**options) as client:  # type: ignore[arg-type]
        wires = wires_of(client, httpx2.URL(url))
        assert wires is not None
        yield wires
        end(wires)


def end(wires: Wires) -> None:
    while wires._resting:
        wires._resting.pop().close()


def asks(url: str, *, read_s: float = PATIENCE_S) -> httpx2.Request:
    limits = httpx2.Timeout(PATIENCE_S, read=read_s).as_dict()
    return httpx2.Request("POST", url, content=b"body", extensions={"timeout": limits})


async def send(wires: Wires, request: httpx2.Request) -> httpx2.Response:
    whole = with_content(head_of(request), request.content)
    reply = await wires.send(request.url, whole, request.extensions["timeout"])
    return reply.response(request)


async def test_one_connection_serves_request_after_request() -> None:
    async with serving(says(HELLO)) as (server, url), wired(url) as wires:
        assert [(await send(wires, asks(url))).text for _ in range(3)] == ["hello"] * 3
        assert (server.connections, server.asked) == (1, [b"body"] * 3)


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with serving(says(HELLO)) as (server, url), wired(url) as wires:
        replies = await asyncio.gather(*(send(wires, asks(url)) for _ in range(3)))
        assert [reply.text for reply in replies] == ["hello"] * 3
        assert server.connections == 3


async def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    async with serving(says(HELLO, end=True)) as (server, url), wired(url) as wires:
        await send(wires, asks(url))
        await server.all_gone()
        await asyncio.sleep(0.01)
        assert (await send(wires, asks(url))).text == "hello"
        assert server.connections == 2


async def test_a_connection_rests_no_longer_than_the_clients_pool_lets_it() -> None:
    limits = httpx2.Limits(keepalive_expiry=0.02)
    async with serving(says(HELLO)) as (server, url), wired(url, limits=limits) as wires:
        await send(wires, asks(url))
        await server.all_gone()


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        ([HELLO[:10], HELLO[10:40], HELLO[40:]], False),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n"],
            False,
        ),
        ([b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhel", b"lo"], True),
        ([b"HTTP/1.0 200 OK\r\n\r\nhello"], True),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HELLO], False),
        ([HELLO + b"HTTP/1.1 500 Surplus\r\nX-Surplus: x\r\nContent-Length: 4\r\n\r\nmore"], False),
    ],
)
async def test_replies_are_read_however_they_come(parts: list[bytes], end: bool) -> None:
    async with serving(says(*parts, end=end)) as (_, url), wired(url) as wires:
        replies = [await send(wires, asks(url)) for _ in range(2)]
        assert [(reply.status_code, reply.text) for reply in replies] == [(200, "hello")] * 2
        assert not any("x-surplus" in reply.headers or "link" in reply.headers for reply in replies)


async def test_a_compressed_reply_is_unpacked() -> None:
    body = gzip.compress(b"hello")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    async with serving(says(head.encode() + body)) as (_, url), wired(url) as wires:
        assert (await send(wires, asks(url))).text == "hello"


async def test_a_body_that_is_not_what_its_head_says_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"
    async with serving(says(head + b"hello")) as (_, url), wired(url) as wires:
        with pytest.raises(httpx2.DecodingError):
            await send(wires, asks(url))
        client = AsyncOpenAI(base_url=url, api_key="k")
        with pytest.raises(APIConnectionError):
            await Endpoint(client, "/chat/completions").post(b"body", headers={}, params={})


async def test_headers_and_parameters_of_one_request_are_not_those_of_the_next() -> None:
    heads = list[bytes]()

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(HELLO)

    async with serving(answer) as (_, url), AsyncOpenAI(base_url=url, api_key="k") as client:
        endpoint = Endpoint(client, "/chat/completions")
        for headers, params in (({"X-A": "1"}, {}), ({"X-A": "1"}, {"q": "2"}), ({}, {}), ({"X-A": "3"}, {})):
            await endpoint.post(b"body", headers=headers, params=params)
    told = [(b"x-a: 1" in h.lower(), b"x-a: 3" in h.lower(), b"?q=2 " in h) for h in heads]
    assert told == [(True, False, False), (True, False, True), (False, False, False), (False, True, False)]


async def test_a_connection_of_another_loop_is_ended_by_that_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(says(HELLO)) as (_, url), wired(url) as wires:
        await send(wires, asks(url))
        (ours,) = wires._resting
        loops = list[asyncio.AbstractEventLoop]()
        monkeypatch.setattr(ours, "close", lambda: loops.append(asyncio.get_running_loop()))
        await asyncio.to_thread(lambda: asyncio.run(_ask_once(wires, url)))
        await asyncio.sleep(0.01)
        assert loops == [asyncio.get_running_loop()]
        Wire.close(ours)


async def _ask_once(wires: Wires, url: str) -> None:
    assert (await send(wires, asks(url))).text == "hello"
    end(wires)


@pytest.mark.parametrize(
    "part",
    [
        b"",
        HELLO[:-1],
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 101 Other\r\n\r\n",
        b"HTTP/1.1 101 Other\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES_MAX + b"\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
async def test_what_is_no_whole_reply_is_an_error(part: bytes) -> None:
    async with serving(says(part, end=True)) as (_, url), wired(url) as wires:
        with pytest.raises(httpx2.RequestError):
            await send(wires, asks(url))


async def test_a_long_silence_is_a_timeout_and_the_connection_is_not_used_again() -> None:
    async with serving(says(HELLO[:-1])) as (server, url), wired(url) as wires:
        with pytest.raises(httpx2.ReadTimeout):
            await send(wires, asks(url, read_s=0.02))
        await server.all_gone()


async def test_a_reply_may_take_longer_than_a_silence_may() -> None:
    async def slowly(_: bytes, writer: asyncio.StreamWriter) -> None:
        for at in range(len(HELLO)):
            writer.write(HELLO[at : at + 1])
            await asyncio.sleep(0.01)

    async with serving(slowly) as (_, url), wired(url) as wires:
        began = asyncio.get_running_loop().time()
        assert (await send(wires, asks(url, read_s=0.3))).text == "hello"
        assert asyncio.get_running_loop().time() - began > 0.3


async def test_a_stop_ends_the_connection() -> None:
    async with serving(says(HELLO[:-1])) as (server, url), wired(url) as wires:
        asking = asyncio.create_task(send(wires, asks(url)))
        async with asyncio.timeout(PATIENCE_S):
            while not server.asked:  # noqa: ASYNC110  the other side of a socket
                await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.all_gone()


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX-Other: b", "a\rb", "a\0b"])
async def test_a_header_that_cannot_be_sent_is_an_error_of_the_request(value: str) -> None:
    async with serving(says(HELLO)) as (_, url), wired(url) as wires:
        request = asks(url)
        request.headers["X-Own"] = value
        with pytest.raises(httpx2.LocalProtocolError):
            await send(wires, request)


async def test_nobody_there_is_an_error_of_connecting() -> None:
    async with serving(says(HELLO)) as (_, url):
        pass
    async with wired(url) as wires:
        with pytest.raises(httpx2.ConnectError):
            await send(wires, asks(url))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "model.pem", "127.0.0.1")


async def test_tls_is_the_clients_and_a_certificate_it_does_not_trust_is_refused(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with serving(says(HELLO), tls) as (server, url):
        async with wired(url, verify=trusting) as wires:
            assert [(await send(wires, asks(url))).text for _ in range(2)] == ["hello"] * 2
            assert server.connections == 1
        async with wired(url) as wires:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await send(wires, asks(url))


async def test_a_redirect_is_followed_by_httpx2() -> None:
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: /v2/here\r\nContent-Length: 0\r\n\r\n"
        writer.write(moved if b"/v1/chat" in head else HELLO)

    async with serving(answer) as (server, url), AsyncOpenAI(base_url=url, api_key="k") as client:
        endpoint = Endpoint(client, "/chat/completions")
        wires = wires_of(client._client, client.base_url)
        assert wires is not None
        assert await endpoint.post(b"body", headers={}, params={}) == "hello"
        assert server.asked == [b"body"] * 3  # by us, by httpx2, and where that was sent on to
        end(wires)
        assert await endpoint.post(b"body", headers={}, params={}) == "hello"
        assert server.asked == [b"body"] * 5  # no more by us


async def test_the_models_own_client_takes_this_way(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, openai_base_url="http://127.0.0.1:9/v1")
    model = build_chat_model(parse_model("openai:m"), ModelOptions(), settings)
    assert isinstance(model, LeanChatOpenAI)
    client = model.root_async_client
    wires = wires_of(client._client, client.base_url)
    assert wires is not None
    assert wires.pool["_keepalive_expiry"] == 5.0
    assert wires.pool["_socket_options"]


@pytest.mark.parametrize(
    "options",
    [
        {"proxy": "http://127.0.0.1:9"},
        {"http2": False, "transport": httpx2.MockTransport(lambda _: httpx2.Response(200))},
        {"transport": httpx2.AsyncHTTPTransport(uds="/nowhere", verify=False)},
        {"transport": httpx2.AsyncHTTPTransport(retries=1, verify=False)},
        {"event_hooks": {"request": [print]}, "verify": False},
        {"auth": ("a", "b"), "verify": False},
    ],
    ids=["proxy", "transport", "socket file", "retries", "hooks", "auth"],
)
async def test_a_client_with_more_to_do_is_asked_itself(options: dict[str, object]) -> None:
    async with httpx2.AsyncClient(**options) as client:  # type: ignore[arg-type]
        assert wires_of(client, httpx2.URL("http://127.0.0.1:9/v1")) is None


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "near.test")
    async with httpx2.AsyncClient(verify=False) as client:
        assert wires_of(client, httpx2.URL("http://far.test/v1")) is None
        assert wires_of(client, httpx2.URL("http://near.test/v1")) is not None
