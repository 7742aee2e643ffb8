"""A model server on loopback that speaks OpenAI's chat completions and replays a scenario file.

In a test: `with ModelServer(scenario) as server: ... server.base_url`. By hand or from a bench:
`python tests/model_server.py --scenario FILE --port 0`, which prints its address and ends on SIGTERM.
"""

import argparse
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from lockstitch.graph.models.scenario import (
    Failure,
    FailureLedger,
    Heard,
    Scenario,
    Turn,
    estimate_tokens,
    load_scenario,
    turn_for,
)
from lockstitch.state.errors import AgentError, ModelError

PIECE_CHARS = 24  # of text and of arguments in one SSE chunk: calls arrive in several, as from OpenAI
RETRY_AFTER_MS = 20  # what a rate-limited client is told to wait; OpenAI's client reads milliseconds first
ROLES = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True)
class RawReply:
    """An HTTP reply that goes out as it is, whatever was asked for; with `cut` the line breaks after it."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False


class ModelServer:
    """One server, listening from construction until `close`; requests are counted, bodies kept if asked.

    With `replies` the n-th request gets the n-th of them, whatever the conversation; the scenario's turns,
    which follow from the conversation, are not asked. One request more than there are replies gets a 422.
    Without `keep_alive` each connection ends with its reply, so that no client is left with an open one.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        key: str | None = None,
        delay_s: float = 0,
        port: int = 0,
        keep_bodies: bool = False,
        replies: Sequence[Turn | RawReply] | None = None,
        keep_alive: bool = True,
    ) -> None:
        self.scenario = scenario
        self.replies = replies
        self.keep_alive = keep_alive
        self.key = key
        self.delay_s = delay_s
        self.keep_bodies = keep_bodies
        self.requests = 0
        self.bodies: list[dict[str, Any]] = []
        self.failures = FailureLedger()
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = _Listener(("127.0.0.1", port), self)
        self.port = self._http.server_port
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def note(self, body: dict[str, Any]) -> int:
        """Count the request; its place, from 0."""
        with self._lock:
            self.requests += 1
            if self.keep_bodies:
                self.bodies.append(body)
            return self.requests - 1

    def reply_to(self, body: dict[str, Any], heard: list[Heard]) -> Turn | RawReply:
        """What this request gets.

        Raises:
            AgentError: there is nothing to say.
        """
        place = self.note(body)
        if self.replies is None:
            return turn_for(self.scenario, heard, has_tools=bool(body.get("tools")))
        if place >= len(self.replies):
            raise ModelError(f"there are {len(self.replies)} replies, and this is one request more")
        return self.replies[place]

    def close(self) -> None:
        """Stop listening, break what is open, and wait until every thread of the server has ended."""
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.break_connections()
        self._http.server_close()

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = False  # `server_close` joins them, so that no socket outlives its test

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        with self._open_lock:
            for connection in self._open:
                _break(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no error of this server; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"  # keep-alive
    disable_nagle_algorithm = True  # else each small chunk waits for the acknowledgement of the one before

    def do_GET(self) -> None:
        if self._refused():
            return
        if self.path == "/v1/models":
            name = self.server.owner.scenario.name
            self._send_json(
                {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "scenario"}]}
            )
        else:
            self._send_error_json(404, f"Unknown request URL: GET {self.path}.")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._refused():
            return
        if self.path != "/v1/chat/completions":
            self._send_error_json(404, f"Unknown request URL: POST {self.path}.")
            return
        try:
            body = json.loads(raw)
            heard = [_heard(message) for message in body["messages"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            self._send_error_json(400, "The body is no JSON object with a list of messages.")
            return
        self._complete(body, heard)

    def _complete(self, body: dict[str, Any], heard: list[Heard]) -> None:
        owner = self.server.owner
        try:
            turn = owner.reply_to(body, heard)
        except AgentError as error:
            self._send_error_json(422, error.message)  # a status that no client tries again
            return
        if isinstance(turn, RawReply):
            self._send_raw(turn)
            return
        if owner.stopping.wait(owner.delay_s + turn.delay_s):
            self.close_connection = True
            return
        failure = owner.failures.due(turn)
        if failure is not None:
            self._fail(failure)
        elif body.get("stream"):
            self._send_stream(turn, body)
        else:
            self._send_json(_completion(turn, body))

    def _refused(self) -> bool:
        key = self.server.owner.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self._send_error_json(401, "Incorrect API key provided.", code="invalid_api_key")
        return True

    def _fail(self, failure: Failure) -> None:
        if failure.status == "disconnect":
            self.close_connection = True
            _break(self.connection)
        else:
            self._send_error_json(failure.status, failure.message)

    def _send_error_json(self, status: int, message: str, *, code: str | None = None) -> None:
        kind = "invalid_request_error" if status < 500 else "server_error"
        self._send_json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)

    def _send_json(self, body: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(body).encode(), status)

    def _send(self, data: bytes, status: int = 200, *, content_type: str = "application/json") -> None:
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
            self.send_header("retry-after-ms", str(RETRY_AFTER_MS))
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_raw(self, reply: RawReply) -> None:
        self.send_response(reply.status)
        for name, value in (("Content-Type", reply.content_type), *reply.headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body) + reply.cut))
        self.end_headers()
        self.wfile.write(reply.body)
        if reply.cut:
            self.close_connection = True
            _break(self.connection)

    def end_headers(self) -> None:
        if not self.server.owner.keep_alive:
            self.send_header("Connection", "close")  # the base class then closes it
        super().end_headers()

    def _send_stream(self, turn: Turn, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in (*map(json.dumps, _chunks(turn, body)), "[DONE]"):
            self._send_chunk(f"data: {event}\n\n".encode())
        self._send_chunk(b"")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Say nothing: requests are counted instead."""


def _break(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the client was first
        return


def _heard(message: dict[str, Any]) -> Heard:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    ids = tuple(call.get("id") or "" for call in message.get("tool_calls") or ())
    return Heard(ROLES.get(message["role"], "user"), text, ids)  # type: ignore[arg-type]


def _wire_calls(turn: Turn) -> list[dict[str, Any]]:
    """The calls as OpenAI writes them; one without an id on purpose has no such field."""
    calls = [(call.id, {"name": call.name, "arguments": call.arguments}) for call in turn.calls]
    return [
        {**({"id": id_} if id_ is not None else {}), "type": "function", "function": f} for id_, f in calls
    ]


def _head(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    model = body.get("model", "")
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _usage(turn: Turn, body: dict[str, Any]) -> dict[str, int]:
    sent = estimate_tokens(json.dumps(body["messages"]))
    said = estimate_tokens(turn.say, *(call.arguments for call in turn.calls))
    return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}


def _completion(turn: Turn, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.say or None}
    if turn.calls:
        message["tool_calls"] = _wire_calls(turn)
    choices = [{"index": 0, "message": message, "finish_reason": turn.finish_reason}]
    return {**_head("chat.completion", body), "choices": choices, "usage": _usage(turn, body)}


def _chunks(turn: Turn, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = _head("chat.completion.chunk", body)
    for delta in _deltas(turn):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": turn.finish_reason}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(turn, body)}


def _deltas(turn: Turn) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(turn.say):
        yield {"content": piece}
    for index, call in enumerate(_wire_calls(turn)):
        yield {"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]}
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--key", help="the bearer key that is asked for; none by default")
    parser.add_argument("--delay", type=float, default=0, metavar="S", help="seconds before each reply")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    scenario = load_scenario(options.scenario)
    with ModelServer(scenario, key=options.key, delay_s=options.delay, port=options.port) as server:
        sys.stdout.write(f"listening on {server.base_url}\n")
        sys.stdout.flush()
        stop.wait()


if __name__ == "__main__":
    main()
