"""Attacks on a real `langgraph dev` and on a real `lockstitch serve`, with a key that must not leave."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.test_langgraph_dev import ROOT, server
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from lockstitch.studio.security.addresses import STUDIO_ORIGIN
from lockstitch.studio.security.login import cookie_of, make_link, make_studio_url

KEY = "canary/7Q+zP4mW=k3y"
STARS = "*" * len(KEY)
PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it
FAILING = """
import os
from langgraph.graph import StateGraph
from starlette.routing import Route

async def leak(request):
    raise ValueError("refused: " + os.environ["OPENAI_API_KEY"])

async def crash(request):
    raise RuntimeError("refused: " + os.environ["OPENAI_API_KEY"])

def add_to(app):
    app.router.routes += [Route("/leak", leak), Route("/crash", crash)]
    return app

async def node(state):
    await leak(None)

fails = StateGraph(dict).add_node(node).set_entry_point("node").compile()
"""
DEV = FAILING + "\nfrom lockstitch.studio.app import app\nadd_to(app)\n"
ALONE = (
    FAILING
    + """
import sys
for name in ("langgraph_api", "langgraph_cli", "langgraph_runtime_inmem"):
    sys.modules[name] = None  # importing it fails: the server must not need it

import lockstitch.studio.app as studio
from lockstitch.studio.cli import main

