"""Which models an endpoint says it serves, and replies that are none of a list."""

import http.server
import threading
from collections.abc import Callable, Iterator

import pytest

from lockstitch.graph.models.served import list_served
from lockstitch.state.errors import ModelError
from lockstitch.state.settings import load_settings

Answering = Callable[[int, str, bytes], str]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Starts a server that gives one reply to everything; its address."""
    opened: list[http.server.HTTPServer] = []

    def start(status: int, content_type: str, body: bytes) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        opened.append(http.server.HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=opened[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{opened[-1].server_port}/v1"

    yield start
    for one in opened:
        one.shutdown()
        one.server_close()


def test_names_are_sorted_and_said_once(answering: Answering) -> None:
    body = b'{"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}'
    url = answering(200, "application/json", body)
    assert list_served(load_settings(openai_base_url=url)) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "content_type", "body", "words"),
    [
        (200, "text/html", b"<html>Welcome</html>", "sent no list of models"),
        (200, "application/json", b"{", "sent no list of models"),
        (200, "application/json", b"[1, 2]", "sent no list of models"),
        (200, "application/json", b'"text"', "sent no list of models"),
        (200, "application/json", b'{"data": [1]}', "sent no list of models"),
        (200, "application/json", b'{"data": 7}', "sent no list of models"),
        (403, "application/json", b"{}", "to this key (403)"),
        (404, "text/plain", b"no", "has no list of models (404)"),
        (429, "application/json", b"{}", "rate limit or quota"),
        (500, "text/plain", b"oh", "answered 500. Try again later"),
    ],
)
def test_any_other_reply_is_one_clear_line(
    answering: Answering, status: int, content_type: str, body: bytes, words: str
) -> None:
    settings = load_settings(openai_base_url=answering(status, content_type, body))
    with pytest.raises(ModelError) as caught:
        list_served(settings)
    assert words in caught.value.message
    assert caught.value.message.startswith("the endpoint ")
    assert "\n" not in caught.value.message
