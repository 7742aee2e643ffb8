"""A sandbox that stands ready is used where a new one would be the same; unused, it leaves nothing."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kept_files import step_of

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.changes.spare_layers import delete_spares
from lockstitch.tools.command import run_command
from lockstitch.tools.commands import (
    hearing,
    process,
    ready_place,
    ready_sandbox,
    sandbox_view,
    whiteouts,
)
from lockstitch.tools.commands.hearing import Stop, Stopped
from lockstitch.tools.commands.mounts import read_mount_table
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.ready_place import COMMAND_BYTES, READY_MAX, ReadyPlace
from lockstitch.tools.commands.ready_sandbox import ReadySandbox
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(not find_sandbox().overlay, reason="needs a sandbox with overlays")

AGENT = """
import asyncio, os, sys, time
from pathlib import Path
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

home = Path(sys.argv[1])
processes = ThreadProcesses()
call = ToolContext(workspace=Workspace(Path(sys.argv[2]), hidden=(home,)), settings=load_settings(home=home),
    spill=SpillStore(home / "spill", "t"), find_sandbox=find_sandbox, layers=home, processes=processes)
asyncio.run(run_command.coroutine(command=":", call=call))
processes.ready.wait()
print(processes.ready._ready._process.pid, flush=True)
if sys.argv[3] == "wait":
    time.sleep(600)
"""


MOUNTED_S = 0.5  # for its mounts, where nobody may see that it waits at its gate


class Desk:
    """Commands of one thread in layers."""

    def __init__(self, base: Path, journal: Journal) -> None:
        self.base, self.root, self.home = base, base / "ws", base / "ours"
        self.root.mkdir()
        self.home.mkdir()
        self.processes = ThreadProcesses()
        step = step_of(journal, self.root)
        self.call = ToolContext(
            workspace=Workspace(self.root, hidden=(self.home,)),
            settings=load_settings(home=self.home, command_timeout_max_s=60),
            spill=SpillStore(base / "spill", "t"),
            find_sandbox=find_sandbox,
            journal=step.of_call("c", "run_command"),
            layers=self.home,
            processes=self.processes,
        )

    async def run(self, command: str, call: ToolContext | None = None, **given: Any) -> str:
        found = await run_command.coroutine(command=command, call=call or self.call, **given)  # type: ignore[misc]
        assert isinstance(found, ToolResult)
        return str(found.output)

    async def stand_ready(self) -> ReadySandbox:
        if not self.processes.ready._ready:
            await self.run(":")
        return await self.ready_one()

    async def ready_one(self) -> ReadySandbox:
        await asyncio.to_thread(self.processes.ready.wait)
        ready = self.processes.ready._ready
        assert ready
        first, deadline = ready.tree._first, time.monotonic() + MOUNTED_S
        while not (first and waits_at_gate(first)) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return ready


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    person = tmp_path / "person"
    (person / ".ssh").mkdir(parents=True)
    (person / ".ssh" / "id_rsa").write_text("SECRET")
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setattr(ready_place, "AFTER_S", 0.0)
    with open_ledger(tmp_path / "ledger.db") as ledger:
        made = Desk(tmp_path, Journal(ledger, ObjectStore(tmp_path / "objects", ledger)))
        yield made
        await made.processes.end_all()
        made.call.workspace.close()
    delete_spares()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids of what commands start when they run, and not before."""
    pids: list[int] = []
    start = process.start_program

    def start_program(*args: Any, **kwargs: Any) -> "subprocess.Popen[bytes]":
        made = start(*args, **kwargs)
        pids.append(made.pid)
        return made

    monkeypatch.setattr(process, "start_program", start_program)
    return pids


