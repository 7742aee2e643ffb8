"""A program's worker thread hears a stop at once, and takes output whatever it waits for."""

import asyncio
import contextvars
import os
import time
from pathlib import Path

import pytest

from lockstitch.tools.commands import process_tree
from lockstitch.tools.commands.hearing import Hearing, Stop, Stopped, in_worker
from lockstitch.tools.commands.process import ProcessResult, run_process

MANY = 40  # more than the loop's own threads for short work, of which there are at most 32


def run(script: str, folder: Path, stop: Stop, *, timeout_s: float = 60) -> ProcessResult:
    fd = os.open(folder, os.O_RDONLY)
    try:
        return run_process(
            ["/bin/sh", "-c", script],
            folder_fd=fd,
            env={"PATH": os.defpath},
            timeout_s=timeout_s,
            keep_bytes=1000,
            stop=stop,
        )
    finally:
        os.close(fd)


async def test_commands_that_last_take_no_threads_from_short_work(tmp_path: Path) -> None:
    commands = [
        asyncio.create_task(in_worker(lambda stop: run("sleep 60", tmp_path, stop))) for _ in range(MANY)
    ]
    await asyncio.sleep(0.1)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 30) == 7
    for command in commands:
        command.cancel()
    ended = await asyncio.gather(*commands, return_exceptions=True)
    assert {type(each) for each in ended} == {asyncio.CancelledError}


async def test_work_sees_the_context_of_who_waits_for_it() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert await in_worker(lambda _: variable.get()) == "mine"


def test_what_is_stopped_before_it_begins_is_never_started(tmp_path: Path) -> None:
    stop = Stop()
    stop.tell()
    with pytest.raises(Stopped):
        run("touch begun", tmp_path, stop)
    stop.close()
    assert list(tmp_path.iterdir()) == []


def test_stop_may_be_told_again_and_leaves_nothing_open() -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    stop = Stop()
    stop.tell()
    stop.tell()
    stop.close()
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_deadline_comes_though_the_output_has_no_end(tmp_path: Path) -> None:
    stop, began = Stop(), time.monotonic()
    assert run("yes", tmp_path, stop, timeout_s=0.2).timed_out
    assert time.monotonic() - began < 30
    stop.close()


def test_output_is_taken_while_a_program_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "TERM_S", 30.0)  # for a machine that is slow: it ends before
    stop = Stop()
    clean_up = "trap 'head -c 1000000 /dev/zero; touch cleaned; exit' TERM"  # a pipe holds less
    assert run(f"{clean_up}; while :; do sleep 0.01; done", tmp_path, stop, timeout_s=1).timed_out
    stop.close()
    assert (tmp_path / "cleaned").exists()


def test_wait_is_as_long_as_it_is_told_and_ends_with_what_is_waited_for() -> None:
    output, waited, stop = Stop(), Stop(), Stop()
    heard: list[bytes] = []
    hearing = Hearing(output.fd, [heard.append], stop)
    assert not hearing.wait(waited.fd, 0.01)
    os.write(output._open_end, b"word")
    hearing.drain(0.01)
    assert (heard, hearing.is_drained) == ([b"word"], False)
    waited.tell()
    assert hearing.wait(waited.fd, 60)
    stop.tell()
    assert hearing.wait(waited.fd, 60)  # it is not stoppable
    with pytest.raises(Stopped):
        hearing.wait(waited.fd, 60, stoppable=True)
    output.tell()
    hearing.drain(60)
    assert hearing.is_drained
    for each in (output, waited, stop):
        each.close()
