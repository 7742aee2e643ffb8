"""The proxy for domains: who is let through, to which address, and that nothing of it is left."""

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.web_server import WebServer, reply

from lockstitch.state.errors import SystemFaultError, ToolValidationError
from lockstitch.tools.commands import domain_proxy
from lockstitch.tools.commands.domain_proxy import CONNECTIONS_MAX, REFUSED_MAX, Proxy, is_allowed, open_proxy
from lockstitch.tools.web.addresses import Address

ADDRESSES = {
    "example.org": ["93.184.216.34"], "api.example.org": ["93.184.216.35"],
    "local.example.org": ["127.0.0.1"], "mixed.example.org": ["93.184.216.34", "10.0.0.1"],
    "mapped.example.org": ["::ffff:127.0.0.1"],
}  # fmt: skip
NO_PROXY_REQUESTS = (
    "GET ftp://example.org/", "GET https://example.org/", "GET http:///x", "GET http://[::1/",
    "GET http://a:b@example.org/", "CONNECT a@example.org:443", "CONNECT example.org", "CONNECT :443",
    "CONNECT example.org:0", "CONNECT example.org:99999", "CONNECT example.org:4x3", "CONNECT 0x7f.1:443",
    "CONNECT ex\xe4mple.org:443", "CONNECT example.org:+443",
)  # fmt: skip
PATIENCE_S = 60.0


class Net:
    """Names from a table, and connections that all lead to one loopback server."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.asked: list[str] = []
        self.reached: list[str] = []

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in ADDRESSES:
            raise OSError(f"no address for {host}")
        return ADDRESSES[host]

    async def connect(self, address: Address, port: int) -> Any:
        self.reached.append(f"{address}:{port}")
        return await asyncio.open_connection("127.0.0.1", self.server.port)


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    async with WebServer({"/": reply("hello"), "/x": reply("x")}) as server:
        yield Net(server)


@asynccontextmanager
async def proxied(net: Net, folder: Path, *domains: str) -> AsyncIterator[Proxy]:
    async with open_proxy(
        domains or ("example.org", "*.example.org"), folder=folder, lookup=net.lookup, connect=net.connect
    ) as proxy:
        yield proxy


async def ask(proxy: Proxy, request: str | bytes) -> str:
    """All that comes back; the client ends its own side after the request."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_unix_connection(proxy.socket)
        writer.write(request.encode() if isinstance(request, str) else request)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer.decode()


GET = "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"


