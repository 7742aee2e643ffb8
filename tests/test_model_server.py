"""The model server is what a real OpenAI-compatible endpoint would be to langchain-openai's client."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelRateLimitError,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from tests.model_server import ModelServer

from lockstitch.graph.models.scenario import Scenario

SERVER = Path(__file__).with_name("model_server.py")
CALL = {"tool": "look", "args": {"path": "src/ünïcode/" + "x" * 60}}


@tool
def look(path: str) -> str:
    """Look at a folder."""
    return path


@contextmanager
def serving(*turns: dict[str, object], **options: Any) -> Iterator[ModelServer]:
    with ModelServer(Scenario.model_validate({"name": "test", "turns": turns}), **options) as server:
        yield server


def ask(
    server: ModelServer, *messages: Any, streaming: bool = False, retries: int = 0, key: str = "k"
) -> AIMessage:
    """One request of langchain-openai's client, which has the tool `look`."""
    llm = ChatOpenAI(
        model="m",
        base_url=server.base_url,
        api_key=lambda: key,
        max_retries=retries,
        streaming=streaming,
        stream_usage=True,
    )
    reply = llm.bind_tools([look]).invoke(list(messages) or [HumanMessage("go")])
    assert isinstance(reply, AIMessage)
    return reply


def fetch(url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("streaming", [False, True])
def test_the_client_gets_text_calls_usage_and_reason(streaming: bool) -> None:
    with serving({"say": "Two  words\nand a line.", "calls": [CALL, CALL]}) as server:
        reply = ask(server, streaming=streaming)
    assert reply.content == "Two  words\nand a line."
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("look", CALL["args"])] * 2
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["output_tokens"] > 40
    assert reply.response_metadata["finish_reason"] == "tool_calls"


def test_the_conversation_decides_the_turn_and_captures_read_results() -> None:
    with serving({"calls": [CALL]}, {"capture": {"n": r"(\d+) files"}, "say": "There are ${n}."}) as server:
        first = ask(server)
        result = ToolMessage("7 files", tool_call_id=first.tool_calls[0]["id"])
        assert ask(server, HumanMessage("go"), first, result).content == "There are 7."
        assert ask(server).tool_calls


@pytest.mark.parametrize("streaming", [False, True])
def test_malformed_calls_reach_the_client_malformed(streaming: bool) -> None:
    raw = [
        {"id": "1", "name": "look", "arguments": "nonsense"},
        {"id": "1", "name": "nosuch", "arguments": "{}"},
    ]
    with serving({"raw_tool_calls": raw}) as server:
        reply = ask(server, streaming=streaming)
    assert [call["args"] for call in reply.invalid_tool_calls] == ["nonsense"]
    assert [call["name"] for call in reply.tool_calls] == ["nosuch"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, ModelRateLimitError), (500, ModelAPIError), ("disconnect", ModelConnectionError)],
)
def test_a_failing_turn_fails_as_at_openai_and_a_retry_gets_through(
    status: Any, kind: type[Exception]
) -> None:
    with serving({"say": "at last", "fail": {"status": status, "times": 1}}) as server:
        with pytest.raises(kind):
            ask(server)
        assert ask(server).content == "at last"


def test_the_clients_own_retry_heeds_the_waiting_time_of_a_429() -> None:
    with serving({"say": "at last", "fail": {"status": 429, "times": 2}}) as server:
        assert ask(server, retries=2).content == "at last"
        assert server.requests == 3


def test_a_wrong_key_is_refused_and_the_right_one_let_in() -> None:
    with serving({"say": "hi"}, key="secret") as server:
        with pytest.raises(ModelAuthenticationError, match="Incorrect API key"):
            ask(server, key="wrong")
        assert server.requests == 0
        assert ask(server, key="secret").content == "hi"


def test_bodies_are_kept_only_when_asked() -> None:
    with serving({"say": "hi"}, keep_bodies=True) as server:
        ask(server, HumanMessage("remember me"))
        assert server.bodies[0]["messages"] == [{"role": "user", "content": "remember me"}]
        assert server.bodies[0]["tools"][0]["function"]["name"] == "look"
    with serving({"say": "hi"}) as server:
        ask(server)
        assert (server.requests, server.bodies) == (1, [])


def test_models_unknown_addresses_and_broken_bodies_are_answered_in_json() -> None:
    with serving() as server:
        status, models = fetch(f"{server.base_url}/models")
        assert (status, models["data"][0]["id"]) == (200, "test")
        assert fetch(f"{server.base_url}/nothing")[0] == 404
        for body in (b"{bad", b"[]", b'{"messages": [1]}'):
            status, error = fetch(f"{server.base_url}/chat/completions", body)
            assert (status, error["error"]["type"]) == (400, "invalid_request_error")


def test_a_capture_that_met_nothing_is_told_and_not_tried_again() -> None:
    with serving({"capture": {"x": "needle"}, "say": "${x}"}) as server:
        body = json.dumps({"messages": [{"role": "user", "content": "hay"}], "tools": [{}]}).encode()
        status, error = fetch(f"{server.base_url}/chat/completions", body)
    assert status == 422
    assert "capture 'x'" in error["error"]["message"]


def test_one_connection_serves_many_requests() -> None:
    with serving() as server, closing(HTTPConnection("127.0.0.1", server.port, timeout=10)) as line:
        line.connect()
        first = line.sock
        for _ in range(2):
            line.request("GET", "/v1/models")
            assert json.load(line.getresponse())["object"] == "list"
        assert line.sock is first


def test_closing_ends_a_request_that_is_still_delayed() -> None:
    began = time.monotonic()
    with serving({"say": "late"}, delay_s=60) as server:
        line = HTTPConnection("127.0.0.1", server.port, timeout=10)
        line.request("POST", "/v1/chat/completions", json.dumps({"messages": []}))
        while server.requests == 0:  # far shorter than the delay, or the test run's own limit ends it
            time.sleep(0.001)
    assert time.monotonic() - began < 30
    with closing(line), pytest.raises(ConnectionError):
        line.getresponse()


def test_the_command_says_where_it_listens_and_ends_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    file.write_text("name: talk\nturns: [{say: hi}]", encoding="utf-8")
    command = [sys.executable, str(SERVER), "--scenario", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:")
        assert fetch(f"{line.split()[-1]}/models")[0] == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=10) == 0
