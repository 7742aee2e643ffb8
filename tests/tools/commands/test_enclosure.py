"""A command in the real sandbox: what it reaches, what it leaves behind, and what it cannot touch."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands import process_tree
from lockstitch.tools.commands.sandbox import NO_SANDBOX, find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

FOUND = find_sandbox()
PYTHON = os.path.realpath(sys.executable)  # seen in a sandbox, also where our own environment is in /tmp
needs_sandbox = pytest.mark.skipif(FOUND.backend == "none", reason=f"needs a sandbox: {FOUND.reason}")
needs_overlay = pytest.mark.skipif(not FOUND.overlay, reason="needs a sandbox with overlays")
GIT_ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

Run = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    return root


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a person, with secrets in it."""
    home = tmp_path / "person"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("SECRET")
    (home / ".netrc").write_text("SECRET")
    (home / ".cache").mkdir()
    (home / ".cache" / "wheel").write_text("cached")
    (home / "real-aws").mkdir()
    (home / "real-aws" / "credentials").write_text("SECRET")
    (home / ".aws").symlink_to(home / "real-aws")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def call(root: Path, tmp_path: Path, person: Path) -> Iterator[ToolContext]:
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "threads.db").write_text("SECRET")
    settings = load_settings(home=ours, command_timeout_max_s=10)
    with Workspace(root, hidden=(ours,)) as workspace:
        spill = SpillStore(tmp_path / "spill", "t")
        yield ToolContext(workspace=workspace, settings=settings, spill=spill, find_sandbox=find_sandbox)


async def run(call: ToolContext, command: str, **given: Any) -> str:
    result = await run_command.ainvoke({"command": command, "call": call, **given})
    return str(result.output)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=GIT_ENV, check=True, capture_output=True)


def new_repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "config", "user.name", "A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@needs_sandbox
async def test_workspace_is_changed_and_nothing_else_is(
    call: ToolContext, root: Path, tmp_path: Path
) -> None:
    said = await run(call, f"pwd; touch here; touch {tmp_path}/out; touch /usr/out", working_directory="sub")
    assert said.startswith(f"Exit code: 1\n{root}/sub\n")
    assert said.count("Read-only file system") == 1  # of /usr; /tmp is its own
    assert (root / "sub" / "here").exists()
    assert not (tmp_path / "out").exists()
    assert names(root) == ["sub"]


@needs_sandbox
async def test_secrets_and_our_own_home_are_empty(call: ToolContext, person: Path, tmp_path: Path) -> None:
    said = await run(call, f"cat ~/.ssh/* ~/.netrc ~/.aws/* ~/real-aws/* {tmp_path}/ours/*; ls ~/.ssh ~")
    assert "SECRET" not in said
    assert "real-aws" in said


@needs_overlay
async def test_caches_are_read_and_what_is_planted_in_them_is_forgotten(
    call: ToolContext, person: Path
) -> None:
    said = await run(call, "cat ~/.cache/wheel; echo evil | tee ~/.cache/wheel ~/.bashrc")
    assert said == "Exit code: 0\ncachedevil\n"
    assert (person / ".cache" / "wheel").read_text() == "cached"
    assert not (person / ".bashrc").exists()


@needs_overlay
async def test_discarded_command_sees_its_changes_and_nobody_else_does(call: ToolContext, root: Path) -> None:
    (root / "kept").write_text("before")
    said = await run(replace(call, discard=True), "echo after > kept; rm -r sub; touch .git; cat kept; ls -A")
    assert said == "Exit code: 0\nafter\n.git\nkept\n"
    assert (root / "kept").read_text() == "before"
    assert names(root) == ["kept", "sub"]


@needs_sandbox
@pytest.mark.parametrize("discard", [False, pytest.param(True, marks=needs_overlay)])
async def test_no_descriptor_leads_out(discard: bool, call: ToolContext) -> None:
    said = await run(replace(call, discard=discard), "for n in /proc/self/fd/*; do readlink $n; done")
    links = said.splitlines()[1:]
    assert [link for link in links if link.startswith("/") and link != "/dev/null"] == []
    assert len(links) == 3


