"""A proxy on a unix socket through which a sandboxed command reaches the named domains, and nothing else.

It reads no encrypted byte: inside a tunnel to an allowed host it sees neither paths nor names.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lockstitch.state.errors import (
    RecoverableError,
    SystemFaultError,
    ToolExecutionError,
    ToolValidationError,
)
from lockstitch.tools.commands.proxy_request import HEAD_BYTES, ProxyRequest, read_request
from lockstitch.tools.web.addresses import USUAL_PORTS, Address, Lookup, read_host, resolve, system_lookup

SOCKET_NAME: Final = "proxy.sock"
PATH_BYTES: Final = 100  # of the socket's path; the kernels take 104 to 108
CONNECTIONS_MAX: Final = 64  # at once; package managers use about 20
HEAD_S: Final = 10.0  # in which the head must have come: the client is on this machine
CONNECT_S: Final = 10.0  # for one address
LINGER_S: Final = 1.0  # in which a client should have read why it was refused
PIECE_BYTES: Final = 64 * 1024  # read at once in either direction
REFUSED_MAX: Final = 20  # hosts that are remembered; more are said by nobody
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
PHRASES: Final = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Address, int], Awaitable[Streams]]


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs.

    Attributes:
        socket: its unix socket, in a folder that only this user can enter.
        refused: `host:port` asked for in vain, each with the reason; the first `REFUSED_MAX`.
    """

    socket: Path
    refused: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def open_proxy(
    domains: Sequence[str],
    *,
    folder: Path,
    ports: Sequence[int] = USUAL_PORTS,
    lookup: Lookup = system_lookup,
    connect: Connect | None = None,
) -> AsyncIterator[Proxy]:
    """A proxy for `CONNECT host:port` and `GET http://host/...`; it ends with all its connections.

    Args:
        domains: `example.org` is that host alone, `*.example.org` every host below it.
        folder: where a private folder for the socket is made, and deleted afterwards.
        ports: that may be reached.
        lookup: finds the addresses of a name; private ones are never reached.
        connect: opens a connection to an address; over TCP if None.

    Raises:
        ToolValidationError: a domain is no name.
        SystemFaultError: the socket cannot be made.
    """
    allowed = read_domains(domains)
    private = await asyncio.to_thread(_private_folder, folder)
    try:
        proxy = Proxy(Path(private.name) / SOCKET_NAME)
        gate = _Gate(allowed, tuple(ports), proxy.refused, lookup, connect or _connect)
        async with _listening(gate, proxy.socket):
            yield proxy
    finally:
        await asyncio.to_thread(private.cleanup)


def read_domains(domains: Sequence[str]) -> tuple[str, ...]:
    """The domains in their one spelling.

    Raises:
        ToolValidationError: one is no name.
    """
    stars = ["*." if domain.startswith("*.") else "" for domain in domains]
    return tuple(star + read_host(name.removeprefix("*.")) for star, name in zip(stars, domains, strict=True))


def is_allowed(host: str, domains: Sequence[str]) -> bool:
    """Whether a host is one of the domains, or lies below one that is written with `*.`."""
    return any(host.endswith(name[1:]) if name.startswith("*.") else host == name for name in domains)


def _private_folder(folder: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        private = tempfile.TemporaryDirectory(prefix="proxy-", dir=folder)  # its mode is 0700
    except OSError as error:
        raise SystemFaultError(f"the proxy for domains has no place: {error.strerror}.") from error
    if len(f"{private.name}/{SOCKET_NAME}".encode()) > PATH_BYTES:
        private.cleanup()
        raise SystemFaultError("the path of the home folder is too long for the proxy's socket: shorten it.")
    return private


@asynccontextmanager
async def _listening(gate: "_Gate", socket: Path) -> AsyncIterator[None]:
    tasks: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_serve(gate, (reader, writer), is_full=len(tasks) >= CONNECTIONS_MAX))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.close())  # also when it is cancelled before it began

    try:
        server = await asyncio.start_unix_server(take, socket, limit=HEAD_BYTES)
    except OSError as error:
        raise SystemFaultError(f"the proxy for domains cannot listen: {error.strerror}.") from error
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