def is_there(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_next_command_runs_in_the_one_that_stands_ready(desk: Desk, started: list[int]) -> None:
    (desk.root / "a").write_text("a\n")
    await desk.stand_ready()
    started.clear()
    said = await desk.run("cat a; echo b >> a; echo new > b; pwd")
    assert started == []
    assert said.startswith(f"Exit code: 0\n[changed M a, A b]\na\n{desk.root}")
    assert (desk.root / "a").read_text() == "a\nb\n"
    await desk.ready_one()
    assert "a\nb\n" in await desk.run("cat a")
    assert started == []


@pytest.mark.parametrize(
    "command",
    [
        "env | sort; set | grep -v -e BASH_EXECUTION -e ^_=; ulimit -a; grep -e Cap -e Sig /proc/self/status",
        "echo $0 $# $- $$ $PPID $SHLVL $LINENO; ls /proc/self/fd /proc/$$/fd",
        "read -r x; echo ended $?; cat; tty",
        "echo one\necho 'two  three'\n  cat <<'END'\n$x \\ `y`\nEND\n",
        "printf '%s|' \"a b\" 'ü' \"\\n\" $'\\t' é ; echo",
        "exit 7",
        "kill -9 $$",
        "echo out; echo err >&2; nonsense-that-is-missing; false",
        "if then",
        "ps -e -o pid,comm",
        "exec sleep 0",
        "trap 'echo bye' EXIT; (sleep 0.01; echo child) & wait; echo $!",
        "-x",
        "  \n true \n\n",
        "cat /proc/1/environ; mount | grep -c .; id; umask; hostname; ulimit -u",
    ],
)
async def test_nothing_of_a_command_is_different(command: str, desk: Desk, started: list[int]) -> None:
    cold = await desk.run(command, replace(desk.call, processes=None))
    await desk.stand_ready()
    started.clear()
    assert await desk.run(command) == cold
    assert started == []


async def test_long_command_is_read_to_its_end_and_a_longer_one_started_anew(
    desk: Desk, started: list[int]
) -> None:
    for size, is_new in ((COMMAND_BYTES - 100, False), (COMMAND_BYTES + 1, True)):
        await desk.stand_ready()
        started.clear()
        said = await desk.run(f"echo {'x' * size} | wc -c")
        assert said == f"Exit code: 0\n{size + 1}\n"
        assert bool(started) is is_new


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_what_no_program_can_be_given_is_refused_as_ever(command: str, desk: Desk) -> None:
    await desk.stand_ready()
    with pytest.raises(Exception, match="NUL byte or half"):
        await desk.run(command)


async def test_workspace_is_seen_as_it_is_and_not_as_it_was(desk: Desk, started: list[int]) -> None:
    root = desk.root
    for name in ("edited", "deleted", "replaced", "made_executable"):
        (root / name).write_text("before\n")
    for name in ("folder", "gone", "becomes_file"):
        (root / name).mkdir()
        (root / name / "in").write_text("before\n")
    await desk.stand_ready()
    (root / "edited").write_text("after\n")
    (root / "deleted").unlink()
    (root / "other").write_text("other\n")
    (root / "other").rename(root / "replaced")
    (root / "made_executable").chmod(0o755)
    (root / "new").write_text("new\n")
    (root / "folder").rename(root / "was")
    (root / "folder").mkdir()
    (root / "folder" / "inside").write_text("inside\n")
    (root / "gone" / "in").unlink()
    (root / "gone").rmdir()
    (root / "becomes_file" / "in").unlink()
    (root / "becomes_file").rmdir()
    (root / "becomes_file").write_text("file\n")
    look = (
        "find . | sort; cat edited new replaced folder/inside becomes_file; test -x made_executable && echo x"
    )
    cold = await desk.run(look, replace(desk.call, processes=None))
    started.clear()
    assert await desk.run(look) == cold
    assert started == []
    assert cold.endswith("after\nnew\nother\ninside\nfile\nx\n")


async def test_what_changed_while_it_stood_ready_is_no_conflict(desk: Desk, started: list[int]) -> None:
    (desk.root / "a").write_text("one\n")
    await desk.stand_ready()
    time.sleep(0.02)  # noqa: ASYNC251  longer than a tick of any kernel's clock
    (desk.root / "a").write_text("two\n")
    (desk.root / "b").mkdir()
    started.clear()
    said = await desk.run("echo three >> a; echo x > b/c; rm -f d")
    assert said == "Exit code: 0\n[changed M a, A b/c]"
    assert (desk.root / "a").read_text() == "two\nthree\n"
    assert started == []


def new_secret(desk: Desk) -> None:
    (desk.base / "person" / ".netrc").write_text("SECRET")


def other_workspace(desk: Desk) -> None:
    desk.root.chmod(0o711)


def other_layer_folder(desk: Desk) -> None:
    layers = desk.home / "layers"
    layers.rename(desk.home / "was")
    layers.mkdir()


def project_settings_in_reach(desk: Desk) -> None:
    """A linked worktree now: its repository is written to as well, and has places to protect."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    make = """
        git init -q main && cd main
        git -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m x
        git worktree add -q ../tree && mv ../tree/.git ../ws/.git
    """
    subprocess.run(["sh", "-ec", make], cwd=desk.base, env=env, check=True)
    (desk.base / "main" / ".git" / "worktrees" / "tree" / "gitdir").write_text(f"{desk.root}/.git\n")


def killed(desk: Desk) -> None:
    ready = desk.processes.ready._ready
    assert ready
    os.kill(ready._process.pid, signal.SIGKILL)
    ready._process.wait()


@pytest.mark.parametrize(
    "change",
    [
        new_secret,
        other_workspace,
        other_layer_folder,
        project_settings_in_reach,
        killed,
    ],
)
async def test_after_a_change_that_a_new_one_would_show_a_new_one_is_made(
    change: Callable[[Desk], None], desk: Desk, started: list[int]
) -> None:
    ready = await desk.stand_ready()
    pid = ready._process.pid
    change(desk)
    started.clear()
    said = await desk.run("cat ~/.ssh/* ~/.netrc; stat -c %a . > mode; echo done")
    assert len(started) == 1
    assert "done" in said
    assert "SECRET" not in said
    await desk.processes.end_all()
    assert not is_there(pid)


@pytest.mark.parametrize("is_masked", [False, True], ids=["layer", "mounts"])
async def test_other_folder_in_a_secrets_place_is_hidden_as_the_first(
    is_masked: bool, desk: Desk, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_masked:
        monkeypatch.setattr(sandbox_view, "whiteout_layer", lambda *_, **__: None)
        await desk.run(":")
        await asyncio.to_thread(desk.processes.ready.wait)
        assert desk.processes.ready._ready is None
    else:
        await desk.stand_ready()
    place = desk.base / "person" / ".ssh"
    place.rename(desk.base / "person" / "was")
    place.mkdir()
    (place / "id_rsa").write_text("SECRET")
    started.clear()
    said = await desk.run("cat ~/.ssh/*; ls -A ~ ~/was; echo done")
    assert len(started) == is_masked
    assert "SECRET" not in said
    assert "id_rsa" in said.partition("was:")[2]  # of a folder that is no secret's place


async def test_secret_that_is_written_anew_where_a_link_leads_stays_hidden(desk: Desk) -> None:
    elsewhere = desk.base / "elsewhere"
    elsewhere.write_text("SECRET")
    (desk.base / "person" / ".netrc").symlink_to(elsewhere)
    await desk.run(":")
    await asyncio.to_thread(desk.processes.ready.wait)
    elsewhere.unlink()
    elsewhere.write_text("SECRET")  # often by the same number on the disk
    assert "SECRET" not in await desk.run(f"cat ~/.netrc {elsewhere}; echo done")


async def test_whiteouts_that_go_while_it_stands_ready_are_not_missed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(whiteouts, "PLACES", (str(tmp_path / "run"),))
    secret = desk.base / "person" / ".config" / "gh" / "hosts"
    secret.parent.mkdir(parents=True)
    secret.write_text("SECRET")
    root = desk.base / "person" / ".config" / "nvim"  # bubblewrap itself looks at what is above it
    root.mkdir()
    call = replace(desk.call, workspace=Workspace(root, hidden=(desk.home,)), journal=None)
    await desk.run(":", call)
    await desk.ready_one()
    (layer,) = (tmp_path / "run").glob("*/*")
    shutil.rmtree(layer / ".config")
    assert "SECRET" not in await desk.run("cat ~/.config/gh/*; echo done", call)
    call.workspace.close()


async def test_no_edit_is_lost_below_a_folder_that_was_replaced(desk: Desk) -> None:
    (desk.root / "a" / "hidden").mkdir(parents=True)
    (desk.root / "a" / "f").write_text("old\n")
    hiding = Workspace(desk.root, hidden=(desk.home, desk.root / "a" / "hidden"))
    call = replace(desk.call, workspace=hiding)
    await desk.run(":", call)
    await asyncio.to_thread(desk.processes.ready.wait)
    (desk.root / "a").rename(desk.root / "was")
    (desk.root / "a").mkdir()
    (desk.root / "was" / "hidden").rename(desk.root / "a" / "hidden")
    (desk.root / "a" / "f").write_text("new\n")
    await desk.run("echo line >> a/f", call)
    assert (desk.root / "a" / "f").read_text() == "new\nline\n"
    hiding.close()


async def test_our_own_home_may_lie_anywhere(desk: Desk, started: list[int]) -> None:
    """Outside of the person's and of what is empty for commands, a mount hides it."""
    with tempfile.TemporaryDirectory(dir=pwd.getpwuid(os.getuid()).pw_dir) as place:
        home, root = Path(place, "ours"), Path(place, "ws")
        for folder in (home, root):
            folder.mkdir()
        (home / "threads.db").write_text("SECRET")
        hiding = Workspace(root, hidden=(home,))
        call = replace(desk.call, workspace=hiding, layers=home, journal=None)
        await desk.run(":", call)
        await desk.ready_one()
        started.clear()
        assert "SECRET" not in await desk.run(f"cat {home}/*; echo done", call)
        assert started == []
        await desk.processes.end_all()
        delete_spares()
        hiding.close()


async def test_folder_above_the_workspace_is_seen_as_it_is(desk: Desk) -> None:
    above = desk.base / "person" / "above"
    (above / "ws").mkdir(parents=True)
    (above / "f").write_text("old")
    call = replace(desk.call, workspace=Workspace(above / "ws", hidden=(desk.home,)), journal=None)
    await desk.run(":", call)
    await desk.ready_one()
    above.rename(desk.base / "person" / "was")
    above.mkdir()
    (desk.base / "person" / "was" / "ws").rename(above / "ws")
    (above / "f").write_text("new")
    assert await desk.run("cat ../f; ls -A ..", call) == "Exit code: 0\nnewf\nws\n"
    call.workspace.close()


async def test_top_folder_is_as_new_as_in_a_new_one(desk: Desk) -> None:
    await desk.stand_ready()
    await asyncio.sleep(1.1)
    before = time.time()
    said = await desk.run("stat -c %Y .")
    assert int(said.split()[-1]) >= int(before)


@pytest.mark.parametrize(
    "given", [{"network": "on"}, {"discard": True}, {"layers": None}], ids=["network", "discard", "layers"]
)
async def test_call_of_another_kind_gets_its_own(
    given: dict[str, Any], desk: Desk, started: list[int]
) -> None:
    await desk.stand_ready()
    started.clear()
    assert "done" in await desk.run("echo done", replace(desk.call, **given))
    assert len(started) == 1


async def test_command_in_another_folder_or_environment_gets_its_own(
    desk: Desk, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.root / "sub").mkdir()
    await desk.stand_ready()
    started.clear()
    assert f"{desk.root}/sub" in await desk.run("pwd", working_directory="sub")
    assert len(started) == 1
    await desk.stand_ready()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    started.clear()
    assert "JST" in await desk.run("date +%Z; echo $TZ; [ $TZ = Asia/Tokyo ] && echo JST")
    assert len(started) == 1


async def test_mount_that_came_meanwhile_is_not_seen_with_old_eyes(
    desk: Desk, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.stand_ready()
    started.clear()
    more = f"{read_mount_table()}99 1 9:9 / /mnt/stick rw - vfat /dev/sdz rw\n"
    monkeypatch.setattr(ready_sandbox, "read_mount_table", lambda: more)
    assert "done" in await desk.run("echo done")
    assert len(started) == 1


async def test_nothing_of_it_is_left_when_the_run_is_over(desk: Desk) -> None:
    await desk.run(":")
    await desk.processes.end_run()
    delete_spares()
    before = descriptors()
    ready = await desk.stand_ready()
    pid = ready._process.pid
    assert is_there(pid)
    await desk.processes.end_run()
    assert not is_there(pid)
    delete_spares()
    assert list((desk.home / "layers").iterdir()) == []
    assert descriptors() == before
    assert (await desk.stand_ready()) is not ready  # the next run's


async def test_run_that_ends_while_it_is_made_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ReadySandbox] = []
    init = ReadySandbox.__init__

    def slowly(self: ReadySandbox, *given: Any) -> None:
        time.sleep(0.05)
        init(self, *given)
        made.append(self)

    monkeypatch.setattr(ReadySandbox, "__init__", slowly)
    await desk.run(":")
    while not desk.processes.ready._coming and not made:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    await desk.processes.end_run()
    assert not any(is_there(one._process.pid) for one in made)
    assert desk.processes.ready._ready is None


async def test_run_that_ends_before_it_is_begun_makes_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, started: list[int]
) -> None:
    monkeypatch.setattr(ready_place, "AFTER_S", 600.0)
    await desk.run(":")
    started.clear()
    await asyncio.wait_for(desk.processes.end_run(), 60)
    assert started == []