@needs_sandbox
async def test_other_processes_and_machine_settings_are_out_of_reach(call: ToolContext) -> None:
    said = await run(call, f"kill -0 {os.getpid()}; echo x > /proc/sys/kernel/domainname; ls -d /proc/[0-9]*")
    assert "No such process" in said
    assert "domainname: " in said
    assert len(said.splitlines()) < 8


@needs_sandbox
async def test_settings_of_the_machine_cannot_be_written(call: ToolContext) -> None:
    places = "/proc/sys /proc/irq /proc/bus /proc/sysrq-trigger /proc/fs /proc/acpi"
    closed = '[ ! -e $p ] || [ ! -w $p ] && [ -z "$(find $p -writable 2>/dev/null | head -1)" ]'
    said = await run(call, f"for p in {places}; do {closed} || echo $p; done")
    assert said == "Exit code: 0"


@needs_sandbox
async def test_namespaces_cannot_be_nested_and_no_capability_is_left(call: ToolContext) -> None:
    said = await run(call, "unshare -Ur true || echo refused; grep -c 'CapEff:.0*$' /proc/self/status")
    assert said.endswith("refused\n1\n")


@needs_sandbox
async def test_network_is_loopback_of_its_own_unless_it_is_on(call: ToolContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = f"(exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}) 2>/dev/null && echo reached"
        assert "reached" not in await run(call, probe)
        assert "reached" in await run(replace(call, network="on"), probe)


@needs_sandbox
async def test_named_domains_are_reached_by_a_proxy_that_refuses_the_others(call: ToolContext) -> None:
    command = (
        f"{PYTHON} -I -c 'import os, urllib.request as r\n"
        'print(os.environ["HTTPS_PROXY"][:17])\n'
        'r.urlopen("http://elsewhere.example.net/")\' 2>&1 | tail -2; echo end'
    )
    said = await run(replace(call, network=("example.org",)), command)
    assert "[the network refused elsewhere.example.net:80: it is not one of the allowed domains" in said
    assert said.endswith("end\n")
    with pytest.raises(ToolValidationError):
        await run(replace(call, network=("no name.org",)), "true")


@needs_sandbox
async def test_exit_code_and_folder_of_a_command_are_its_own(call: ToolContext) -> None:
    assert (await run(call, "exit 7")).startswith("Exit code: 7")
    assert (await run(call, "kill -SEGV $$")).startswith("Exit code: 139")
    assert (await run(call, "kill -9 $PPID; echo on")).endswith("on\n")


@needs_sandbox
async def test_processes_end_with_the_command_whatever_they_did(call: ToolContext, root: Path) -> None:
    began = time.monotonic()
    late = "(until [ -e go ]; do sleep 0.01; done; touch late) &"
    await run(call, f"setsid sh -c 'sleep 60 & sleep 60' & {late} nohup sleep 60 & echo x")
    (root / "go").touch()
    await run(call, "trap '' TERM; setsid -f sleep 60; kill -STOP $$", timeout_s=0.3)
    assert time.monotonic() - began < 30  # of 60, also on a machine that is slow
    await asyncio.sleep(0.1)
    assert not (root / "late").exists()


@needs_sandbox
async def test_command_may_clean_up_at_its_timeout(
    call: ToolContext, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "TERM_S", 30.0)  # for a machine that is slow: it ends before
    clean_up = "trap 'sleep 0.05 && rm lock; exit' TERM"  # SIGTERM is not for what it starts to clean up
    said = await run(call, f"{clean_up}; touch lock; while :; do sleep 0.01; done", timeout_s=2)
    assert "timed out" in said
    assert not (root / "lock").exists()


@needs_sandbox
async def test_stop_ends_it_within_a_second(call: ToolContext, root: Path) -> None:
    task = asyncio.create_task(run(call, "touch begun; trap '' TERM; sleep 60; sleep 60"))
    while not (root / "begun").exists():  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.005)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 30  # of 60, also on a machine that is slow
    assert names(root) == ["begun", "sub"]


