"""A web server on loopback that answers by path with the bytes it is given, and keeps what it was asked."""

import asyncio
import gzip
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

PATIENCE_S = 30.0  # for a client that does not go away
Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes | str = b"", status: str = "200 OK", /, **headers: str) -> bytes:
    """A whole HTTP reply; `content_type="text/html"` becomes Content-Type."""
    data = body.encode() if isinstance(body, str) else body
    given = {"content_type": "text/plain", "content_length": str(len(data)), "connection": "close"} | headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + data


def redirect(to: str, status: str = "302 Found") -> bytes:
    return reply(b"", status, location=to)


def zipped(text: bytes) -> bytes:
    return reply(gzip.compress(text), content_encoding="gzip")


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless(writer: asyncio.StreamWriter) -> None:
    """As fast as it goes, without an end and without a length."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65_536)
        await writer.drain()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Nothing, until the client has gone."""
    await writer.wait_closed()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    """Headers without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"X: y\r\n" * 10_000)
        await writer.drain()


@dataclass
class WebServer:
    """Serves while it is entered. `heads` are the requests' heads as they came, `bodies` what followed."""

    answers: dict[str, Answer] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def header(self, name: str, at: int = -1) -> str:
        """Of a request's head, in lower case; empty when it is not there."""
        lines = [line.partition(":") for line in self.heads[at].split("\r\n")[1:]]
        return next((value.strip() for key, _, value in lines if key.lower() == name), "")

    def paths(self) -> Sequence[str]:
        return [head.split(" ")[1] for head in self.heads]

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                length = int(self.header("content-length") or 0)
                self.bodies.append(await reader.readexactly(length))
                answer = self.answers.get(self.paths()[-1].partition("?")[0], reply("none", "404 Not Found"))
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