class _RefusedError(Exception):
    """The answer to a request that is not served."""

    def __init__(self, status: int, words: str) -> None:
        self.answer = (
            f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(words.encode()) + 1}\r\nConnection: close\r\n\r\n{words}\n"
        ).encode()


@dataclass(frozen=True)
class _Gate:
    """Decides what may be reached, and opens it."""

    domains: tuple[str, ...]
    ports: tuple[int, ...]
    refused: dict[str, str]
    lookup: Lookup
    connect: Connect

    async def open(self, request: ProxyRequest) -> Streams:
        """A connection to what is asked for.

        Raises:
            _RefusedError: it is not allowed, or nobody answers there.
        """
        if not is_allowed(request.host, self.domains):
            names = ", ".join(self.domains) or "none"
            raise self._refuse(request, f"it is not one of the allowed domains ({names})")
        if request.port not in self.ports:
            raise self._refuse(request, f"only the ports {', '.join(map(str, self.ports))} are allowed")
        try:
            addresses = await resolve(request.host, request.port, lookup=self.lookup)
        except ToolValidationError as error:
            raise self._refuse(request, "its address is private or special") from error
        except ToolExecutionError as error:
            raise _RefusedError(502, f"lockstitch: {error.message}") from error
        return await self._connect_to_first(addresses, request)

    def _refuse(self, request: ProxyRequest, why: str) -> _RefusedError:
        place = f"{request.host}:{request.port}"
        if len(self.refused) < REFUSED_MAX:
            self.refused[place] = why
        return _RefusedError(403, f"lockstitch: {place} was refused: {why}.")

    async def _connect_to_first(self, addresses: Sequence[Address], request: ProxyRequest) -> Streams:
        for address in addresses:
            with contextlib.suppress(OSError):  # TimeoutError is one
                async with asyncio.timeout(CONNECT_S):
                    return await self.connect(address, request.port)
        raise _RefusedError(502, f"lockstitch: {request.host}:{request.port} does not answer.")


async def _connect(address: Address, port: int) -> Streams:
    return await asyncio.open_connection(str(address), port)


async def _serve(gate: _Gate, client: Streams, *, is_full: bool) -> None:
    reader, writer = client
    with contextlib.suppress(OSError):  # the client went away
        try:
            request = await _read(reader, is_full=is_full)
            await _relay(client, await gate.open(request), request)
        except _RefusedError as refused:
            writer.write(refused.answer)
            writer.write_eof()
            await _read_out(reader)
        finally:
            await _close(writer)


async def _read(reader: asyncio.StreamReader, *, is_full: bool) -> ProxyRequest:
    if is_full:
        raise _RefusedError(503, f"lockstitch: over {CONNECTIONS_MAX} connections at once.")
    try:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        return read_request(head)
    except RecoverableError as error:
        raise _RefusedError(400, f"lockstitch: {error.message}") from error
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise _RefusedError(400, "lockstitch: the request's head did not come, or is too long.") from error


async def _read_out(reader: asyncio.StreamReader) -> None:
    """Wait for the client's end: closing before it would throw away the answer that it has not read."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await reader.read(PIECE_BYTES):
                pass


async def _relay(client: Streams, upstream: Streams, request: ProxyRequest) -> None:
    """Carry bytes both ways until both sides have ended."""
    try:
        if request.head:
            upstream[1].write(request.head)
        else:
            client[1].write(ESTABLISHED)
        async with asyncio.TaskGroup() as group:
            group.create_task(_carry(client[0], upstream[1]))
            group.create_task(_carry(upstream[0], client[1]))
    finally:
        await _close(upstream[1])


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # one side went away: its end is told to the other
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
