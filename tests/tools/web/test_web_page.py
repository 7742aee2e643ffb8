"""A fetched page comes from the pinned address, in the name of its host, with its certificate checked."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.certificates import make_certificate
from tests.web_server import WebServer, redirect, reply, zipped

from lockstitch.state.errors import RecoverableError, ToolExecutionError, ToolValidationError
from lockstitch.tools.web.web_address import is_named, read_web_address
from lockstitch.tools.web.web_page import WebPage, fetch_page

PATIENCE_S = 30


def names(**known: Sequence[str]) -> "Lookup":
    return Lookup({name.replace("_", "."): list(addresses) for name, addresses in known.items()})


class Lookup:
    def __init__(self, known: dict[str, list[str]]) -> None:
        self.known = known
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.known[host]


async def fetch(server: WebServer, path: str = "/", *, scheme: str = "http", **more: object) -> WebPage:
    """From `docs.test`, which the person named and which is on loopback."""
    return await fetch_page(
        f"{scheme}://docs.test:{server.port}{path}",
        timeout_s=PATIENCE_S,
        private_hosts=[f"docs.test:{server.port}"],
        lookup=names(docs_test=["127.0.0.1"]),
        **more,  # type: ignore[arg-type]
    )


async def test_the_request_goes_out_in_the_name_of_the_host() -> None:
    async with WebServer({"/a": reply("hello")}) as server:
        page = await fetch(server, "/a?b=c%20d&e=ü#part")
        assert page.body == b"hello"
        assert server.heads[0].startswith("GET /a?b=c%20d&e=%C3%BC HTTP/1.1\r\n")
        assert server.header("host") == f"docs.test:{server.port}"
        assert server.header("cookie") == ""
        assert server.header("authorization") == ""


async def test_no_proxy_and_no_password_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    await asyncio.to_thread(netrc.write_text, "machine docs.test login me password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with WebServer({"/": reply("hello")}) as server:
        assert (await fetch(server)).body == b"hello"
        assert server.header("authorization") == ""


async def test_cookies_are_not_kept_from_one_step_to_the_next() -> None:
    to_b = reply(b"", "302 Found", location="/b", set_cookie="a=b; Path=/")
    async with WebServer({"/a": to_b, "/b": reply("hello")}) as server:
        page = await fetch(server, "/a")
        assert (str(page.asked), page.address.target) == (f"http://docs.test:{server.port}/a", "/b")
        assert server.header("cookie") == ""


async def test_a_name_is_looked_up_once_a_step() -> None:
    async with WebServer({"/a": redirect("/b"), "/b": reply("hello")}) as server:
        lookup = names(docs_test=["127.0.0.1"])
        url = f"http://docs.test:{server.port}/a"
        await fetch_page(url, timeout_s=PATIENCE_S, private_hosts=[url[7:-2]], lookup=lookup)
        assert lookup.asked == ["docs.test", "docs.test"]


async def test_the_next_address_is_tried_when_one_takes_no_connection() -> None:
    async with WebServer({"/": reply("hello")}) as server:
        page = await fetch_page(
            f"http://docs.test:{server.port}/",
            timeout_s=PATIENCE_S,
            private_hosts=[f"docs.test:{server.port}"],
            lookup=names(docs_test=["127.0.0.2", "127.0.0.1"]),
        )
        assert page.body == b"hello"


async def test_a_closed_port_is_said() -> None:
    async with WebServer() as server:
        pass
    with pytest.raises(ToolExecutionError, match="does not answer, or this machine is offline"):
        await fetch(server)


async def test_gzip_is_read() -> None:
    async with WebServer({"/": zipped(b"hello")}) as server:
        assert (await fetch(server)).body == b"hello"


async def test_a_stop_passes_through() -> None:
    async def stop(writer: asyncio.StreamWriter) -> None:
        task.cancel()
        await writer.wait_closed()

    async with WebServer({"/": stop}) as server:
        task = asyncio.create_task(fetch(server))
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "docs.pem", "docs.test")


def serving(certificate: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    return tls


def trusting(certificate: Path) -> httpx2.AsyncHTTPTransport:
    return httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(cafile=str(certificate)))


async def test_tls_checks_the_name_and_not_the_pinned_address(certificate: Path) -> None:
    async with WebServer({"/": reply("hello")}, tls=serving(certificate)) as server:
        page = await fetch(server, scheme="https", transport=trusting(certificate))
        assert page.body == b"hello"


async def test_a_certificate_of_another_name_is_refused(certificate: Path) -> None:
    async with WebServer({"/": reply("hello")}, tls=serving(certificate)) as server:
        with pytest.raises(ToolExecutionError, match=r"other\.test has no valid certificate"):
            await fetch_page(
                f"https://other.test:{server.port}/",
                timeout_s=PATIENCE_S,
                private_hosts=[f"other.test:{server.port}"],
                lookup=names(other_test=["127.0.0.1"]),
                transport=trusting(certificate),
            )
        assert server.heads == []


async def test_a_certificate_that_nobody_trusts_is_refused(certificate: Path) -> None:
    async with WebServer({"/": reply("hello")}, tls=serving(certificate)) as server:
        with pytest.raises(ToolExecutionError, match="no valid certificate"):
            await fetch(server, scheme="https")


@given(st.text())
def test_whatever_is_given_as_an_address_is_read_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.org/{text}", f"http://example.org{text}"):
        try:
            address = read_web_address(url)
        except ToolValidationError:
            continue
        assert read_web_address(str(address)) == address
        assert str(address).isascii()
        assert httpx2.URL(str(address)).raw_host.decode() == address.host


@given(st.text(min_size=1))
def test_whatever_a_redirect_says_leads_to_an_address_or_is_refused(location: str) -> None:
    try:
        address = read_web_address("https://example.org/a/b?c").follow(location)
    except RecoverableError:
        return
    assert address.scheme in {"http", "https"}


@pytest.mark.parametrize(
    ("url", "hosts", "named"),
    [
        ("http://docs.lan/", ("docs.lan",), True), ("https://DOCS.lan/", ("Docs.LAN",), True),
        ("http://docs.lan:8000/", ("docs.lan",), False), ("http://docs.lan:8000/", ("docs.lan:8000",), True),
        ("http://docs.lan/", ("docs.lan:8000",), False), ("http://a.docs.lan/", ("docs.lan",), False),
        ("http://[::1]:8000/", ("[::1]:8000",), True), ("http://docs.lan/", (), False),
    ],
)  # fmt: skip
def test_a_host_is_named_on_its_usual_ports_or_with_its_port(
    url: str, hosts: tuple[str, ...], named: bool
) -> None:
    assert is_named(read_web_address(url), hosts) is named