@needs_sandbox
async def test_stop_at_any_moment_leaves_nothing(call: ToolContext, root: Path) -> None:
    await run(call, "true")
    before = descriptors()
    for tenth_ms in range(0, 120, 4):
        task = asyncio.create_task(run(call, "true"))
        await asyncio.wait([task], timeout=tenth_ms / 10_000)
        task.cancel()
        await asyncio.wait([task])
    await asyncio.sleep(0)
    assert descriptors() == before
    assert names(root) == ["sub"]


@needs_sandbox
async def test_command_dies_with_us(root: Path, tmp_path: Path, person: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from lockstitch.state.settings import load_settings\nfrom lockstitch.state.spill import SpillStore\n"
        "from lockstitch.tools.command import run_command\nfrom lockstitch.tools.context import ToolContext\n"
        "from lockstitch.tools.commands.sandbox import find_sandbox\n"
        "from lockstitch.tools.workspace import Workspace\n"
        "root, home = map(Path, sys.argv[1:])\n"
        "call = ToolContext(workspace=Workspace(root), settings=load_settings(home=home),\n"
        "                   spill=SpillStore(home, 't'), find_sandbox=find_sandbox)\n"
        "asyncio.run(run_command.ainvoke({'command': 'while :; do date +%N > alive; sleep 0.01; done',\n"
        "                                 'call': call}))\n"
    )
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(root), str(tmp_path / "h"))
    async with asyncio.timeout(20):
        while not (root / "alive").exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(0.01)
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    await asyncio.sleep(0.2)
    last = (root / "alive").read_text()
    await asyncio.sleep(0.2)
    assert (root / "alive").read_text() == last


@needs_sandbox
async def test_commits_work_and_what_git_would_run_stays_as_it_is(call: ToolContext, root: Path) -> None:
    new_repository(root)
    config = (root / ".git" / "config").read_text()
    said = await run(
        call,
        "touch new; git add new && git commit -qm second && git log --oneline | wc -l;"
        "echo x > .git/hooks/pre-commit; git config core.fsmonitor ./evil; mkdir -p .git/modules/x;"
        "mv .git gone; rm -rf .git/hooks; ln -sf /tmp .git/hooks; echo ../evil > .git/commondir",
    )
    assert said.startswith("Exit code: ")
    assert "\n2\n" in said
    assert (root / ".git" / "config").read_text() == config
    assert not (root / ".git" / "hooks" / "pre-commit").exists()
    assert not (root / ".git" / "modules").exists()
    assert not (root / ".git" / "commondir").exists()
    assert not (root / "gone").exists()


@needs_sandbox
async def test_repository_that_is_missing_cannot_be_planted(call: ToolContext, root: Path) -> None:
    said = await run(
        call, "git init; mkdir -p .git/hooks; rmdir .git .lockstitch; touch .lockstitch/policy.toml"
    )
    assert "Read-only file system" in said
    assert names(root) == ["sub"]


@needs_sandbox
async def test_mask_of_one_command_outlives_another(call: ToolContext, root: Path) -> None:
    longer = asyncio.create_task(run(call, "touch up; until [ -e go ]; do sleep 0.01; done; git init 2>&1"))
    while not (root / "up").exists():  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.005)
    await run(call, "true")
    (root / "go").touch()
    assert "Read-only file system" in await longer
    assert not (root / ".git").exists()


@needs_sandbox
async def test_our_own_settings_in_the_workspace_stay_as_they_are(call: ToolContext, root: Path) -> None:
    (root / ".lockstitch").mkdir()
    (root / ".lockstitch" / "policy.toml").write_text("deny")
    await run(call, "echo allow > .lockstitch/policy.toml; mv .lockstitch x; rm -rf .lockstitch")
    assert (root / ".lockstitch" / "policy.toml").read_text() == "deny"


