"""A program is bounded in time and memory, and nothing of it is left afterwards."""

import asyncio
import errno
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.commands import process_tree
from lockstitch.tools.commands.hearing import Hearing, Stop, in_worker
from lockstitch.tools.commands.process import ProcessResult, command_environment, run_process
from lockstitch.tools.commands.process_tree import ProcessTree

KEEP_BYTES = 1000
STOP_S = 20.0  # of 60, also on a machine that is slow
LINUX_ONLY = pytest.mark.skipif(
    not Path("/proc").is_dir(), reason="needs /proc: elsewhere nobody shows what left the group"
)


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


async def run(script: str, folder_fd: int, **given: Any) -> ProcessResult:
    usual: dict[str, Any] = {
        "timeout_s": 10,
        "keep_bytes": KEEP_BYTES,
        "env": command_environment(os.environ),
    }
    return await in_worker(
        lambda stop: run_process(["/bin/sh", "-c", script], folder_fd=folder_fd, stop=stop, **(usual | given))
    )


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc").is_dir()


def read_pid(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else None


async def pid_in(file: Path) -> int:
    async with asyncio.timeout(5):
        while (pid := read_pid(file)) is None:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.005)
    return pid


def count_open() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def test_output_exit_code_and_folder_are_those_of_the_program(folder_fd: int, tmp_path: Path) -> None:
    result = await run("pwd -P; echo oops >&2; exit 3", folder_fd)
    assert result.head + result.tail == f"{tmp_path}\noops\n".encode()
    assert (result.exit_code, result.signal_number, result.timed_out) == (3, None, False)
    assert (result.total_bytes, result.cut_bytes) == (len(result.head), 0)
    assert 0 < result.duration_s < 5


async def test_program_ended_by_a_signal_has_the_shells_exit_code(folder_fd: int) -> None:
    result = await run("kill -9 $$", folder_fd)
    assert (result.exit_code, result.signal_number, result.timed_out) == (137, signal.SIGKILL, False)


async def test_stdin_is_empty(folder_fd: int) -> None:
    result = await run("cat; echo done", folder_fd, timeout_s=5)
    assert (result.head, result.timed_out) == (b"done\n", False)


async def test_background_child_holding_the_pipe_does_not_hold_us(folder_fd: int, tmp_path: Path) -> None:
    began = time.monotonic()
    result = await run("sleep 60 & echo $! > pid; echo started", folder_fd)
    assert (result.exit_code, result.head) == (0, b"started\n")
    assert time.monotonic() - began < STOP_S
    assert not is_alive(await pid_in(tmp_path / "pid"))


async def test_output_after_the_exit_is_waited_for_a_moment(folder_fd: int) -> None:
    result = await run("(sleep 0.05; echo late) & echo early", folder_fd)
    assert result.head == b"early\nlate\n"


async def test_timeout_ends_the_program(folder_fd: int) -> None:
    began = time.monotonic()
    result = await run("echo before; sleep 60", folder_fd, timeout_s=0.05)
    assert (result.exit_code, result.timed_out, result.head) == (None, True, b"before\n")
    assert time.monotonic() - began < STOP_S


async def test_program_may_clean_up_before_it_is_killed(
    folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "TERM_S", 30.0)  # for a machine that is slow: it ends before
    clean_up = "trap 'sleep 0.05 && echo cleaned; exit' TERM"  # SIGTERM is not for what it starts for that
    result = await run(f"{clean_up}; echo ready; while :; do sleep 0.01; done", folder_fd, timeout_s=2)
    assert result.head.endswith(b"cleaned\n")


async def test_program_that_ignores_sigterm_is_killed(folder_fd: int, tmp_path: Path) -> None:
    began = time.monotonic()
    await run("trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done", folder_fd, timeout_s=0.1)
    assert not is_alive(await pid_in(tmp_path / "pid"))
    assert time.monotonic() - began < 0.1 + STOP_S