async def test_making_is_put_off_by_a_command_that_comes_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_place, "AFTER_S", 600.0)
    await desk.run(":")
    first = desk.processes.ready._coming
    await desk.run("date >> a")
    second = desk.processes.ready._coming
    assert first
    assert second
    assert second is not first


async def test_stopped_call_runs_nothing_and_ends_the_one_it_took(desk: Desk) -> None:
    ready = await desk.stand_ready()
    pid = ready._process.pid
    stop = Stop()
    stop.tell()
    from lockstitch.tools.commands.enclosure import Job, open_enclosure
    from lockstitch.tools.commands.shell import bash, run_job

    def stopped() -> None:
        job = Job(bash, "touch ran", folder=".", timeout_s=9, keep_bytes=99)
        with open_enclosure(job, desk.call, proxy=None) as enclosure:
            assert enclosure.tree is ready.tree
            run_job(job, enclosure, on_output=lambda _: None, stop=stop)

    with pytest.raises(Stopped):
        await asyncio.to_thread(stopped)
    stop.close()
    assert not is_there(pid)
    assert not (ready.layer.folder / "upper" / "ran").exists()
    assert not desk.processes.ready._coming
    assert desk.processes.ready._ready is None


async def test_cancelled_and_timed_out_commands_are_ended(desk: Desk) -> None:
    await desk.stand_ready()
    running = asyncio.create_task(desk.run("echo x > begun; sleep 600"))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    ready = await desk.stand_ready()
    said = await desk.run("sleep 600 & sleep 601", timeout_s=1)
    assert "timed out" in said.lower()
    assert not is_there(ready._process.pid)
    assert sorted(path.name for path in desk.root.iterdir()) == []