@needs_sandbox
async def test_linked_worktree_commits_to_its_repository(call: ToolContext, tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    new_repository(main)
    git(main, "worktree", "add", "-q", str(linked))
    with Workspace(linked) as workspace:
        said = await run(
            replace(call, workspace=workspace),
            "touch new; git add new && git commit -qm second; git log --oneline | wc -l;"
            f"touch {main}/.git/hooks/pre-commit {main}/out; echo x > .git",
        )
    assert said.splitlines()[1] == "2"
    assert said.count("Read-only") + said.count("No such file") >= 2
    assert not (main / ".git" / "hooks" / "pre-commit").exists()
    assert (linked / ".git").read_text().startswith("gitdir: ")


@needs_sandbox
@pytest.mark.parametrize("where", ["main", "linked"])
async def test_no_worktree_is_led_to_another_repository(
    call: ToolContext, tmp_path: Path, where: str
) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    new_repository(main)
    git(main, "worktree", "add", "-q", str(linked))
    own = main / ".git" / "worktrees" / "linked"
    with Workspace(tmp_path / where) as workspace:
        said = await run(
            replace(call, workspace=workspace),
            f"cd {own}; echo /evil > commondir; rm -f commondir; mv {own} {own}2;"
            f"mv {own.parent} {own.parent}2;"
            f"mkdir -p {own}; echo /evil > {own}/commondir; ls {own}; echo x > config.worktree",
        )
    assert "gitdir" in said
    assert (own / "commondir").read_text() == "../..\n"
    assert not (own / "config.worktree").exists()


@needs_sandbox
async def test_server_in_the_workspace_is_not_reached_without_network(call: ToolContext, root: Path) -> None:
    connect = f'{PYTHON} -c \'import socket; socket.socket(socket.AF_UNIX).connect("s"); print("reached")\''
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        server.listen()
        assert "refused" in await run(call, connect)
        assert "reached" in await run(replace(call, network="on"), connect)


@needs_sandbox
async def test_hidden_folder_below_the_workspace_is_empty_too(call: ToolContext, tmp_path: Path) -> None:
    with Workspace(tmp_path, hidden=(tmp_path / "ours",)) as workspace:
        said = await run(
            replace(call, workspace=workspace), "cat ours/* person/.ssh/*; touch ours/x; echo on"
        )
    assert "SECRET" not in said
    assert said.endswith("on\n")
    assert [path.name for path in (tmp_path / "ours").iterdir()] == ["threads.db"]


@needs_sandbox
async def test_big_file_ends_the_command_that_writes_it(call: ToolContext, root: Path) -> None:
    said = await run(call, "ulimit -f; ulimit -c; truncate -s 5G big")
    assert said.splitlines()[1:3] == [str(4 * 1024**2), "0"]
    assert not (root / "big").exists() or (root / "big").stat().st_size == 0


@needs_sandbox
async def test_sandbox_that_cannot_be_made_runs_nothing_and_says_so(call: ToolContext) -> None:
    broken = replace(FOUND, program="/bin/false")
    with pytest.raises(ToolExecutionError, match="could not be set up, so nothing ran"):
        await run(replace(call, find_sandbox=lambda: broken), "true")


async def test_without_a_sandbox_nothing_is_thrown_away_and_no_domain_is_named(call: ToolContext) -> None:
    bare = replace(call, find_sandbox=lambda: NO_SANDBOX)
    with pytest.raises(ToolExecutionError, match="cannot hold back"):
        await run(replace(bare, discard=True), "true")
    with pytest.raises(ToolExecutionError, match="needs bubblewrap"):
        await run(replace(bare, network=("example.org",)), "true")
    assert await run(bare, "echo on") == "Exit code: 0\non\n"