@LINUX_ONLY
@pytest.mark.parametrize("end", ["sleep 60", "true"], ids=["after a timeout", "after the end"])
async def test_daemon_that_left_session_and_parent_is_gone(end: str, folder_fd: int, tmp_path: Path) -> None:
    daemon = "setsid sh -c '(sleep 60 & echo $! > pid) & exit' >/dev/null 2>&1 &"
    await run(f"{daemon} while [ ! -s pid ]; do sleep 0.01; done; {end}", folder_fd, timeout_s=0.3)
    assert not is_alive(await pid_in(tmp_path / "pid"))


@LINUX_ONLY
async def test_child_that_left_the_session_and_its_environment_is_gone(
    folder_fd: int, tmp_path: Path
) -> None:
    await run("setsid env -i /bin/sh -c 'echo $$ > pid; sleep 60; :' & wait", folder_fd, timeout_s=0.2)
    assert not is_alive(await pid_in(tmp_path / "pid"))


async def test_other_commands_are_left_alone(folder_fd: int) -> None:
    longer = asyncio.create_task(run("sleep 0.2; echo whole", folder_fd))
    await run("sleep 60", folder_fd, timeout_s=0.05)
    assert (await longer).head == b"whole\n"


async def test_cancellation_ends_the_program(folder_fd: int, tmp_path: Path) -> None:
    task = asyncio.create_task(run("trap '' TERM; sleep 60 & echo $! > pid; wait", folder_fd))
    pid = await pid_in(tmp_path / "pid")
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < STOP_S
    assert not is_alive(pid)


async def test_program_leads_a_session_of_its_own(folder_fd: int, tmp_path: Path) -> None:
    task = asyncio.create_task(run("echo $$ > pid; sleep 60", folder_fd))
    pid = await pid_in(tmp_path / "pid")
    assert os.getsid(pid) == pid  # so it has no terminal to ask at, and our Ctrl-C is not its own
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_second_cancellation_kills_without_waiting(folder_fd: int, tmp_path: Path) -> None:
    task = asyncio.create_task(run("trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done", folder_fd))
    pid = await pid_in(tmp_path / "pid")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)


async def test_head_and_tail_of_huge_output_are_kept(folder_fd: int) -> None:
    result = await run("echo first; head -c 3000000 /dev/zero; echo last", folder_fd)
    assert result.head.startswith(b"first\n")
    assert result.tail.endswith(b"last\n")
    assert len(result.head) == len(result.tail) == KEEP_BYTES // 2
    assert result.total_bytes == 3_000_000 + len("first\nlast\n")
    assert result.cut_bytes == result.total_bytes - KEEP_BYTES


