"""Stopping a run from outside, each in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.outer_pid import outer_pid

from lockstitch.studio.stop_signals import StopSignals

PROGRAM_PATIENCE_S = 60.0  # for a loaded machine
STOPPED_WITHIN_S = 20.0  # from the signal to the end of the program, also on a slow machine
SLEEPS = """
- say: I wait.
  calls: [{tool: run_command, args: {command: "echo $$ > pid; exec sleep 30"}}]
- say: Went on.
"""


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PROGRAM_PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def sleeping(
    scenario: Callable[[str], str], workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A run in the middle of `sleep 30`, and the pid of the sleep."""
    scenario(SLEEPS)
    monkeypatch.setenv("LOCKSTITCH_UNSANDBOXED_COMMANDS", "allow")
    monkeypatch.setenv("LOCKSTITCH_COMMAND_LAYERS", "0")  # the pid is told by a file
    with subprocess.Popen(
        [sys.executable, "-m", "lockstitch.studio.cli", "run", "go", "--mode", "auto"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        note = workspace / "pid"
        wait_until(lambda: note.exists() and note.read_text().strip() != "")
        yield process, outer_pid(int(note.read_text()), workspace)
        process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_command_and_keeps_the_thread(
    sleeping: tuple[subprocess.Popen[str], int],
    number: signal.Signals,
    code: int,
    lockstitch: Callable[..., Any],
):
    process, sleep = sleeping
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=PROGRAM_PATIENCE_S)
    assert time.monotonic() - began < STOPPED_WITHIN_S
    assert (process.returncode, err) == (code, "")
    assert not is_alive(sleep)
    assert "Stopped; the thread is kept." in out
    assert "Go on: lockstitch run --thread " in out
    done = lockstitch("run", "--continue", "--json")
    assert done.code == 0
    assert done.events[-1]["reason"] == "answered"


def test_a_reader_that_leaves_stops_the_run_without_a_trace(
    sleeping: tuple[subprocess.Popen[str], int], lockstitch: Callable[..., Any]
):
    process, sleep = sleeping
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    os.kill(sleep, signal.SIGTERM)  # the command ends, and there is something to write
    assert process.wait(PROGRAM_PATIENCE_S) == 141
    assert process.stderr.read() == ""
    assert lockstitch("run", "--continue").code == 0


def test_a_reader_that_takes_one_line_is_no_error(scenario: Callable[[str], str]):
    scenario("- say: Done.")
    program = [sys.executable, "-m", "lockstitch.studio.cli", "run", "go", "--json"]
    with subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.wait(PROGRAM_PATIENCE_S) == 141
        assert process.stderr.read() == b""


def test_streams_that_the_caller_has_closed_are_no_error(
    scenario: Callable[[str], str], lockstitch: Callable[..., Any]
):
    scenario("- say: Done.")
    program = f"exec {sys.executable} -m lockstitch.studio.cli run go <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 0
    assert lockstitch("threads", "--json").events[0]["reason"] == "answered"


def test_a_second_signal_leaves_at_once(monkeypatch: pytest.MonkeyPatch):
    stopped: list[str] = []
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    signals = StopSignals(lambda: stopped.append("stop"))
    signals.receive(signal.SIGINT)
    assert (stopped, left, signals.exit_code) == (["stop"], [], 130)
    signals.receive(signal.SIGINT)
    assert left == [130]
