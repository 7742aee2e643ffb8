"""Fetches one web page: every address checked and pinned, redirects followed by hand, all of it bounded.

No proxy of the environment is used, since a proxy would look the name up again.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError, ToolValidationError
from lockstitch.tools.web.addresses import Address, Lookup, resolve, system_lookup
from lockstitch.tools.web.web_address import PUBLIC_PORTS, WebAddress, is_named, read_web_address
from lockstitch.tools.web.web_body import ACCEPTED, read_body

if TYPE_CHECKING:
    import httpx2

REDIRECTS_MAX: Final = 5  # browsers follow 20; a page that needs more is no page to read
TRIED_MAX: Final = 4  # addresses of one name; the system puts the best first
CONNECT_S: Final = 10.0  # for one address, within the limit of the whole
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
HEADERS: Final = {
    "Accept": "text/html, application/xhtml+xml, text/plain, application/json;q=0.9, */*;q=0.5",
    "Accept-Encoding": ACCEPTED,
    "User-Agent": "lockstitch (a coding agent; reads one page for a person)",
    "Connection": "close",
}


@dataclass(frozen=True)
class WebPage:
    """A page as it came. `content_type` is the whole header in lower case, `asked` where the way began."""

    address: WebAddress
    asked: WebAddress
    content_type: str
    body: bytes

    @property
    def kind(self) -> str:
        """What it is, such as `text/html`; empty where the server does not say."""
        return self.content_type.partition(";")[0].strip()


async def fetch_page(
    url: str,
    *,
    timeout_s: float,
    private_hosts: Sequence[str] = (),
    lookup: Lookup = system_lookup,
    transport: "httpx2.AsyncBaseTransport | None" = None,
) -> WebPage:
    """The page at `url`, after at most `REDIRECTS_MAX` redirects, each checked like the first address.

    Args:
        url: of http or https.
        timeout_s: for all of it.
        private_hosts: hosts that a person named, as `name` or `name:port`: these may be private.
        lookup: finds the addresses of a name; asked once a host and step.
        transport: sends a request to the address that stands in its URL.

    Raises:
        ToolValidationError: the address, or one it leads to, is not for this program to reach.
        ToolExecutionError: the server does not answer with a page.
        ResourceLimitError: it is too long, too slow, or leads too far.
    """
    address = asked = read_web_address(url)
    way = _Way(tuple(private_hosts), lookup)
    try:
        async with asyncio.timeout(timeout_s), _open(transport) as sender:
            for _ in range(REDIRECTS_MAX + 1):
                answer = await _ask(sender, address, await way.check(address))
                try:
                    if answer.status_code not in REDIRECTS:
                        return await _page(answer, address, asked)
                    address = address.follow(answer.headers.get("location", ""))
                finally:
                    await answer.aclose()
    except TimeoutError as error:
        raise ResourceLimitError(
            f"{address.host} took over {timeout_s:g} s and was given up. Try another source."
        ) from error
    raise ResourceLimitError(f"{asked.host} leads on more than {REDIRECTS_MAX} times: try another source.")


@dataclass(frozen=True)
class _Way:
    """Which addresses may be gone to."""

    private_hosts: tuple[str, ...]
    lookup: Lookup

    async def check(self, address: WebAddress) -> list[Address]:
        own = is_named(address, self.private_hosts)
        if not own and address.port not in PUBLIC_PORTS:
            ports = ", ".join(map(str, PUBLIC_PORTS))
            raise ToolValidationError(
                f"port {address.port} of {address.host} is not fetched, only {ports}. A person can name it"
                " in LOCKSTITCH_FETCH_PRIVATE_HOSTS."
            )
        return await resolve(address.host, address.port, lookup=self.lookup, own=own)


@asynccontextmanager
async def _open(
    transport: "httpx2.AsyncBaseTransport | None",
) -> AsyncIterator["httpx2.AsyncBaseTransport"]:
    """A transport and no client: that would keep cookies, follow redirects and read the environment."""
    sender = await asyncio.to_thread(_build_transport) if transport is None else transport
    try:
        yield sender
    finally:
        await sender.aclose()


def _build_transport() -> "httpx2.AsyncBaseTransport":
    """Loads the library and the system's certificates, about 0.1 s: for a worker thread."""
    import httpx2

    return httpx2.AsyncHTTPTransport()


async def _ask(
    sender: "httpx2.AsyncBaseTransport", address: WebAddress, pinned: Sequence[Address]
) -> "httpx2.Response":
    """The answer of the first address that takes a connection; its body is not read yet."""
    import httpx2

    for place in pinned[:TRIED_MAX]:
        try:
            return await sender.handle_async_request(_request(address, place))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            fault = error
        except httpx2.TransportError as error:
            raise _no_answer(address) from error
    if "CERTIFICATE" in str(fault).upper():
        raise ToolExecutionError(f"{address.host} has no valid certificate: it is not read.") from fault
    raise _no_answer(address) from fault


def _request(address: WebAddress, place: Address) -> "httpx2.Request":
    """To the pinned address, in the name of the host: in the Host header, and in TLS with its check."""
    import httpx2

    url = httpx2.URL(
        scheme=address.scheme, host=str(place), port=address.port, raw_path=address.target.encode("ascii")
    )
    timeouts = httpx2.Timeout(None, connect=CONNECT_S).as_dict()  # the limit of the whole stands around it
    extensions = {"sni_hostname": address.host, "timeout": timeouts}
    return httpx2.Request("GET", url, headers={"Host": address.authority, **HEADERS}, extensions=extensions)


async def _page(answer: "httpx2.Response", address: WebAddress, asked: WebAddress) -> WebPage:
    import httpx2

    if not answer.is_success:
        raise ToolExecutionError(
            f"{address.host} answered {_status(answer.status_code)}. Check the URL, or try another source."
        )
    try:
        body = await read_body(cast("AsyncIterator[bytes]", answer.aiter_raw()), answer.headers)
    except httpx2.TransportError as error:
        raise ToolExecutionError(f"{address.host} broke off. Try again, or another source.") from error
    return WebPage(address, asked, answer.headers.get("content-type", "").lower(), body)


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _no_answer(address: WebAddress) -> ToolExecutionError:
    return ToolExecutionError(
        f"{address.host}:{address.port} does not answer, or this machine is offline. Try another source, or"
        " work without it."
    )