async def test_commands_at_the_same_time_share_none(desk: Desk, started: list[int]) -> None:
    await desk.stand_ready()
    started.clear()
    both = await asyncio.gather(*(desk.run(f"sleep 0.1; echo {n} > f{n}; ls -A") for n in range(3)))
    assert len(started) >= 2
    assert sorted(path.name for path in desk.root.iterdir()) == ["f0", "f1", "f2"]
    assert all(f"f{n}" in said for n, said in enumerate(both))


async def test_held_change_survives_the_one_it_was_made_in(desk: Desk, started: list[int]) -> None:
    await desk.stand_ready()
    started.clear()
    found = await run_command.coroutine(command="echo x > a", call=replace(desk.call, hold=True))  # type: ignore[misc]
    assert started == []
    assert found.pending is not None
    assert not (desk.root / "a").exists()
    kept = [layer for layer in (desk.home / "layers").iterdir() if (layer / "upper" / "a").exists()]
    assert len(kept) == 1


async def test_there_are_only_so_many_at_once(desk: Desk) -> None:
    places = [ThreadProcesses() for _ in range(READY_MAX + 2)]
    for processes in places:
        await desk.run(":", replace(desk.call, processes=processes))
        await asyncio.to_thread(processes.ready.wait)
    assert sum(place.ready._ready is not None for place in places) == READY_MAX
    for processes in places:
        await processes.end_all()