build = studio.build_app
studio.build_app = lambda *args, **named: add_to(build(*args, **named))
sys.exit(main(["serve", "--port", "0"]))
"""
)


@dataclass(frozen=True)
class Door:
    """A server that runs, and what proves that one may come in."""

    url: str
    token: str
    log: Path
    home: Path

    @property
    def is_dev(self) -> bool:
        return self.log.name != "log"

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 80

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"lockstitch-{self.port}={cookie_of(self.token)}"}

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        # a client of its own, so that no cookie stays; without certificates, which take 30 ms to read
        url = f"{self.url}{path}"
        while (
            answer := httpx.request(method, url, timeout=PATIENCE_S, verify=False, **options)
        ).status_code == 429:
            time.sleep(float(answer.headers["retry-after"]))  # all the table at once is more than one may ask
        return answer


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "LOCKSTITCH_", "LANGSMITH_"))}
    return kept | {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",  # the port of RFC 863: nobody answers there
        "LOCKSTITCH_MODEL": "m",
        "LOCKSTITCH_MODEL_RETRIES": "0",
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_NO_VERSION_CHECK": "1",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    }


@contextmanager
def dev(environment: dict[str, str], folder: Path) -> Iterator[Door]:
    (folder / "failing.py").write_text(DEV)
    config = json.loads((ROOT / "langgraph.json").read_text())
    config["graphs"]["fails"] = "./failing.py:fails"
    config["http"]["app"] = "./failing.py:app"
    (folder / "langgraph.json").write_text(json.dumps(config))
    home = folder / "home"
    own = environment | {"LOCKSTITCH_HOME": str(home)}
    with server(own, folder, folder / "langgraph.json") as (url, _):
        log = folder / f"server-{httpx.URL(url).port}.log"
        yield Door(url, (home / "token").read_text().strip(), log, home)


@contextmanager
def alone(environment: dict[str, str], folder: Path) -> Iterator[Door]:
    log, home = folder / "log", folder / "home"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", ALONE],
            cwd=folder,
            env=environment | {"LOCKSTITCH_HOME": str(home), "PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=output,
        )
    try:
        url = wait_for_link(log, process)
        yield Door(url, (home / "token").read_text().strip(), log, home)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def wait_for_link(log: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + PATIENCE_S
    while "/login?once=" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
    line = next(line for line in log.read_text().splitlines() if "/login?once=" in line)
    return line.split()[1].partition("/login")[0]


@pytest.fixture(scope="module", params=[dev, alone])
def door(
    request: pytest.FixtureRequest, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    with request.param(environment, tmp_path_factory.mktemp("door")) as opened:
        yield opened


EVIL = "http://evil.example"
PLAIN = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Refused:
    """A way to ask that every route refuses; `proof` is what the request proves to be let in with."""

    status: int
    proof: str = "none"
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    changes: bool = False  # only where the method may change something


TABLE = {
    "without the token": Refused(401),
    "with another token": Refused(401, headers={"authorization": "Bearer x"}),
    "with Studio's header alone": Refused(401, headers={"x-auth-scheme": "langsmith"}),
    "with an API key": Refused(401, headers={"x-api-key": "x"}),
    "from another page, with the token": Refused(403, "bearer", {"origin": EVIL}),
    "from another page, with the cookie": Refused(403, "cookie", {"origin": EVIL}),
    "from a page without an address, with the cookie": Refused(403, "cookie", {"origin": "null"}),
    "by another name": Refused(403, "bearer", {"host": "evil.example"}),
    "by another port": Refused(403, "bearer", {"host": "127.0.0.1:1"}),
    "as plain text": Refused(415, "bearer", PLAIN, b"{}", changes=True),
    "as a form": Refused(415, "bearer", {"content-type": "application/x-www-form-urlencoded"}, b"a=1", True),
    "as nothing named": Refused(415, "bearer", {}, b"{}", changes=True),
    "by a form of another page": Refused(403, "cookie", PLAIN, b"{}", changes=True),
    "too large": Refused(413, "bearer", JSON, b'"' + b"x" * 1_000_000 + b'"', changes=True),
}
READING = {"GET", "HEAD", "OPTIONS"}
OPEN = ("GET", "/ok")  # tells that the server is up, and nothing else
ID = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"
UNTOLD = ("/", "/main.js", "/ws", "/leak", "/openapi.json", "/docs", "/metrics", "/mcp", "/a2a/x", "/no-such")
ALSO_SERVED = [(method, path) for path in UNTOLD for method in ("GET", "POST", "PUT", "DELETE")]


@pytest.fixture(scope="module")
def routes(door: Door) -> list[tuple[str, str]]:
    """Every route that the server describes, its own and ours, and what it serves besides."""
    described = [("/api", door.ask("GET", "/api/openapi.json", headers=door.bearer))]
    described += [("", door.ask("GET", "/openapi.json", headers=door.bearer))] if door.is_dev else []
    found = {
        (method.upper(), prefix + re.sub(r"\{[^}]+\}", ID, path))
        for prefix, reply in described
        for path, methods in reply.json()["paths"].items()
        for method in methods
        if method in ("get", "post", "put", "patch", "delete")
    }
    assert len(found) >= (60 if door.is_dev else 19)
    assert ("POST", f"/api/threads/{ID}/answer") in found
    assert not door.is_dev or {("POST", "/runs/wait"), ("GET", f"/threads/{ID}/state")} <= found
    return sorted(found) + ALSO_SERVED


@pytest.mark.parametrize("way", TABLE)
def test_every_route_refuses(door: Door, routes: list[tuple[str, str]], way: str) -> None:
    row = TABLE[way]
    proof = {"none": {}, "bearer": door.bearer, "cookie": door.cookie}[row.proof]
    let_in = []
    with httpx.Client(base_url=door.url, timeout=PATIENCE_S) as client:
        for method, path in routes:
            if (row.changes and method in READING) or ((method, path) == OPEN and row.status == 401):
                continue
            headers = {**proof, **row.headers}
            while (reply := client.request(method, path, headers=headers, content=row.content)).is_error:
                if reply.status_code != httpx.codes.TOO_MANY_REQUESTS:
                    break
                time.sleep(float(reply.headers["retry-after"]))
            is_closed = "access-control-allow-origin" not in reply.headers and KEY not in reply.text
            if reply.status_code != row.status or not is_closed:
                let_in.append((method, path, reply.status_code))
    assert let_in == []


def test_form_of_another_page_is_refused(door: Door) -> None:
    plain = {"content-type": "text/plain"}
    assert door.ask("POST", "/threads", headers=plain, content="{}").status_code == 401
    assert door.ask("POST", "/threads", headers={**door.cookie, **plain}, content="{}").status_code == 403
    own = {**door.cookie, "origin": door.url}
    assert door.ask("POST", "/threads", headers={**own, **plain}, content="{}").status_code == 415


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "localhost.evil.example:{port}"]
)
def test_name_that_was_bound_to_this_machine_is_refused(door: Door, host: str) -> None:
    headers = {**door.bearer, "host": host.format(port=door.port)}
    for path in ("/", "/ok", "/info", "/threads"):
        assert door.ask("GET", path, headers=headers).status_code == 403


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_own_names_are_let_in_with_the_token(door: Door, name: str) -> None:
    headers = {**door.bearer, "host": f"{name}:{door.port}"}
    assert door.ask("GET", "/", headers=headers).status_code == 200
    assert door.ask("GET", "/api/threads", headers={**headers, **door.cookie}).status_code == 200


def test_link_logs_a_browser_in_once(door: Door) -> None:
    link = make_link(door.url, door.token, now=time.time())
    with httpx.Client(timeout=PATIENCE_S) as browser:
        assert browser.get(link).status_code == 200
        assert browser.get(f"{door.url}/api/threads").status_code == 200
        assert browser.get(link).status_code == 401


def test_error_of_a_route_holds_no_key(door: Door) -> None:
    for path in ("/leak", "/crash"):
        answer = door.ask("GET", path, headers=door.bearer)
        assert answer.status_code in {400, 500}
        assert KEY not in answer.text


def test_handshake_of_another_page_is_refused(door: Door) -> None:
    def shake_hands(headers: dict[str, str], origin: str | None) -> int:
        url = f"{door.url.replace('http', 'ws', 1)}/ws"
        named = headers | ({"origin": origin} if origin else {})
        try:
            with connect(url, additional_headers=named, proxy=None, open_timeout=PATIENCE_S):
                return 101
        except InvalidStatus as refused:
            if refused.response.status_code == 429:
                time.sleep(float(refused.response.headers["retry-after"]))
                return shake_hands(headers, origin)
            return refused.response.status_code

    evil = "http://evil.example"
    assert [shake_hands({}, door.url), shake_hands({}, None)] == [401, 401]
    assert [shake_hands(proof, evil) for proof in (door.cookie, door.bearer)] == [403, 403]
    assert shake_hands(door.cookie, None) == 403  # no browser leaves the origin out
    assert [shake_hands(door.cookie, door.url), shake_hands(door.bearer, None)] == [101, 101]


def test_run_against_a_dead_endpoint_holds_no_key(door: Door) -> None:
    answer = door.ask("POST", "/api/agent", headers=door.bearer, json={"prompt": "Hello."})
    assert answer.json()["data"]["reason"] == "model_error"
    assert KEY not in answer.text


def test_key_that_a_client_sends_along_leaves_no_trace(door: Door) -> None:
    own = "canary-of/the=client+1"
    body = {"prompt": "Hello.", "user_api_keys": {"llmKey": own}}
    answer = door.ask("POST", "/api/agent", headers=door.bearer, json=body)
    assert answer.json()["data"]["reason"] == "model_error"
    assert own not in answer.text + door.log.read_text()
    assert not [path for path in door.home.rglob("*") if path.is_file() and own.encode() in path.read_bytes()]


@pytest.mark.parametrize("door", [dev], indirect=True)
def test_failing_node_tells_its_error_without_the_key(door: Door) -> None:
    body = {"assistant_id": "fails", "input": {}}
    answer = door.ask("POST", "/runs/wait", headers=door.bearer, json=body)
    assert answer.json()["__error__"]["message"] == f"refused: {STARS}"
    stream = door.ask("POST", "/runs/stream", headers=door.bearer, json=body)
    assert f"refused: {STARS}" in stream.text
    assert KEY not in stream.text


@pytest.mark.parametrize("door", [dev], indirect=True)
def test_studio_comes_in_by_its_address_alone(door: Door) -> None:
    base = make_studio_url(door.url, door.token)
    asks = {"origin": STUDIO_ORIGIN, "access-control-request-method": "POST"}
    preflight = httpx.options(
        f"{base}/threads", headers={**asks, "access-control-request-headers": "x-auth-scheme"}
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == STUDIO_ORIGIN
    studio = {"origin": STUDIO_ORIGIN, "x-auth-scheme": "langsmith"}
    made = httpx.post(f"{base}/threads", headers=studio, json={})
    assert made.status_code == 200
    assert made.headers["access-control-allow-origin"] == STUDIO_ORIGIN
    assert (
        httpx.post(f"{base}/threads", headers={"origin": "http://evil.example"}, json={}).status_code == 403
    )
    assert httpx.post(f"{base}/threads", json={}).status_code == 401
    assert door.ask("POST", "/threads", headers=studio, json={}).status_code == 401


def test_key_is_in_no_log_and_token_in_none_either(door: Door) -> None:
    door.ask("GET", "/crash", headers=door.bearer)
    said = door.log.read_text()
    assert "RuntimeError" in said
    assert "without completing handshake" not in said
    assert KEY not in said
    assert door.token not in said
