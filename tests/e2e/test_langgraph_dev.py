"""The real `langgraph dev`: a run to an approval, kill -9, a new server, the approval, the end."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from lockstitch.state.thread_lock import hold_thread

ROOT = Path(__file__).resolve().parents[2]
START_S = 60  # a loaded machine takes long to import it all


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "LOCKSTITCH_", "LANGSMITH_"))}
    return kept | {
        "LOCKSTITCH_HOME": str(tmp_path / "home"),
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_NO_VERSION_CHECK": "1",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    }


@contextmanager
def server(
    environment: dict[str, str], folder: Path, config: Path = ROOT / "langgraph.json"
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`langgraph dev` on a free port, in a folder of its own so that its pickles do not land in ours."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    command += ["--port", str(port), "--n-jobs-per-worker", "8", "--config", str(config)]
    log = (folder / f"server-{port}.log").open("wb")
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        wait_until_up(f"http://127.0.0.1:{port}", process, Path(log.name))
        yield f"http://127.0.0.1:{port}", process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"langgraph dev ended at start:\n{log.read_text()[-3000:]}")
        try:
            if httpx.get(f"{url}/ok", timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"langgraph dev did not come up:\n{log.read_text()[-3000:]}")


def connect(url: str, environment: dict[str, str]) -> SyncLangGraphClient:
    """A client that shows the token the server has made in its home."""
    token = (Path(environment["LOCKSTITCH_HOME"]) / "token").read_text().strip()
    return get_sync_client(url=url, headers={"Authorization": f"Bearer {token}"})


def approve_to_the_end(client: SyncLangGraphClient, thread_id: str) -> None:
    state = client.threads.get_state(thread_id)
    while state["next"]:
        request = state["tasks"][0]["interrupts"][0]["value"]
        assert request["action_requests"][0]["args"] == request["action_requests"][0]["arguments"]
        client.runs.wait(thread_id, "agent", command={"resume": {"decisions": [{"type": "approve"}]}})
        state = client.threads.get_state(thread_id)
    assert state["values"]["reason"] in ("answered", "todos_completed")
    assert "scripted" in state["values"]["final_answer"]


def index_and_search(url: str, environment: dict[str, str]) -> None:
    """Build an index in the background of the server, which forbids file work on its event loop."""
    token = (Path(environment["LOCKSTITCH_HOME"]) / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with httpx.Client(base_url=f"{url}/api/code-chat", headers=headers, timeout=START_S) as client:
        assert client.post("/contexts", content="{}").status_code == 202
        live = (
            client.get("/contexts/default", headers={"Accept": "text/event-stream"})
            .text.strip()
            .split("\n\n")
        )
        last = json.loads(live[-1].removeprefix("data: "))
        assert (last["complete"], last["error"]) == (True, None), last
        found = client.post("/contexts/default/search", content='{"query": "split an amount fairly"}').json()
        assert found["results"]
        assert client.delete("/contexts/default").status_code == 200


def look_back_and_forth(url: str, environment: dict[str, str], thread_id: str) -> None:
    """A thread's past, all of it in a server that forbids file work on its event loop."""
    token = (Path(environment["LOCKSTITCH_HOME"]) / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    base = f"{url}/api/threads/{thread_id}"
    with httpx.Client(base_url=base, headers=headers, timeout=START_S) as client:
        steps = client.get("/timeline").json()["steps"]
        changed = client.get(f"/diff?from_step=0&to_step={steps}").json()["files"]
        paths = {file["path"] for file in changed}
        assert "M" in [file["change"] for file in changed]
        for plan in ({"kind": "rewind", "to": 0}, {"kind": "undo"}):
            seen = client.post("/moves/preview", json=plan)
            assert {file["path"] for file in seen.json()["files"]} == paths, seen.text
            made = client.post("/moves", json={**plan, "token": seen.json()["token"]})
            assert made.status_code == 200, made.text
        assert client.get("/timeline").json()["steps"] == steps
        assert client.post("/fork", json={}).status_code == 200


def test_a_waiting_run_survives_kill_9_of_the_server(tmp_path: Path, environment: dict[str, str]) -> None:
    with server(environment, tmp_path) as (url, process), connect(url, environment) as client:
        thread_id = client.threads.create()["thread_id"]
        given = {"messages": [{"role": "user", "content": "Repair the failing test."}]}
        events = list(client.runs.stream(thread_id, "agent", input=given, stream_mode="custom"))
        kinds = [part.data["type"] for part in events if part.event == "custom"]
        assert kinds[0] == "agent_start"
        assert kinds[-2:] == ["agent_approval_request", "agent_completion"]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    with server(environment, tmp_path) as (url, process), connect(url, environment) as client:
        approve_to_the_end(client, thread_id)
        index_and_search(url, environment)
        another = client.threads.create()["thread_id"]  # finds the bug where it was, not mended
        client.runs.wait(another, "agent", input=given)
        approve_to_the_end(client, another)
        look_back_and_forth(url, environment, another)
        busy = client.threads.create()["thread_id"]
        with (
            hold_thread(tmp_path / "home" / "locks", busy, holder="somebody else"),
            pytest.raises(Exception, match=r"409: thread .* is being written by somebody else \(pid"),
        ):
            client.runs.wait(busy, "agent", input=given)

    shown = subprocess.run(
        [sys.executable, "-m", "lockstitch.studio.cli", "show", thread_id, "--json"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(shown.stdout)["thread_id"] == thread_id
