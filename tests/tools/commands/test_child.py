"""A program in a worker thread gives its output and exit code, and never outlives the wish for it."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.commands.child import Child, in_thread

ENDLESS = "echo $$; exec sleep 600"


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


class Heard:
    """What a program said, and a word to whoever waits for the first of it."""

    def __init__(self) -> None:
        self.text = b""
        self.begun = threading.Event()

    def __call__(self, data: bytes) -> None:
        self.text += data
        self.begun.set()


def run(
    child: Child, script: str, folder_fd: int, heard: Callable[[bytes], None], timeout_s: float = 60
) -> int | None:
    argv = ["/bin/sh", "-c", script]
    return child.run(argv, folder_fd=folder_fd, env={"A": "1"}, timeout_s=timeout_s, on_output=heard)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_exit_code_is_the_shells(script: str, code: int, folder_fd: int) -> None:
    assert run(Child(), script, folder_fd, Heard()) == code


def test_output_and_errors_come_whole_from_that_folder_and_environment(
    folder_fd: int, tmp_path: Path
) -> None:
    heard = Heard()
    assert run(Child(), "pwd; echo $A$HOME >&2; head -c 300000 /dev/zero", folder_fd, heard) == 0
    assert heard.text == f"{tmp_path.resolve()}\n1\n".encode() + bytes(300_000)


def test_flood_of_output_comes_whole(folder_fd: int) -> None:
    heard = Heard()
    assert run(Child(), "yes 1234567 | head -n 400000", folder_fd, heard) == 0
    assert heard.text == b"1234567\n" * 400_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pipes that can be made to hold more")
def test_program_writes_on_while_nobody_reads(folder_fd: int, tmp_path: Path) -> None:
    written, seen = tmp_path / "written", []

    def look(_: bytes) -> None:
        deadline = time.monotonic() + 20
        while not seen and not written.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(written.exists())

    assert run(Child(), "head -c 400000 /dev/zero; touch written", folder_fd, look) == 0
    assert seen[0]


def test_program_that_takes_too_long_is_ended(folder_fd: int) -> None:
    heard = Heard()
    assert run(Child(), ENDLESS, folder_fd, heard, timeout_s=0.05) is None
    assert not heard.text or not is_alive(int(heard.text))


@pytest.mark.parametrize(
    ("argv", "fault", "words"),
    [
        (["/nowhere/rg"], ToolExecutionError, "rg could not be started: no such file"),
        (["/bin/echo", "a\0b"], ToolValidationError, "NUL"),
        (["/bin/echo", "\ud800"], ToolValidationError, "surrogate"),
    ],
)
def test_program_that_cannot_start_is_told(argv: list[str], fault: Any, words: str, folder_fd: int) -> None:
    with pytest.raises(fault, match=words):
        Child().run(argv, folder_fd=folder_fd, env={}, timeout_s=60, on_output=Heard())


async def test_cancelled_program_is_gone_before_that_is_told(folder_fd: int) -> None:
    heard = Heard()
    work = asyncio.create_task(in_thread(partial(run, script=ENDLESS, folder_fd=folder_fd, heard=heard)))
    await asyncio.to_thread(heard.begun.wait, 60)
    work.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert time.monotonic() - began < 60
    assert not is_alive(int(heard.text))


async def test_program_cancelled_before_it_started_does_not_start(folder_fd: int, tmp_path: Path) -> None:
    ready, go = threading.Event(), threading.Event()

    def late(child: Child) -> int | None:
        ready.set()
        go.wait(60)
        return run(child, "touch started", folder_fd, Heard())

    work = asyncio.create_task(in_thread(late))
    await asyncio.to_thread(ready.wait, 60)
    work.cancel()
    await asyncio.sleep(0)  # the cancellation arrives
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not (tmp_path / "started").exists()


async def test_error_of_the_work_comes_out(folder_fd: int) -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda _: 1 // 0)