async def test_endless_output_is_bounded_in_memory_and_time(folder_fd: int) -> None:
    began = time.monotonic()
    tracemalloc.start()
    try:
        result = await run("yes", folder_fd, timeout_s=0.2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.timed_out
    assert result.total_bytes > peak  # more came than was ever held
    assert peak < 2 * 1024 * 1024
    assert time.monotonic() - began < 0.2 + STOP_S


@pytest.mark.parametrize("keep_bytes", [0, 1, 7, 12, 100])
async def test_what_is_kept_is_never_more_than_asked(keep_bytes: int, folder_fd: int) -> None:
    result = await run("printf 0123456789ab", folder_fd, keep_bytes=keep_bytes)
    kept = result.head + result.tail
    assert kept == b"0123456789ab" if keep_bytes >= 12 else len(kept) <= keep_bytes
    assert len(kept) + result.cut_bytes == result.total_bytes == 12


async def test_binary_output_is_kept_as_it_is(folder_fd: int) -> None:
    result = await run(r"printf '\000\377\200x'", folder_fd)
    assert result.head == b"\x00\xff\x80x"


async def test_output_is_heard_of_while_the_program_runs(folder_fd: int, tmp_path: Path) -> None:
    def answer(data: bytes) -> None:
        heard.append(data)
        (tmp_path / "heard").touch()

    heard: list[bytes] = []
    result = await run(
        "echo one; until [ -e heard ]; do sleep 0.01; done; echo two", folder_fd, on_output=answer
    )
    assert (b"".join(heard), result.timed_out) == (b"one\ntwo\n", False)


async def test_folder_is_the_opened_one_wherever_it_is_moved(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    fd = os.open(tmp_path / "before", os.O_RDONLY)
    (tmp_path / "before").rename(tmp_path / "after")
    (tmp_path / "before").symlink_to("/")
    try:
        result = await run("touch here", fd)
    finally:
        os.close(fd)
    assert result.exit_code == 0
    assert (tmp_path / "after" / "here").exists()


async def test_program_that_cannot_be_started_is_an_error_for_the_model(folder_fd: int) -> None:
    with pytest.raises(ToolExecutionError, match=r"^missing could not be started: no such file"):
        run_process(["/nowhere/missing"], folder_fd=folder_fd, env={}, timeout_s=1, keep_bytes=1)
    with pytest.raises(ToolExecutionError, match="argument list too long"):
        await run(":" * 3_000_000, folder_fd)


@pytest.mark.parametrize("script", ["echo \0", "echo \ud800"])
async def test_argument_no_program_can_take_is_refused(script: str, folder_fd: int) -> None:
    with pytest.raises(ToolValidationError, match="NUL"):
        await run(script, folder_fd)


async def test_nothing_is_left_open(folder_fd: int) -> None:
    await run("true", folder_fd)
    before = count_open()
    for script in ("true", "sleep 60 & :"):
        await run(script, folder_fd)
    assert count_open() == before


async def test_without_proc_the_process_group_is_ended(tmp_path: Path) -> None:
    stop = Stop()
    tree, hearing = ProcessTree(proc=tmp_path / "missing"), Hearing(stop.fd, [])
    tree.end(hearing)  # nothing has started: nobody is signalled
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $! > pid; wait", cwd=tmp_path, start_new_session=True
    )
    child = await pid_in(tmp_path / "pid")
    tree.leader = process.pid
    await asyncio.to_thread(tree.end, hearing)
    assert await process.wait() == -signal.SIGKILL
    assert not is_alive(child)
    stop.close()


async def test_without_pidfd_the_exit_is_heard_too(folder_fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", none_here)
    assert (await run("echo a; exit 7", folder_fd)).exit_code == 7
    assert (await run("sleep 60 & exit 3", folder_fd)).exit_code == 3
    assert (await run("sleep 60", folder_fd, timeout_s=0.05)).timed_out


def test_environment_holds_no_secret() -> None:
    secrets = {
        "OPENAI_API_KEY": "sk",
        "LOCKSTITCH_HOME": "/h",
        "GITHUB_TOKEN": "t",
        "MY_SECRET": "s",
        "DATABASE_URL": "postgres://user:word@host",
        "BASH_ENV": "/tmp/x",
        "LD_PRELOAD": "/tmp/x.so",
    }
    env = command_environment({**secrets, "HOME": "/home/me", "LANG": "de_DE.UTF-8", "PATH": "/usr/bin"})
    assert not set(env) & set(secrets)
    assert (env["HOME"], env["LANG"], env["PATH"]) == ("/home/me", "de_DE.UTF-8", "/usr/bin")


def test_environment_is_one_where_nobody_sits_at_the_terminal() -> None:
    env = command_environment({"PAGER": "less", "TERM": "xterm", "EDITOR": "vi"})
    assert (env["PAGER"], env["TERM"], env["EDITOR"], env["GIT_TERMINAL_PROMPT"]) == (
        "cat",
        "dumb",
        "true",
        "0",
    )
    assert env["PATH"] == os.defpath


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="needs a virtual environment to be taken out")
def test_own_virtual_environment_is_taken_out() -> None:
    own = str(Path(sys.prefix, "bin"))
    parent = {"PATH": f"{own}:/usr/bin:{own}/:/bin", "VIRTUAL_ENV": sys.prefix, "PYTHONPATH": "x"}
    env = command_environment(parent)
    assert env["PATH"] == "/usr/bin:/bin"
    assert not set(env) & {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
