"""Processes that go on between calls: started, read, reached, ended; in the real sandbox, and without one."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import (
    PathEscapeError,
    ResourceLimitError,
    ToolExecutionError,
    ToolValidationError,
)
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools import background
from lockstitch.tools.background import read_process, start_process, stop_process
from lockstitch.tools.command import run_command
from lockstitch.tools.commands import enclosure
from lockstitch.tools.commands.long_process import FRESH_BYTES, LongProcess
from lockstitch.tools.commands.process import OutputWatcher, ProcessResult
from lockstitch.tools.commands.processes import ENDED_MAX, RUNNING_MAX, Processes, ThreadProcesses
from lockstitch.tools.commands.sandbox import NO_SANDBOX, find_sandbox
from lockstitch.tools.commands.sandbox_view import descriptors_for
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not Path("/proc").is_dir(), reason="needs /proc: elsewhere nobody shows who is left"
)
FOUND = find_sandbox()
PYTHON = os.path.realpath(sys.executable)  # seen in a sandbox, also where our own environment is in /tmp
needs_sandbox = pytest.mark.skipif(FOUND.backend == "none", reason=f"needs a sandbox: {FOUND.reason}")
needs_overlay = pytest.mark.skipif(not FOUND.overlay, reason="needs a sandbox with overlays")
SANDBOXES = [pytest.param(FOUND, marks=needs_sandbox, id="sandbox"), pytest.param(NO_SANDBOX, id="none")]
PATIENCE_S = 60.0  # for a loaded machine; a passing test waits a fraction of it
PORT = 8000  # of a network of its own, where every port is free
ANSWERS = (
    f"{PYTHON} -I -S -c 'import socket\n"
    f's = socket.create_server(("127.0.0.1", {PORT}))\nprint("up", flush=True)\n'
    'while True:\n c, _ = s.accept(); c.sendall(b"hello"); c.close()\''
)
ASK = f"cat < /dev/tcp/127.0.0.1/{PORT}"


@pytest.fixture(autouse=True)
def short_first_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_S", 0.05)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    return root


@pytest.fixture
async def call(root: Path, tmp_path: Path) -> Any:
    processes = Processes()
    settings = load_settings(home=tmp_path / "home", output_chars=2000)
    with Workspace(root) as workspace:
        yield ToolContext(
            workspace=workspace,
            settings=settings,
            spill=SpillStore(tmp_path / "spill", "t"),
            find_sandbox=find_sandbox,
            processes=processes.of("t"),
        )
    await processes.end_all()


def of(call: ToolContext) -> ThreadProcesses:
    assert call.processes is not None
    return call.processes


async def use(tool: Any, call: ToolContext, **given: Any) -> ToolResult:
    result = await tool.ainvoke({**given, "call": call})
    assert isinstance(result, ToolResult)
    return result


async def start(call: ToolContext, command: str, **given: Any) -> ToolResult:
    return await use(start_process, call, command=command, **given)


async def read(call: ToolContext, process_id: str = "p1", wait_s: float = PATIENCE_S) -> ToolResult:
    return await use(read_process, call, process_id=process_id, wait_s=wait_s)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  another process makes it true
            await asyncio.sleep(0.005)


async def hear(call: ToolContext, command: str, last: str) -> str:
    """What a new process says, until it has said `last`."""
    said = (await start(call, command)).output
    async with asyncio.timeout(PATIENCE_S):
        while not said.endswith(last):
            said += (await read(call)).output
    return said


def living_in(folder: Path) -> list[int]:
    """Processes that work in the folder, zombies left out."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                works_in = (process / "cwd").readlink()
                alive = b") Z" not in (process / "stat").read_bytes()
            except OSError:  # ended meanwhile, or somebody else's
                continue
            if alive and works_in.is_relative_to(folder):
                found.append(int(process.name))
    return found


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_process_goes_on_and_says_each_thing_once(sandbox: Any, call: ToolContext, root: Path) -> None:
    call = replace(call, find_sandbox=lambda: sandbox)
    first = await start(call, "pwd; until [ -e go ]; do sleep 0.01; done; echo more; sleep 60; :")
    assert first.output.startswith("Process p1: running\n[It ends with this run")
    seen = first.output if "ws\n" in first.output else (await read(call)).output
    assert seen.endswith(f"{root}\n")
    (root / "go").touch()
    assert (await read(call)).output == "Process p1: running\nmore\n"
    nothing = await read(call, wait_s=0)
    assert nothing.output == "Process p1: running\n[it has said nothing new]"
    assert nothing.data == {"process_id": "p1", "running": True, "exit_code": None}
    stopped = await use(stop_process, call, process_id="p1")
    assert stopped.output.startswith("Process p1: ended: it was stopped")
    assert living_in(root) == []


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_one_that_ends_at_once_says_how(
    sandbox: Any, call: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FIRST_S", PATIENCE_S)
    call = replace(call, find_sandbox=lambda: sandbox)
    ended = await start(call, "echo no; exit 3")
    assert ended.output == "Process p1: ended\nExit code: 3\nno\n"
    assert ended.data == {"process_id": "p1", "running": False, "exit_code": 3}
    killed = await start(call, "kill -SEGV $$")
    assert killed.output.startswith("Process p2: ended\nExit code: 139")
    again = await use(stop_process, call, process_id="p1")
    assert again.output == "Process p1: ended\nExit code: 3\n[it has said nothing new]"


async def test_end_is_heard_of_while_reading_waits(call: ToolContext, root: Path) -> None:
    await start(call, "until [ -e go ]; do sleep 0.01; done; exit 4")
    reading = asyncio.create_task(read(call))
    await asyncio.sleep(0)
    (root / "go").touch()
    assert (await reading).output.startswith("Process p1: ended\nExit code: 4")


async def test_unknown_ids_name_those_there_are(call: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match=r"no process 'p1'. There are: none. .* start_process"):
        await read(call)
    await start(call, "sleep 60; :")
    for tool in (read_process, stop_process):
        with pytest.raises(ToolValidationError, match=r"no process '7'. There are: p1 \(running\)"):
            await use(tool, call, process_id="7")


async def test_so_many_run_at_once_and_no_more(call: ToolContext, root: Path) -> None:
    for _ in range(RUNNING_MAX):
        await start(call, "sleep 60; :")
    with pytest.raises(ResourceLimitError, match=r"p1, p2, p3, p4, p5.*stop_process"):
        await start(call, "touch one-more")
    await use(stop_process, call, process_id="p3")
    assert (await start(call, "sleep 60; :")).output.startswith("Process p6: running")
    assert not (root / "one-more").exists()


async def test_ended_ones_are_forgotten_in_time(call: ToolContext) -> None:
    for number in range(1, ENDED_MAX + 3):
        await start(call, "true")
        await of(call).find(f"p{number}").end()
    await start(call, "true")
    assert [one.process_id for one in of(call)] == ["p3", "p4", "p5", "p6", "p7", "p8"]


async def test_what_cannot_start_is_an_error_and_no_process(
    call: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FIRST_S", PATIENCE_S)
    with pytest.raises(ToolValidationError, match="empty"):
        await start(call, " ")
    with pytest.raises(PathEscapeError):
        await start(call, "true", working_directory="../..")
    with pytest.raises(ToolExecutionError, match="no nope"):
        await start(call, "true", working_directory="nope")
    with pytest.raises(ToolExecutionError, match="needs a run"):
        await start(replace(call, processes=None), "true")
    assert list(of(call)) == []


@needs_sandbox
async def test_sandbox_that_cannot_be_made_runs_nothing_and_says_so(
    call: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FIRST_S", PATIENCE_S)
    broken = replace(FOUND, program="/bin/false")
    with pytest.raises(ToolExecutionError, match="could not be set up, so nothing ran"):
        await start(replace(call, find_sandbox=lambda: broken), "true")
    assert list(of(call)) == []


@needs_sandbox
async def test_server_is_reached_by_later_commands_and_the_outside_is_not(call: ToolContext) -> None:
    await hear(call, ANSWERS, "up\n")
    with socket.create_server(("127.0.0.1", 0)) as outside:
        said = await use(run_command, call, command=f"{ASK}; {_probe(outside)}; {_no_way_out()}")
    assert said.output.splitlines()[1:] == ["hellounreached", "3", "refused", "1"]


def _probe(outside: socket.socket) -> str:
    port = outside.getsockname()[1]
    return f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo unreached"


def _no_way_out() -> str:
    """Descriptors, a namespace of users below, capabilities: as in a command's own network."""
    return (
        "for n in /proc/self/fd/*; do readlink $n; done | grep -c -e /dev/null -e pipe: -e /proc;"
        " unshare -Ur true 2>/dev/null || echo refused; grep -c 'CapEff:.0*$' /proc/self/status"
    )


@needs_sandbox
async def test_threads_do_not_share_a_network(call: ToolContext) -> None:
    await hear(call, ANSWERS, "up\n")
    other = replace(call, processes=ThreadProcesses())
    try:
        assert "hello" not in (await use(run_command, other, command=ASK)).output
        await start(other, "sleep 60; :")
        assert "hello" not in (await use(run_command, other, command=ASK)).output
    finally:
        await of(other).end_all()


@needs_sandbox
async def test_with_the_network_on_nothing_is_shared(call: ToolContext) -> None:
    on = replace(call, network="on")
    await start(on, "sleep 60; :")
    assert of(call).shared_network("on") is None
    with socket.create_server(("127.0.0.1", 0)) as outside:
        assert "unreached" not in (await use(run_command, on, command=_probe(outside))).output
        assert "unreached" in (await use(run_command, call, command=_probe(outside))).output


@needs_sandbox
async def test_named_domains_are_a_network_of_their_own(call: ToolContext) -> None:
    named = replace(call, network=("example.org",))
    await hear(named, ANSWERS, "up\n")
    assert (await use(run_command, named, command=ASK)).output == "Exit code: 0\nhello"
    assert "hello" not in (await use(run_command, call, command=ASK)).output


@needs_sandbox
async def test_where_no_network_can_be_shared_it_is_said(
    call: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstitch.tools.commands.shared_network.SYSTEM_FOLDERS", ())
    started = await start(call, ANSWERS)
    assert "cannot reach its ports" in started.output
    assert "in one run_command" in started.output
    assert "hello" not in (await use(run_command, call, command=ASK)).output


@needs_overlay
async def test_what_it_changes_in_mode_plan_is_thrown_away(call: ToolContext, root: Path) -> None:
    await hear(replace(call, discard=True), "touch made && echo done; sleep 60; :", "done\n")
    await use(stop_process, call, process_id="p1")
    assert not (root / "made").exists()


async def test_characters_are_never_torn_by_a_reading(call: ToolContext, root: Path) -> None:
    await hear(call, r"printf 'a\303'; until [ -e go ]; do sleep 0.01; done; printf '\274\303'", "a")
    process = of(call).find("p1")
    (root / "go").touch()
    await until(lambda: not process.running)
    assert (await read(call)).output.endswith("\nü\N{REPLACEMENT CHARACTER}")


async def test_long_output_is_bounded_and_the_rest_is_kept_to_be_read(call: ToolContext, root: Path) -> None:
    await start(
        call, "until [ -e go ]; do sleep 0.01; done; echo first; head -c 3000000 /dev/zero; echo last"
    )
    (root / "go").touch()
    await until(lambda: not of(call).find("p1").running)
    said = (await read(call)).output
    assert len(said) <= call.settings.output_chars
    assert "first\n" in said
    assert said.endswith("last\n")
    assert "[cut: " in said
    (kept,) = call.spill.ids()
    assert f"[cut: {FRESH_BYTES} of 3000011 bytes shown" in call.spill.read(kept)


async def test_output_is_taken_while_the_loop_of_the_runs_stands_still(call: ToolContext, root: Path) -> None:
    await start(call, "until [ -e go ]; do sleep 0.01; done; head -c 1000000 /dev/zero; touch done; sleep 60")
    (root / "go").touch()
    deadline = time.monotonic() + 30  # of 60
    while not (root / "done").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # noqa: ASYNC251  this loop is to stand still


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_none_outlives_its_run_unless_it_is_kept(sandbox: Any, call: ToolContext, root: Path) -> None:
    call = replace(call, find_sandbox=lambda: sandbox)
    for name in ("one", "two"):
        loop = (
            f"trap '' TERM; touch {name}; setsid sh -c 'sleep 60 & sleep 60' & while :; do sleep 0.01; done"
        )
        await start(call, loop)
        await until((root / name).exists)
    of(call).find("p2").kept = True
    began = time.monotonic()
    await of(call).end_run()
    assert time.monotonic() - began < 30  # of 60
    assert [(one.process_id, one.running) for one in of(call)] == [("p2", True)]
    assert living_in(root) != []
    await of(call).end_all()
    assert list(of(call)) == []
    assert living_in(root) == []
    with pytest.raises(ToolValidationError, match="ended with its run, or with the program that ran it"):
        await read(call, "p1")
    assert (await start(call, "true")).data["process_id"] == "p3"


async def test_stop_at_any_moment_of_a_start_leaves_nothing(call: ToolContext, root: Path) -> None:
    await start(call, "true")
    await of(call).end_all()
    open_before, threads_before = _open_descriptors(), threading.active_count()
    for ms in range(0, 30, 3):
        task = asyncio.create_task(start(call, "sleep 60; :"))
        await asyncio.wait([task], timeout=ms / 1000)
        task.cancel()
        await asyncio.wait([task])
        await of(call).end_run()
    assert living_in(root) == []
    assert _open_descriptors() <= open_before
    assert threading.active_count() <= threads_before + 8  # of the loop's executor, which stay for the next


@needs_sandbox
async def test_stop_that_is_repeated_while_it_is_set_up_leaves_nothing(
    call: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start(call, "true")
    await of(call).end_all()
    open_before, begun, go_on = _open_descriptors(), threading.Event(), threading.Event()

    def slowly(*given: Any) -> tuple[int, ...]:
        begun.set()
        go_on.wait(60)
        return descriptors_for(*given)

    monkeypatch.setattr(enclosure, "descriptors_for", slowly)
    task = asyncio.create_task(start(call, "sleep 60; :"))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(3):
        for process in of(call):
            process.stop()
        await asyncio.sleep(0.01)
    go_on.set()
    await asyncio.wait([task])
    await of(call).end_run()
    assert _open_descriptors() <= open_before


async def test_one_that_is_stopped_before_it_has_begun_ends() -> None:
    async def live(_: OutputWatcher) -> ProcessResult:
        await asyncio.Event().wait()
        raise AssertionError

    for _ in range(20):
        process = LongProcess("p1", live, command="", folder=".")
        await process.end()
        assert (process.running, process.result, process.fault) == (False, None, None)


def _open_descriptors() -> set[tuple[str, str]]:
    """With what each leads to; those that earlier tests left to be collected are collected first."""
    gc.collect()
    return {(fd.name, str(fd.readlink())) for fd in Path("/proc/self/fd").iterdir() if os.path.lexists(fd)}


@needs_sandbox
async def test_it_dies_with_us(root: Path, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from lockstitch.state.settings import load_settings\nfrom lockstitch.state.spill import SpillStore\n"
        "from lockstitch.tools.background import start_process\n"
        "from lockstitch.tools.context import ToolContext\n"
        "from lockstitch.tools.commands.processes import ThreadProcesses\n"
        "from lockstitch.tools.commands.sandbox import find_sandbox\n"
        "from lockstitch.tools.workspace import Workspace\n"
        "root, home = map(Path, sys.argv[1:])\n"
        "call = ToolContext(workspace=Workspace(root), settings=load_settings(home=home),\n"
        "                   spill=SpillStore(home, 't'), find_sandbox=find_sandbox,\n"
        "                   processes=ThreadProcesses())\n"
        "async def main():\n"
        "    await start_process.ainvoke({'command': 'while :; do date +%N > alive; sleep 0.01; done',\n"
        "                                 'call': call})\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(root), str(tmp_path / "h"))
    await until((root / "alive").exists)
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    await until(lambda: living_in(root) == [])
