"""The command line as a person meets it: in this process where it can be, at a terminal where it must."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.person import Open, Person

from lockstitch.state.settings import load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.cli import main
from lockstitch.studio.service import open_service

PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it
AGAIN_S = 0.5  # between two Ctrl-C of an impatient person
PROGRAM = (sys.executable, "-m", "lockstitch.studio.cli")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of every test."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    paths = os.environ.get("PYTHONPATH")
    if paths:  # relative ones would lead nowhere from the new folder
        absolute = [str(Path(path).absolute()) for path in paths.split(os.pathsep)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(absolute))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a scenario's turns and makes it the configured model."""

    def write(turns: str) -> str:
        path = tmp_path / "scenario.yaml"
        path.write_text("name: test\nturns:\n" + textwrap.indent(textwrap.dedent(turns), "  "))
        monkeypatch.setenv("LOCKSTITCH_MODEL", f"scripted:{path}")
        return f"scripted:{path}"

    return write


@pytest.fixture
def lockstitch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs the command line in this process, with `stdin` through a pipe."""

    def run(*argv: str, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = main(argv)
        return Done(code, *capsys.readouterr())

    return run


class Terminal:
    """A person at a terminal: reads what is shown, types lines."""

    def __init__(self, *argv: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen([*PROGRAM, *argv], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.shown = ""
        self._seen = 0

    def expect(self, text: str) -> None:
        """Wait until `text` has been shown since the last time."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown[self._seen :]:
            assert self._read(deadline), f"{text!r} was not shown, but: {self.shown[self._seen :]}"
        self._seen = self.shown.index(text, self._seen) + len(text)

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def interrupt(self, text: str) -> None:
        """Ctrl-C until `text` is shown: readline misses one that comes just before it begins to wait."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < deadline, self.shown
            self.process.send_signal(signal.SIGINT)
            self._read(time.monotonic() + AGAIN_S)

    def interrupt_without_end(self) -> None:
        """Ctrl-C upon Ctrl-C until the program has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(time.monotonic() + 0.001) or self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self.process.send_signal(signal.SIGINT)

    def code(self) -> int:
        """The exit code, once all was shown."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        os.close(self._master)
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        try:
            data = os.read(self._master, 4096) if ready else b""
        except OSError:  # what Linux says when nobody holds the other end any more
            data = b""
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*argv: str) -> Terminal:
        opened.append(Terminal(*argv))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def opened(tmp_path: Path, workspace: Path) -> Open:
    """Opens a service on the test's home with the turns given, for somebody on a thread."""

    @asynccontextmanager
    async def start(turns: str, thread_id: str | None = None, **settings: Any) -> AsyncIterator[Person]:
        path = tmp_path / "scenario.yaml"
        path.write_text("name: test\nturns:\n" + textwrap.indent(textwrap.dedent(turns), "  "))
        given = {"model": f"scripted:{path}", "workspace": workspace} | settings
        async with open_service(load_settings(**given)) as service:
            yield Person(service, thread_id or new_thread_id())

    return start
