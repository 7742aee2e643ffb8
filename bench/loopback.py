"""A scripted model server on loopback and the command line against it, for the benchmarks."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKSTITCH = [sys.executable, "-m", "lockstitch.studio.cli"]
ALL_TOOLS = ROOT / "bench" / "scenarios" / "all_tools.yaml"
ANSWER = "Words of the sea"  # to the one question of that scenario
EXIT_WAITING = 7
START_S = 60  # a loaded machine takes long to import it all


@contextmanager
def model_server(scenario: Path, *, delay_s: float = 0) -> Iterator[str]:
    """The base URL of a real HTTP server that replays `scenario`; ended by its process id."""
    command = [sys.executable, str(ROOT / "tests" / "model_server.py"), "--scenario", str(scenario)]
    server = subprocess.Popen([*command, "--delay", str(delay_s)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


@contextmanager
def serve(
    home: Path, workspace: Path, settings: Mapping[str, str], *, log: int = subprocess.DEVNULL
) -> Iterator[tuple[str, str]]:
    """`lockstitch serve` on a free port: its address and its token. Ended by its process id.

    `log` is the file descriptor that gets what it writes.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*LOCKSTITCH, "serve", "--port", str(port), "--workspace", str(workspace)]
    environment = os.environ | {"LOCKSTITCH_HOME": str(home), **settings}
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until_up(port, server)
        yield f"http://127.0.0.1:{port}", (home / "token").read_text().strip()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def wait_until_up(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until it answers there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        asked = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            asked.request("GET", "/ok")
            asked.getresponse()
        except OSError:
            time.sleep(0.05)
        else:
            return
        finally:
            asked.close()
    raise TimeoutError(f"no answer within {START_S} s")


@dataclass(frozen=True)
class Place:
    """A home, a workspace and an endpoint of their own."""

    folder: Path
    base_url: str
    stream: bool = False

    @property
    def workspace(self) -> Path:
        """The folder the agent works in."""
        path = self.folder / "work"
        path.mkdir(exist_ok=True)
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What `lockstitch` is told: the endpoint, and that nobody is there to approve commands."""
        return os.environ | {
            "LOCKSTITCH_HOME": str(self.folder / "home"),
            "LOCKSTITCH_MODEL": "scripted-over-http",
            "LOCKSTITCH_UNSANDBOXED_COMMANDS": "allow",
            "LOCKSTITCH_STREAM": "true" if self.stream else "false",
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": "none",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`lockstitch run ...` with its events on stdout."""
        command = [*LOCKSTITCH, "run", *arguments, "--mode", "auto", "--max-steps", "60", "--json"]
        return subprocess.Popen(
            command, cwd=self.workspace, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        """The same to its end: exit code, events, stderr."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, events_in(out), err

    def show(self, thread_id: str) -> dict[str, Any]:
        """`lockstitch show ID --json`."""
        shown = subprocess.run(
            [*LOCKSTITCH, "show", thread_id, "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        state: dict[str, Any] = json.loads(shown.stdout)
        return state


def events_in(output: str) -> list[dict[str, Any]]:
    """The events in lines of JSON; a last line that a kill cut off is left out."""
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


def faults_of(workspace: Path) -> list[str]:
    """What is wrong with the files the scenario should leave; empty when all is well."""
    faults = []
    report = workspace / "report.md"
    expected = f'# {ANSWER}\n\nThe most frequent word is "the", 5 times. 2 tests pass. Status: final.\n'
    if not report.exists():
        faults.append("report.md is missing")
    elif report.read_text(encoding="utf-8") != expected:
        faults.append(f"report.md says {report.read_text(encoding='utf-8')!r}")
    faults += [
        f"{name} is still there" for name in ("draft.md", "data/verse.txt") if (workspace / name).exists()
    ]
    if "casefold" not in (workspace / "wordcount" / "counter.py").read_text(encoding="utf-8"):
        faults.append("counter.py was not mended")
    return faults
