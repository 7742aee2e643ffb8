"""`lockstitch serve` as a person and a supervisor meet it, without LangGraph's server: links, signals."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.studio.conftest import Done

from lockstitch.studio.commands.serve import _listening

PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it
ALONE = """
import sys
for name in ("langgraph_api", "langgraph_cli", "langgraph_runtime_inmem"):
    sys.modules[name] = None  # importing it fails: the server must not need it
from lockstitch.studio.cli import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""
GOES_ON = """
- calls: [{tool: list_directory}]
- say: Done.
"""
ANSWERS = "- say: Nothing to do."
LINGERS = """
- calls: [{tool: list_directory}]
- say: Late.
  delay_s: 600
"""


class Server:
    """A `lockstitch serve` that runs."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self.log = folder / "served"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", ALONE, "--port", "0", *argv],
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=output,
            )
        self.link = self.shown(r"Page: +(http://\S+)")
        self.url = self.link.partition("/login")[0]

    def shown(self, pattern: str) -> str:
        """Wait until it was said."""
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)
        return found[found.lastindex or 0]

    def end(self, number: int) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(*argv: str) -> Server:
        running.append(Server(tmp_path, *argv))
        return running[-1]

    yield start
    for server in running:
        server.process.kill()
        server.process.wait(PATIENCE_S)


def bearer(home: Path) -> dict[str, str]:
    return {"authorization": f"Bearer {(home / 'token').read_text().strip()}"}


def test_link_logs_a_browser_in_and_the_token_a_program(
    serve: Callable[..., Server], scenario: Callable[[str], str], home: Path, lockstitch: Callable[..., Done]
) -> None:
    scenario(ANSWERS)
    server = serve("--allow-host", "box.example")
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as browser:
        assert browser.get("/").status_code == 401
        assert browser.get(server.link).status_code == 200
        page = browser.get("/")
        assert "Lockstitch" in page.text
        assert browser.get("/api/threads").status_code == 200
    assert httpx.get(server.link).status_code == 401
    for name, status in {"box.example": 200, "evil.example": 403}.items():
        host = {"host": server.url.rpartition("/")[2].replace("127.0.0.1", name)}
        assert httpx.get(server.url, headers=bearer(home) | host).status_code == status
    answer = httpx.post(
        f"{server.url}/api/agent", headers=bearer(home), json={"prompt": "Hello."}, timeout=PATIENCE_S
    )
    assert answer.json()["data"]["answer"] == "Nothing to do."
    another = lockstitch("serve", "--link", "--port", server.url.rpartition(":")[2]).out
    link = re.search(r"Page: +(\S+)", another)
    assert link
    assert httpx.get(link[1]).status_code == 200
    assert server.end(signal.SIGINT) == 130


def test_sigterm_stops_runs_in_good_order_and_leaves_them_to_go_on(
    serve: Callable[..., Server], scenario: Callable[[str], str], home: Path, lockstitch: Callable[..., Done]
) -> None:
    scenario(LINGERS)
    server = serve()
    query = {"query": "Wait."}
    url = f"{server.url}/api/code-chat/query"
    with httpx.stream("POST", url, headers=bearer(home), json=query, timeout=PATIENCE_S) as stream:
        lines = stream.iter_lines()
        assert any("observation" in line for line in lines)
        server.process.send_signal(signal.SIGTERM)
        rest = list(lines)
    assert server.process.wait(PATIENCE_S) == 143
    assert any("cancelled" in line for line in rest), "the client was told before the server hung up"
    assert "go on later" in server.log.read_text()
    (thread,) = lockstitch("threads", "--json").events
    assert thread["reason"] == "cancelled"
    scenario(GOES_ON)
    assert lockstitch("run", "--thread", thread["thread_id"], "--json").code == 0


def test_server_with_nothing_to_do_ends_at_once_and_had_said_that_no_model_is_set(
    serve: Callable[..., Server],
) -> None:
    server = serve("--workspace", ".")
    server.shown("Runs cannot begin yet: no model is configured")
    assert server.end(signal.SIGTERM) == 143


def test_server_without_a_model_runs_the_scripted_demo_and_says_so(
    serve: Callable[..., Server], home: Path, workspace: Path
) -> None:
    server = serve()
    assert "scripted demo model" in server.log.read_text()
    assert "Runs cannot begin" not in server.log.read_text()
    for _ in range(2):  # the second one finds the bug, too
        answer = ask(server, home, "/api/agent", {"prompt": "One of the tests fails."})
        thread_id, approved = answer["data"]["thread_id"], 0
        while answer["data"]["reason"] == "waiting":
            answer = ask(server, home, f"/api/threads/{thread_id}/answer", {"decision": "approve"})
            approved += 1
        assert answer["success"], answer
        assert approved
        steps = httpx.get(f"{server.url}/api/threads/{thread_id}/steps", headers=bearer(home)).json()["steps"]
        assert "Scripted model" in steps[0]["thought"]
        assert "FAIL" in str(steps)
    assert list(workspace.iterdir()) == []


def ask(server: Server, home: Path, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = httpx.post(f"{server.url}{path}", headers=bearer(home), json=body, timeout=PATIENCE_S)
    answer: dict[str, Any] = reply.json()
    return answer


def test_port_that_is_taken_is_said_before_anything_is_served(lockstitch: Callable[..., Done]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = lockstitch("serve", "--port", str(taken.getsockname()[1]))
    assert done.code == 2
    assert "address already in use" in done.err
    assert "--port" in done.err
    assert done.out == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_address_that_others_reach_needs_a_word(lockstitch: Callable[..., Done], host: str) -> None:
    done = lockstitch("serve", "--host", host)
    assert done.code == 2
    assert "--expose" in done.err


def test_link_is_made_without_a_server_and_holds_no_token(
    lockstitch: Callable[..., Done], home: Path
) -> None:
    done = lockstitch("serve", "--link", "--port", "9")
    token = (home / "token").read_text().strip()
    assert done.code == 0
    assert "http://127.0.0.1:9/login?once=" in done.out
    assert token not in done.out
    assert "http://127.0.0.1:8765/login" in lockstitch("serve", "--link", "--host", "0.0.0.0").out


def test_short_pieces_of_an_answer_do_not_wait_for_each_other() -> None:
    with (
        _listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
