"""Requests to one HTTP/1.1 server over connections of our own: one write, and the whole reply.

Five layers lie between httpx2's client and its socket, and they cost a ninth of the CPU of a step. Here
httptools, the parser of Node.js and of uvicorn, reads what comes over asyncio's own transport. A connection
is made as the client's pool would make it, with its certificates, socket options and limits of time. What
else a pool may do, such as proxies and HTTP/2, is not done here: `wires_of` gives None, and httpx2 is to be
asked.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import httpx2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_BYTES_MAX: Final = 100 * 1024  # of a reply's head, as httpx2 has it
NEXT_FAMILY_S: Final = 0.25  # until a name's other addresses are tried, too (RFC 8305)
_log = logging.getLogger(__name__)
_CODING: Final = b"transfer-encoding"
_OTHERWISE: Final = ("_proxy", "_http2", "_uds", "_local_address", "_retries")  # what makes a pool another


class Reply:
    """One reply, while it comes. The names that begin with `on_` are those that httptools calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.whole: asyncio.Future[None] = loop.create_future()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.can_follow = False  # another one on the same connection
        self._head_bytes = 0  # of the head, as far as it has come
        self._has_head = False
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Read what came."""
        self._head_bytes += 0 if self._has_head else len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.can_follow = False
            self.fail(httpx2.RemoteProtocolError(str(error)))
        if not self._has_head and self._head_bytes > HEAD_BYTES_MAX:
            self.fail(_long())

    def end(self) -> None:
        """The server is through: the end of a reply that tells no length."""
        told = {name.lower(): value.lower() for name, value in self.headers}
        if self._has_head and b"content-length" not in told and b"chunked" not in told.get(_CODING, b""):
            self._settle()
        else:
            self.fail(_left())

    def fail(self, error: httpx2.RequestError) -> None:
        """There will be no whole reply; nothing where it is there."""
        if not self.whole.done():
            self.whole.set_exception(error)

    def on_message_begin(self) -> None:
        """The first byte.

        Raises:
            HttpParserError: of what comes behind the reply, and was not asked for; nothing of it is read.
        """
        self.can_follow = False
        if self.whole.done():
            raise HttpParserError("more than one reply came")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there: the reply's, or one that only announces it."""
        self.status = self._parser.get_status_code()
        self._has_head = self.status >= httpx2.codes.OK
        if self.status == httpx2.codes.SWITCHING_PROTOCOLS:
            self.fail(_left())
        if sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            self.fail(_long())

    def on_body(self, part: bytes) -> None:
        """A piece of the body, without the marks of chunks."""
        self.parts.append(part)

    def on_message_complete(self) -> None:
        """The end of the reply, or of an announcement."""
        if self._has_head:
            self.can_follow = self._parser.should_keep_alive()
            self._settle()
        else:
            self.headers.clear()

    def _settle(self) -> None:
        if not self.whole.done():
            self.whole.set_result(None)


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

    async def ask(self, request: httpx2.Request, read_s: float | None) -> httpx2.Response:
        """Send the request; its whole reply. `read_s` is the longest silence, in seconds.

        Raises:
            httpx2.RequestError: there is no whole reply.
        """
        if self._resting:
            self._resting.cancel()
        reply = self._reply = Reply(self.loop)
        try:
            self._transport.write(written(request))
            await self._heard(reply.whole, read_s)
            self.is_open = self.is_open and reply.can_follow
            body = b"".join(reply.parts)
            return httpx2.Response(reply.status, headers=reply.headers, content=body, request=request)
        except BaseException:  # also where the body is not compressed as its head says
            self.close()
            raise
        finally:
            self._reply = None
            if not self.is_open:
                self.close()

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
            self._reply.fail(httpx2.ReadError(str(exc)) if exc else _left())

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


def written(request: httpx2.Request) -> bytes:
    """A request as it is sent.

    Raises:
        httpx2.LocalProtocolError: a header would be more than one line.
    """
    lines = [b"%b: %b\r\n" % header for header in request.headers.raw]
    head = b"".join((request.method.encode(), b" ", request.url.raw_path, b" HTTP/1.1\r\n", *lines, b"\r\n"))
    if b"\0" in head or not head.count(b"\r") == head.count(b"\n") == len(lines) + 2:
        raise httpx2.LocalProtocolError("a header holds a line break or a NUL byte")
    return head + request.content


@dataclass
class Wires:
    """The connections to one server; as many as there are requests at once, and those that rest."""

    pool: dict[str, Any]  # the fields of the client's own, which say how a connection is made
    _resting: list[Wire] = field(default_factory=list)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose content is at hand; its reply, which is read. Redirects are not followed.

        Raises:
            httpx2.RequestError: there was no whole reply.
        """
        limits = request.extensions.get("timeout", {})
        wire = self._rested() or await self._connect(request.url, limits.get("connect"))
        reply = await wire.ask(request, limits.get("read"))
        url = request.url  # without its query, which may hold a key
        _log.info("HTTP Request: %s %s%s %d", request.method, url.host, url.path, reply.status_code)
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


def _left() -> httpx2.RemoteProtocolError:
    return httpx2.RemoteProtocolError("the server closed the connection before its reply was whole")


def _long() -> httpx2.RemoteProtocolError:
    return httpx2.RemoteProtocolError("the head of the server's reply is too long")
