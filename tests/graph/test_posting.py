"""A request goes out as the openai client's would, and its failures are that client's."""

import socket
import threading
import time
from typing import Any

import pytest
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI
from tests.model_server import ModelServer, RawReply

from lockstitch.graph.models.posting import Endpoint
from lockstitch.graph.models.scenario import Scenario

ASKED = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
NOTHING = Scenario(name="s", turns=({"say": "unused"},))  # type: ignore[arg-type]


async def post(url: str, *, params: dict[str, str] | None = None, **options: Any) -> Any:
    async with AsyncOpenAI(base_url=url, api_key="a key", max_retries=0, **options) as client:
        endpoint = Endpoint(client, "/chat/completions")
        return await endpoint.post(ASKED, headers={"X-Own": "1"}, params=params or {})


async def test_the_reply_is_its_json() -> None:
    with ModelServer(NOTHING, replies=[RawReply(b'{"a": ["\xc3\xbc"]}')]) as server:
        assert await post(server.base_url) == {"a": ["ü"]}


async def test_what_is_no_json_comes_as_text() -> None:
    with ModelServer(NOTHING, replies=[RawReply(b"<html>", content_type="text/html")]) as server:
        assert await post(server.base_url) == "<html>"


async def test_a_refusal_carries_status_headers_and_body() -> None:
    said = RawReply(b'{"error": {"message": "no", "code": "c"}}', status=429, headers=(("Retry-After", "7"),))
    with ModelServer(NOTHING, replies=[said]) as server, pytest.raises(APIStatusError) as refused:
        await post(server.base_url)
    assert refused.value.status_code == 429
    assert refused.value.response.headers["retry-after"] == "7"
    assert refused.value.body == {"message": "no", "code": "c"}


async def test_nobody_there_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(APIConnectionError):
        await post(f"http://127.0.0.1:{port}/v1")


async def test_a_line_that_breaks_is_a_connection_error() -> None:
    with (
        ModelServer(
            NOTHING, replies=[RawReply(b'{"a": ', headers=(("Content-Length", "99"),), cut=True)]
        ) as server,
        pytest.raises(APIConnectionError),
    ):
        await post(server.base_url)


async def test_the_clients_time_limit_holds() -> None:
    began = time.monotonic()
    with ModelServer(NOTHING, delay_s=30) as server, pytest.raises(APITimeoutError):
        await post(server.base_url, timeout=0.05)
    assert time.monotonic() - began < 20


async def test_key_and_headers_of_client_and_caller_are_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(10)
        seen: list[bytes] = []

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(65_536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        server = threading.Thread(target=answer)
        server.start()
        url = f"http://127.0.0.1:{port}/v1/"
        assert await post(url, params={"api-version": "3"}, default_headers={"X-Client": "2"}) == {}
        server.join(10)
    head = seen[0].decode().lower()
    assert head.startswith("post /v1/chat/completions?api-version=3 http/1.1")
    for line in ("authorization: bearer a key", "x-own: 1", "x-client: 2"):
        assert line in head