async def test_there_are_no_more_when_many_are_wanted_at_once(desk: Desk) -> None:
    await desk.stand_ready()
    around = desk.processes.ready._ready._around  # type: ignore[union-attr]
    places = [ReadyPlace() for _ in range(3 * READY_MAX)]
    for place in places:
        place.prepare(around)
    for place in places:
        await asyncio.to_thread(place.wait)
    assert sum(place._ready is not None for place in places) <= READY_MAX
    assert len(ready_place._filled) <= READY_MAX
    for place in places:
        await asyncio.to_thread(place.end)
    assert ready_place._filled in ([], [desk.processes.ready])


async def test_run_ends_though_one_cannot_be_made_in_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, go_on, made = threading.Event(), threading.Event(), []
    make = ready_place.make_ready

    def stuck(*given: Any) -> ReadySandbox | None:
        has_begun.set()
        go_on.wait(60)
        made.append(make(*given))
        return made[-1]

    monkeypatch.setattr(ready_place, "make_ready", stuck)
    monkeypatch.setattr(ready_place, "END_S", 0.05)
    await desk.run(":")
    assert await asyncio.to_thread(has_begun.wait, 60)
    await asyncio.wait_for(desk.processes.end_run(), 30)
    assert ready_place._filled == []
    go_on.set()
    async with asyncio.timeout(30):
        while not made or (made[0] and is_there(made[0]._process.pid)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert desk.processes.ready._ready is None


async def test_none_comes_later_where_no_thread_could_be_had(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[Callable[[], None]] = []

    def refuse(work: Callable[[], None]) -> None:
        queued.append(work)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(hearing._WORKERS, "submit", refuse)
    with pytest.raises(RuntimeError):
        hearing.aside(queued.clear)
    for work in queued:
        work()
    assert len(queued) == 1


@pytest.mark.parametrize("fault", [OSError("disk full"), ToolExecutionError("no place")])
async def test_one_that_cannot_be_made_is_missed_by_nobody(
    fault: Exception, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr(ready_sandbox, "open_layer", fail)
    assert await desk.run("echo a > a") == "Exit code: 0\n[changed A a]"
    await asyncio.to_thread(desk.processes.ready.wait)
    assert desk.processes.ready._ready is None
    assert await desk.run("cat a") == "Exit code: 0\na\n"


def agent(desk: Desk, how: str) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-c", AGENT, str(desk.home), str(desk.root), how]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


async def test_program_that_ends_without_a_word_leaves_nothing(desk: Desk) -> None:
    def see() -> int:
        with agent(desk, "end") as process:
            assert process.stdout
            return int(process.stdout.read())

    pid = await asyncio.to_thread(see)
    await gone(pid)
    assert list((desk.home / "layers").iterdir()) == []


async def test_killed_program_takes_it_along(desk: Desk) -> None:
    with agent(desk, "wait") as killed:
        assert killed.stdout
        pid = int(await asyncio.to_thread(killed.stdout.readline))
        assert is_there(pid)
        while not (first := [child for child in children_of(pid) if waits_at_gate(child)]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # earlier, bubblewrap itself can be cut off from what it has begun
        killed.kill()
    await gone(pid, *first)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def waits_at_gate(pid: int) -> bool:
    return "pipe" in Path(f"/proc/{pid}/wchan").read_text()


async def gone(*pids: int) -> None:
    """Wait until they are: who ends them is the kernel."""
    async with asyncio.timeout(30):
        while any(map(is_there, pids)):  # noqa: ASYNC110  nobody tells of it
            await asyncio.sleep(0.01)
