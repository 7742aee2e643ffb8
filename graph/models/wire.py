"""Requests to one HTTP/1.1 server over connections of our own: one write, and the whole reply.

Five layers lie between httpx2's client and its socket, and they cost a ninth of the CPU of a step. Here what
comes over asyncio's own transport is read by one parser, see wire_reply.py. A connection is made as the
client's pool would make it, with its certificates, socket options and limits of time. What else a pool may
do, such as proxies and HTTP/2, is not done here: `wires_of` gives None, and httpx2 is to be asked.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import httpx2

from lockstitch.graph.models.wire_reply import Reply, left_early

NEXT_FAMILY_S: Final = 0.25  # until a name's other addresses are tried, too (RFC 8305)
_log = logging.getLogger(__name__)
_OTHERWISE: Final = ("_proxy", "_http2", "_uds", "_local_address", "_retries")  # what makes a pool another


class Wire(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_open = False
        self._reply: Reply | None = None
        self._heard_at = 0.0
        self._resting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def set_options(self, options: Any) -> None:
        """Set a socket's options, each of level, name and value."""
        try:
            for option in options or ():
                self._transport.get_extra_info("socket").setsockopt(*option)
        except OSError:
            self.close()
            raise

    async def ask(self, request: bytes, read_s: float | None) -> Reply:
        """Send the request; its whole reply. `read_s` is the longest silence, in seconds.

        Raises:
            httpx2.RequestError: there is no whole reply.
        """
        if self._resting:
            self._resting.cancel()
        reply = self._reply = Reply(self.loop)
        try:
            self._transport.write(request)
            await self._heard(reply.whole, read_s)
        except BaseException:
            self.close()
            raise
        finally:
            self._reply = None
        if not (self.is_open and reply.can_follow):
            self.close()
        return reply

    def rest(self, expiry_s: float | None) -> None:
        """Wait for the next request, at most `expiry_s` seconds."""
        if expiry_s is not None:
            self._resting = self.loop.call_later(expiry_s, self.close)

    def close(self) -> None:
        """Take no other request."""
        self.is_open = False
        if self._resting:
            self._resting.cancel()
        with suppress(RuntimeError):  # the loop has ended, and with it the connection
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._heard_at = self.loop.time()
        if self._reply is None:  # nobody asked
            self.close()
        else:
            self._reply.feed(data)

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        self.is_open = False
        if self._reply is not None:
            self._reply.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.is_open = False
        if self._reply is not None:
            self._reply.fail(httpx2.ReadError(str(exc)) if exc else left_early())

    async def _heard(self, whole: asyncio.Future[None], read_s: float | None) -> None:
        """Wait for the end of the reply. A silence is measured when the limit is over, not at each piece."""
        self._heard_at = self.loop.time()
        while True:
            left_s = None if read_s is None else self._heard_at + read_s - self.loop.time()
            done, _ = await asyncio.wait([whole], timeout=left_s)
            if done:
                return whole.result()
            if read_s is not None and self.loop.time() - self._heard_at >= read_s:
                raise httpx2.ReadTimeout("nothing was heard in time")


def head_of(request: httpx2.Request) -> bytes:
    """A request's head as it is sent, up to the length of its content, which `with_content` adds.

    Raises:
        httpx2.LocalProtocolError: a header would be more than one line.
    """
    headers = [header for header in request.headers.raw if header[0].lower() != b"content-length"]
    lines = [b"%b: %b\r\n" % header for header in headers]
    head = b"".join((request.method.encode(), b" ", request.url.raw_path, b" HTTP/1.1\r\n", *lines))
    if b"\0" in head or not head.count(b"\r") == head.count(b"\n") == len(lines) + 1:
        raise httpx2.LocalProtocolError("a header holds a line break or a NUL byte")
    return head


def with_content(head: bytes, content: bytes) -> bytes:
    """The whole request."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(content), content)


@dataclass
class Wires:
    """The connections to one server; as many as there are requests at once, and those that rest."""

    pool: dict[str, Any]  # the fields of the client's own, which say how a connection is made
    _resting: list[Wire] = field(default_factory=list)

    async def send(self, url: httpx2.URL, request: bytes, limits: Mapping[str, float | None]) -> Reply:
        """Send a whole request; its whole reply. Redirects are not followed.

        Args:
            url: whose server it goes to, and by which it is logged.
            request: as `with_content` gives it.
            limits: of time, in seconds, by httpx2's names.

        Raises:
            httpx2.RequestError: there was no whole reply.
        """
        wire = self._rested() or await self._connect(url, limits.get("connect"))
        reply = await wire.ask(request, limits.get("read"))
        # without its query, which may hold a key
        _log.info("HTTP Request: POST %s%s %d", url.host, url.path, reply.status)
        if wire.is_open:
            wire.rest(self.pool["_keepalive_expiry"])
            self._resting.append(wire)
        return reply

    def _rested(self) -> Wire | None:
        loop = asyncio.get_running_loop()
        while self._resting:
            wire = self._resting.pop()
            if wire.loop is not loop:
                with suppress(RuntimeError):  # that loop has ended
                    wire.loop.call_soon_threadsafe(wire.close)
            elif wire.is_open:
                return wire
        return None

    async def _connect(self, url: httpx2.URL, connect_s: float | None) -> Wire:
        tls = self.pool["_ssl_context"] if url.scheme == "https" else None
        if tls:
            tls.set_alpn_protocols(["http/1.1"])
        host, port = url.raw_host.decode("ascii"), url.port or (443 if tls else 80)
        connect = asyncio.get_running_loop().create_connection
        try:
            async with asyncio.timeout(connect_s):
                _, wire = await connect(Wire, host, port, ssl=tls, happy_eyeballs_delay=NEXT_FAMILY_S)
            wire.set_options(self.pool["_socket_options"])
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection was made in time") from error
        except OSError as error:  # of TLS, too
            raise httpx2.ConnectError(str(error)) from error
        return wire


# Connections live as long as the client in whose place they were made, and serve all that share it.
_of_clients: WeakKeyDictionary[httpx2.AsyncClient, dict[str, Wires | None]] = WeakKeyDictionary()


def wires_of(client: httpx2.AsyncClient, url: httpx2.URL) -> Wires | None:
    """The client's wires to the server of that URL; None where the client has more to do than they can."""
    known = _of_clients.setdefault(client, {})
    server = f"{url.scheme}://{url.userinfo.decode()}@{url.host}:{url.port}"
    if server not in known:
        known[server] = _wires(client, url)
    return known[server]


def _wires(client: httpx2.AsyncClient, url: httpx2.URL) -> Wires | None:
    if any(client.event_hooks.values()) or client.auth or url.userinfo:
        return None
    transport = client._transport_for_url(url)  # noqa: SLF001  proxies are transports of their own
    pool = vars(transport).get("_pool")
    fields = vars(pool) if pool is not None else {}
    known = {"_ssl_context", "_socket_options", "_keepalive_expiry", *_OTHERWISE} <= fields.keys()
    plain = type(transport) is httpx2.AsyncHTTPTransport and type(pool).__name__ == "AsyncConnectionPool"
    if not (known and plain) or any(fields[name] for name in _OTHERWISE):
        return None
    return Wires(fields) if fields["_ssl_context"] or url.scheme == "http" else None
