"""Requests to one HTTP/1.1 server over connections of our own: one write, and the whole reply.

Five layers lie between httpx2's client and its socket, and they cost a ninth of the CPU of a step. Here
h11, which they end in, writes and reads for asyncio's own transport. A connection is made as the client's
pool would make it, with its certificates, socket options and limits of time. What else a pool may do, such as
proxies and HTTP/2, is not done here: `wires_of` gives None, and httpx2 is to be asked.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import h11
import httpx2

HEAD_BYTES_MAX: Final = 100 * 1024  # of a reply's head, as httpx2 has it
NEXT_FAMILY_S: Final = 0.25  # until a name's other addresses are tried, too (RFC 8305)
_log = logging.getLogger(__name__)
_OTHERWISE: Final = ("_proxy", "_http2", "_uds", "_local_address", "_retries")  # what makes a pool another


class Wire(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_open = False
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._reply: asyncio.Future[h11.Response] | None = None  # done once its body is whole, too
        self._head: h11.Response | None = None
        self._parts: list[bytes] = []
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
        self._reply, self._head, self._parts = self.loop.create_future(), None, []
        try:
            self._transport.write(self._written(request))
            head = await self._heard(self._reply, read_s)
            headers, body = list(head.headers), b"".join(self._parts)
            return httpx2.Response(head.status_code, headers=headers, content=body, request=request)
        except BaseException:  # also where the body is not compressed as its head says
            self._reply = None
            self.close()
            raise

    def rest(self, expiry_s: float | None) -> None:
        """Wait for the next request, at most `expiry_s` seconds."""
        self._reply, self._parts = None, []
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
        if self._reply is None or self._reply.done():  # nobody asked
            self.close()
        else:
            self._read(data)

    def eof_received(self) -> None:
        """See asyncio.Protocol; what has no length ends here."""
        self.is_open = False
        if self._reply is not None and not self._reply.done():
            self._read(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.is_open = False
        self._fail(httpx2.ReadError(str(exc)) if exc else _left())

    def _written(self, request: httpx2.Request) -> bytes:
        try:
            head = self._http.send(
                h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
            )
            body = self._http.send(h11.Data(data=request.content))
            end = self._http.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise httpx2.LocalProtocolError(str(error)) from error
        return b"".join(part for part in (head, body, end) if part)

    async def _heard(self, reply: asyncio.Future[h11.Response], read_s: float | None) -> h11.Response:
        """Wait for the end of the reply. A silence is measured when the limit is over, not at each piece."""
        self._heard_at = self.loop.time()
        while True:
            left_s = None if read_s is None else self._heard_at + read_s - self.loop.time()
            done, _ = await asyncio.wait([reply], timeout=left_s)
            if done:
                return reply.result()
            if read_s is not None and self.loop.time() - self._heard_at >= read_s:
                raise httpx2.ReadTimeout("nothing was heard in time")

    def _read(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._parts.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    return self._end()
                elif not isinstance(event, h11.InformationalResponse):
                    return self._fail(_left())
        except h11.RemoteProtocolError as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))

    def _end(self) -> None:
        """The reply is whole; the connection serves again where both sides are through."""
        assert self._reply is not None
        assert self._head is not None
        self._reply.set_result(self._head)
        through = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if through and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
        else:
            self.close()

    def _fail(self, error: httpx2.RequestError) -> None:
        self.is_open = False
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)


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
