"""A key of one run's own leaves no trace: it is looked for in files, events, logs, errors and output."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from pydantic import SecretStr
from tests.model_server import ModelServer, RawReply

from lockstitch.graph.models.scenario import Failure, Scenario, Turn, WireCall
from lockstitch.state.errors import AgentError
from lockstitch.state.events import dump_event
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.studio.cli import main
from lockstitch.studio.service import RunRequest, open_service

CANARY = "canary/7Q+zP4mW=k3y"  # like no provider's key, and another text when it is quoted for a URL
PROMPT = "What is in this folder, please?"
THREAD = "0b8f2f52-7f0e-4c0e-9a51-6f3f1f7f9a10"
PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it
LOOKS = Turn(0, "I look.", (WireCall(name="list_directory", arguments='{"path": "."}', id="c1"),))
ANSWERS = Turn(1, "Nothing is there.")
SAID = f"Incorrect API key provided: {CANARY}. You can find your key at the usual place."


def refusal(status: int) -> RawReply:
    body = {"error": {"message": SAID, "type": "x", "code": None}}
    return RawReply(json.dumps(body).encode(), status=status, headers=(("retry-after-ms", "1"),))


def in_stream(error: dict[str, Any]) -> RawReply:
    return RawReply(f"data: {json.dumps({'error': error})}\n\n".encode(), content_type="text/event-stream")


ENDINGS: dict[str, tuple[Turn | RawReply, str]] = {
    "answered": (ANSWERS, "answered"),
    "refused key": (refusal(401), "model_error"),
    "refused request": (refusal(400), "model_error"),
    "too long": (refusal(413), "model_error"),
    "no such model": (refusal(404), "model_error"),
    "rate limit": (refusal(429), "model_error"),
    "fault": (refusal(500), "model_error"),
    "fault in plain text": (RawReply(SAID.encode(), "text/plain", 500), "model_error"),
    "error of status 200": (RawReply(json.dumps({"error": {"message": SAID}}).encode()), "model_error"),
    "error of status 200 as text": (RawReply(json.dumps({"error": SAID}).encode()), "model_error"),
    "no JSON": (RawReply(f"<html>{SAID}</html>".encode(), "text/html"), "model_error"),
    "no reply": (RawReply(json.dumps({"said": SAID}).encode()), "model_error"),
    "error in a stream": (in_stream({"message": SAID}), "model_error"),
    "gone": (Turn(1, "", fail=Failure(status="disconnect", times=9)), "model_error"),
}


def forms(key: str) -> Iterator[bytes]:
    """The key as it may be written down: plain, backwards, quoted, and base64 wherever it begins in it."""
    yield from (text.encode() for text in (key, key[::-1], quote(key, safe=""), quote_plus(key)))
    yield json.dumps(key).strip('"').replace("/", "\\/").encode()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + key.encode())
        yield encoded[4 * (before > 0) : len(encoded) // 4 * 4 - 4]


def holds(text: bytes, key: str = CANARY) -> list[bytes]:
    return [form for form in forms(key) if form in text]


def files_with(folder: Path, key: str = CANARY) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and holds(path.read_bytes(), key)]


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """All that was said in a test, for a look at its end: output, and every logger's records at DEBUG."""
    said: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(self.format(record))
            said.append(repr(vars(record)))

    root, keeper = logging.getLogger(), Keeper()
    loggers = [root, *map(logging.getLogger, root.manager.loggerDict)]
    before = [(logger, logger.level) for logger in loggers]
    root.addHandler(keeper)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield said
    root.removeHandler(keeper)
    for logger, level in before:
        logger.setLevel(level)
    said.extend(capfd.readouterr())
    assert any("HTTP" in text for text in said), "the client's own log was not heard"
    assert not [text for text in said if holds(text.encode("utf-8", "replace"))]


async def drive(base_url: str, folder: Path, *, stream: bool = False, key: str = CANARY) -> list[str]:
    """One run with the canary as its key; every event as JSON, and the error as a traceback."""
    settings = load_settings(
        openai_base_url=base_url, model="m", model_retries=1, workspace=folder, stream=stream
    )
    seen: list[str] = []
    async with open_service(settings) as service:
        request = RunRequest(
            thread_id=THREAD, prompt=PROMPT, context=RunContext(door="cli"), api_key=SecretStr(key)
        )
        handle = service.start(request)
        try:
            async for event in handle.events():
                seen += [json.dumps(dump_event(event)), repr(event)]
        except AgentError as error:
            seen += [repr(error), *traceback.format_exception(error)]
        await handle.ended()
        view = await service.view(THREAD)
        seen.append(repr(view.state))
    return seen


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("stream", [False, True])
def test_the_key_of_a_run_leaves_no_trace_however_it_ends(
    home: Path, tmp_path: Path, shown: list[str], ending: str, stream: bool
) -> None:
    last, reason = ENDINGS[ending]
    with ModelServer(Scenario(name="s"), key=CANARY, replies=[LOOKS, *[last] * 2]) as server:
        seen = asyncio.run(drive(server.base_url, tmp_path, stream=stream))
    assert any(f'"reason": "{reason}"' in text for text in seen)
    shown.extend(seen)
    assert main(["show", THREAD, "--json"]) == 0
    assert files_with(home) == []
    assert files_with(home, PROMPT[:20]), "the search finds nothing at all"


SCRIPT = """
import asyncio, logging, sys
from pathlib import Path
from tests.e2e.test_canary_key import drive
logging.basicConfig(level=logging.DEBUG)
for line in asyncio.run(drive(sys.argv[1], Path(sys.argv[2]), key=sys.stdin.readline().strip())):
    print(line)
"""


def test_the_key_of_a_run_that_was_killed_leaves_no_trace(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    late = Turn(1, "late", delay_s=PATIENCE_S)
    said = tmp_path / "said"  # no pipe: nobody would empty it while the run goes on
    with (
        said.open("wb") as output,
        ModelServer(Scenario(name="s"), key=CANARY, replies=[LOOKS, late]) as server,
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, server.base_url, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        ) as run,
    ):
        assert run.stdin is not None
        run.stdin.write(f"{CANARY}\n".encode())
        run.stdin.close()
        until = time.monotonic() + PATIENCE_S
        while server.requests < 2 and run.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        run.kill()
    assert server.requests == 2, said.read_text(errors="replace")[-2000:]
    assert b"HTTP Request" in said.read_bytes()
    assert main(["show", THREAD, "--json"]) == 0
    assert holds(said.read_bytes() + "".join(capfd.readouterr()).encode()) == []
    assert files_with(home) == []
    assert files_with(home, PROMPT[:20]), "the search finds nothing at all"


def test_the_search_finds_the_key_however_it_is_written(tmp_path: Path) -> None:
    written = (CANARY, CANARY[::-1], quote(CANARY, safe=""), base64.b64encode(f"Bearer {CANARY}".encode()))
    for number, text in enumerate(written):
        path = tmp_path / str(number)
        path.write_bytes(b"x" + (text if isinstance(text, bytes) else text.encode()) + b"y")
        assert str(path) in files_with(tmp_path)