async def test_a_tunnel_to_an_allowed_domain_carries_both_ways(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        answer = await ask(proxy, f"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n{GET}")
    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert answer.endswith("hello")
    assert net.reached == ["93.184.216.34:443"]
    assert proxy.refused == {}


async def test_a_plain_request_goes_on_under_the_name_it_was_let_through_for(
    net: Net, tmp_path: Path
) -> None:
    request = (
        "POST http://api.example.org/x?a=1 HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic eA==\r\n"
        "Proxy-Connection: keep-alive\r\nContent-Length: 4\r\nAccept: */*\r\n\r\nbody"
    )
    async with proxied(net, tmp_path) as proxy:
        assert (await ask(proxy, request)).endswith("x")
    assert net.reached == ["93.184.216.35:80"]
    (head,) = net.server.heads
    assert head.startswith("POST /x?a=1 HTTP/1.1\r\nHost: api.example.org\r\n")
    assert head.count("ost:") == 1
    assert "roxy" not in head
    assert (net.server.header("accept"), net.server.header("connection")) == ("*/*", "close")
    assert net.server.bodies == [b"body"]


@pytest.mark.parametrize(
    ("request_line", "why"),
    [
        ("CONNECT evil.test:443 HTTP/1.1", "evil.test:443 was refused: it is not one of the allowed domains"),
        ("GET http://evil.test/ HTTP/1.1", "evil.test:80 was refused"),
        ("CONNECT notexample.org:443 HTTP/1.1", "notexample.org:443 was refused"),
        ("CONNECT example.org.evil.test:443 HTTP/1.1", "was refused: it is not one"),
        ("CONNECT 93.184.216.34:443 HTTP/1.1", "was refused: it is not one"),
        ("CONNECT 127.0.0.1:443 HTTP/1.1", "was refused: it is not one"),
        ("CONNECT [::1]:443 HTTP/1.1", "was refused: it is not one"),
        ("CONNECT example.org:22 HTTP/1.1", "example.org:22 was refused: only the ports 80, 443 are allowed"),
        ("GET http://example.org:8080/ HTTP/1.1", "only the ports"),
        ("CONNECT local.example.org:443 HTTP/1.1", "its address is private or special"),
        ("CONNECT mixed.example.org:443 HTTP/1.1", "its address is private or special"),
        ("GET http://mapped.example.org/ HTTP/1.1", "its address is private or special"),
    ],
)
async def test_what_is_not_allowed_is_refused_and_remembered(
    net: Net, tmp_path: Path, request_line: str, why: str
) -> None:
    async with proxied(net, tmp_path) as proxy:
        answer = await ask(proxy, f"{request_line}\r\nHost: example.org\r\n\r\n")
        assert answer.startswith("HTTP/1.1 403 Forbidden\r\n")
        body = answer.partition("\r\n\r\n")[2]
        assert why in body
        assert body.count("\n") == 1
        assert len(proxy.refused) == 1
    assert net.reached == []


async def test_a_refused_name_is_not_even_looked_up(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        await ask(proxy, "CONNECT key-of-the-person.evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert net.asked == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n", b"hello\r\n\r\n", b"GET http://exam", b"",
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        *(f"{line} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for line in NO_PROXY_REQUESTS),
        b"GET http://example.org/ HTTP/1.1\nHost: a\n\nGET http://evil.test/ HTTP/1.1\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nHost: a\r\nX: y\r\n z\x00\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)  # fmt: skip
async def test_what_is_no_request_for_a_proxy_is_answered_by_400(
    net: Net, tmp_path: Path, request_bytes: bytes
) -> None:
    async with proxied(net, tmp_path) as proxy:
        assert (await ask(proxy, request_bytes)).startswith("HTTP/1.1 400 Bad Request\r\n")
    assert net.reached == []


async def test_a_name_nobody_knows_is_answered_by_502(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        answer = await ask(proxy, "CONNECT absent.example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith("HTTP/1.1 502 Bad Gateway")
        assert proxy.refused == {}


async def test_a_host_that_does_not_answer_is_answered_by_502(net: Net, tmp_path: Path) -> None:
    async def nobody(address: Address, port: int) -> Any:
        raise ConnectionRefusedError

    async with open_proxy(["example.org"], folder=tmp_path, lookup=net.lookup, connect=nobody) as proxy:
        answer = await ask(proxy, "CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert "502 Bad Gateway" in answer
    assert "example.org:443 does not answer" in answer


async def test_the_socket_is_for_this_user_alone_and_goes_with_the_proxy(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        assert stat.S_IMODE(proxy.socket.parent.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


async def test_open_tunnels_end_with_the_proxy(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        reader, writer = await asyncio.open_unix_connection(proxy.socket)
        writer.write(b"CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    writer.close()


async def test_more_connections_than_fit_are_answered_by_503(
    net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain_proxy, "CONNECTIONS_MAX", 2)
    assert CONNECTIONS_MAX > 2
    async with proxied(net, tmp_path) as proxy:
        held = [await asyncio.open_unix_connection(proxy.socket) for _ in range(2)]
        assert (await ask(proxy, GET)).startswith("HTTP/1.1 503")
        for _, writer in held:
            writer.close()
            await writer.wait_closed()


async def test_refused_hosts_are_remembered_up_to_a_bound(net: Net, tmp_path: Path) -> None:
    async with proxied(net, tmp_path) as proxy:
        for number in range(REFUSED_MAX + 3):
            await ask(proxy, f"CONNECT evil{number}.test:443 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert len(proxy.refused) == REFUSED_MAX
    assert "evil0.test:443" in proxy.refused


@pytest.mark.parametrize(
    ("host", "domains", "allowed"),
    [
        ("example.org", ["example.org"], True), ("a.example.org", ["example.org"], False),
        ("a.example.org", ["*.example.org"], True), ("a.b.example.org", ["*.example.org"], True),
        ("example.org", ["*.example.org"], False), ("aexample.org", ["*.example.org"], False),
        (".example.org", ["*.example.org"], True), ("example.org", [], False),
    ],
)  # fmt: skip
def test_a_star_means_every_host_below(host: str, domains: list[str], allowed: bool) -> None:
    assert is_allowed(host, domains) is allowed


@pytest.mark.parametrize(
    "domain", ["", "*", "*.", "**.org", "a.*.org", "http://example.org", "example.org:443"]
)
async def test_a_domain_that_is_no_name_is_refused(tmp_path: Path, domain: str) -> None:
    with pytest.raises(ToolValidationError):
        async with open_proxy([domain], folder=tmp_path):
            pass


async def test_a_folder_that_cannot_hold_a_socket_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path / "absent", tmp_path / ("x" * 100)):
        if len(folder.name) > 50:
            folder.mkdir()
        with pytest.raises(SystemFaultError):
            async with open_proxy(["example.org"], folder=folder):
                pass


async def test_an_error_of_the_body_passes_as_it_is(net: Net, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with proxied(net, tmp_path):
            raise FileNotFoundError
