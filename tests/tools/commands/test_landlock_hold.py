"""A command under Landlock: real processes that try to get at what is not theirs, and one that just works."""

import asyncio
import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.background import start_process
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import Sandbox, find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

FOUND = find_sandbox("landlock")
pytestmark = pytest.mark.skipif(FOUND.backend != "landlock", reason=f"needs Landlock: {FOUND.reason}")
PYTHON = os.path.realpath(sys.executable)
GIT_ENV = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def find_landlock() -> Sandbox:
    return FOUND


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "file").write_text("before\n")
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the person's that is none of the command's business, with a file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    return outside


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a person, with secrets in it, beside things that are none."""
    home = tmp_path / "person"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("SECRET")
    (home / ".netrc").write_text("SECRET")
    (home / ".config" / "gh").mkdir(parents=True)
    (home / ".config" / "gh" / "hosts.yml").write_text("SECRET")
    (home / ".config" / "tool").write_text("setting")
    (home / "real-aws").mkdir()
    (home / "real-aws" / "credentials").write_text("SECRET")
    (home / ".aws").symlink_to(home / "real-aws")
    (home / ".cache").mkdir()
    (home / ".cache" / "wheel").write_text("cached")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands get folders of their own."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def call(root: Path, tmp_path: Path, person: Path, temporary: Path) -> Iterator[ToolContext]:
    """As mode auto makes it: nobody was asked."""
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "threads.db").write_text("SECRET")
    settings = load_settings(home=ours, command_timeout_max_s=20)
    with Workspace(root, hidden=(ours,)) as workspace:
        spill = SpillStore(tmp_path / "spill", "t")
        yield ToolContext(workspace=workspace, settings=settings, spill=spill, find_sandbox=find_landlock)


async def run(call: ToolContext, command: str, **given: Any) -> str:
    result = await run_command.ainvoke({"command": command, "call": call, **given})
    return str(result.output)


async def run_python(call: ToolContext, script: str) -> str:
    """The script, as a command; it may use `"` and not `'`."""
    return await run(call, f"{PYTHON} -I -c '{script}'")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=GIT_ENV, check=True, capture_output=True)


def new_repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "config", "user.name", "A")
    (folder / "tracked").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of all that is in there."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def bytes_of(tree: dict[str, tuple[int, bytes]]) -> dict[str, bytes]:
    return {name: data for name, (_, data) in tree.items()}


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def test_folders_of_the_workspace_are_changed(call: ToolContext, root: Path) -> None:
    said = await run(
        call, "pwd; echo on > here; mkdir -p a/b; mv here a/b; ln -s x link", working_directory="sub"
    )
    assert said == f"Exit code: 0\n{root}/sub\n"
    assert (root / "sub" / "a" / "b" / "here").read_text() == "on\n"
    await run(call, "echo after > file; touch new; rm file; mv sub elsewhere")
    assert (root / "file").read_text() == "after\n"
    assert names(root) == ["file", "sub"]  # nothing is made or deleted in the workspace's own folder


async def test_approved_command_changes_all_of_the_workspace(call: ToolContext, root: Path) -> None:
    await run(replace(call, approved=True), "mkdir new; mv file new; touch top")
    assert names(root) == ["new", "sub", "top"]
    allowing = call.settings.model_copy(update={"unsandboxed_commands": "allow"})
    await run(replace(call, settings=allowing), "touch more")
    assert (root / "more").exists()


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "echo x > {outside}/new",
        "echo x > {outside}/kept",
        "rm -f {outside}/kept",
        "mv {outside}/kept sub/stolen",
        "cd /proc/self/root{outside} && echo x > kept",
        "cd sub; cd ../../outside; echo x > kept",
        "ln -s {outside} sub/out; echo x > sub/out/kept",
        "ln {outside}/kept sub/hard; echo x > sub/hard",
        "truncate -s 0 {outside}/kept",
        "chmod 000 {outside}/kept",
        "chmod 4755 {outside}/kept",
        "chmod 777 {outside}",
        "exec 5<{outside}/kept; echo x > /proc/self/fd/5",
        "exec 5<{outside}; echo x > /proc/self/fd/5/kept",
        "mknod {outside}/device c 1 3; mkfifo {outside}/fifo; mkdir {outside}/folder",
        "mount --bind sub {outside}; touch {outside}/new",
        "unshare -Urm sh -c 'mount --bind sub {outside}; touch {outside}/new'",
        "setfattr -n user.x -v y {outside}/kept",
        "touch ~/.bashrc ~/.cache/new; echo x > ~/.cache/wheel",
    ],
)
async def test_nothing_outside_is_changed(
    command: str, approved: bool, call: ToolContext, outside: Path, person: Path
) -> None:
    def look() -> object:
        return tree(outside), outside.stat().st_mode, tree(person), os.listxattr(outside / "kept")

    before = look()
    await run(replace(call, approved=approved), command.replace("{outside}", str(outside)))
    assert look() == before


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id_rsa ~/.netrc ~/.aws/credentials ~/real-aws/credentials ~/.config/gh/hosts.yml",
        "cd ~/.ssh && cat id_rsa",
        "cd /proc/self/root$HOME/.ssh && cat id_rsa",
        "cat /proc/self/root$HOME/.netrc /proc/$PPID/root$HOME/.netrc",
        "cat /proc/{agent}/root$HOME/.netrc /proc/{agent}/cwd/../person/.netrc",
        "ln ~/.netrc sub/hard; cat sub/hard",
        "ln -s ~/.netrc sub/soft; cat sub/soft",
        "mv ~/.netrc sub/; cp ~/.netrc sub/; cat sub/*",
        "chmod 644 ~/.netrc; cat ~/.netrc",
        "cat {ours}/threads.db ../ours/threads.db; ls ../ours | grep threads && echo SECRET",
        "exec 5< ~/.netrc; cat <&5",
        "tar c -C ~ . 2>/dev/null | tr -d '\\0'",
        "grep -rs . ~ ../ours",
    ],
)
async def test_no_secret_is_read(
    command: str, approved: bool, call: ToolContext, person: Path, tmp_path: Path
) -> None:
    words = command.replace("{agent}", str(os.getpid())).replace("{ours}", str(tmp_path / "ours"))
    assert "SECRET" not in await run(replace(call, approved=approved), words)


async def test_the_rest_of_the_home_folder_and_the_system_are_read(call: ToolContext) -> None:
    said = await run(call, "cat ~/.cache/wheel; echo; cat ~/.config/tool; echo; head -c 5 /etc/passwd")
    assert said == "Exit code: 0\ncached\nsetting\nroot:"


async def test_temporary_files_and_caches_are_its_own_and_forgotten(
    call: ToolContext, temporary: Path
) -> None:
    said = await run(
        call,
        'touch /tmp/x; cd "$(mktemp -d)" && touch a && mkdir d && touch d/f && chmod 600 d && ls;'
        'ls -d "$XDG_CACHE_HOME"; ln -s / /$TMPDIR/link; pwd',
    )
    assert "/tmp/x" in said
    assert f"{temporary}/lockstitch-command-" in said
    assert names(temporary) == []
    assert not Path("/tmp/x").exists()  # noqa: ASYNC240


async def test_workspace_below_a_folder_of_temporary_files_sees_only_itself(
    call: ToolContext, outside: Path
) -> None:
    assert "kept" not in (await run(call, f"cat {outside}/kept; ls {outside}")).replace("outside/kept", "")


SOCKETS = """
import socket, sys
kinds = ((2, 1), (2, 2), (2, 3), (10, 1), (10, 2), (16, 3), (17, 3), (38, 5), (40, 1), (1, 1), (1, 2))
for family, kind in kinds:
    try:
        socket.socket(family, kind)
        print("made", family, kind)
    except OSError as error:
        print("refused", family, kind, error.errno)
"""


async def test_no_socket_is_made_and_no_server_reached(call: ToolContext, root: Path) -> None:
    said = await run_python(call, SOCKETS)
    assert "made" not in said
    assert said.count("refused") == 11


async def test_with_the_network_on_those_of_the_internet_are_made_and_no_others(call: ToolContext) -> None:
    said = await run_python(replace(call, network="on"), SOCKETS)
    made = [line for line in said.splitlines() if line.startswith("made")]
    assert {line.split()[1] for line in made} <= {"2", "10", "16"}
    assert "made 2 1" in made
    assert "made 2 2" in made
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = f"(exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}) 2>/dev/null && echo reached"
        assert "reached" in await run(replace(call, network="on"), probe)
        assert "reached" not in await run(call, probe)


@pytest.mark.parametrize("network", ["off", "on"])
async def test_servers_of_this_machine_by_path_or_name_are_not_reached(
    network: Any, call: ToolContext, root: Path
) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_UNIX) as named,
    ):
        server.bind(str(root / "sub" / "s"))
        server.setblocking(False)
        named.bind("\0lockstitch-test-" + str(os.getpid()))
        named.listen()
        script = """
import os, socket
def tried(work):
    try:
        work()
        print("reached")
    except OSError as error:
        print("refused", error.errno)
left, right = socket.socketpair()
left.sendall(b"pairs work")
print(right.recv(99))
tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", "sub/s"))
tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "sub/s"))
tried(lambda: socket.socket(socket.AF_UNIX).connect("\\0lockstitch-test-AGENT"))
tried(lambda: left.connect("sub/s"))
"""
        said = await run_python(replace(call, network=network), script.replace("AGENT", str(os.getpid())))
        assert "pairs work" in said
        assert "reached" not in said
        assert said.count("refused") == 4
        with pytest.raises(BlockingIOError):
            server.recv(9)


REACHES_FOR_THE_AGENT = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
agent, launcher = AGENT, os.getppid() if os.getppid() != AGENT else 1
def tried(name, work):
    try:
        work()
        print("reached", name)
    except OSError as error:
        print("refused", name, error.errno)
def called(number, *given):
    if libc.syscall(number, *given) < 0:
        raise OSError(ctypes.get_errno(), "call")
def ptraced():
    if libc.ptrace(16, agent, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))
def read_memory():
    kept = ctypes.create_string_buffer(8)
    ours, theirs = Vector(ctypes.addressof(kept), 8), Vector(ADDRESS, 8)
    got = libc.process_vm_readv(agent, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), "read")
tried("signal", lambda: os.kill(agent, 0))
tried("thread", lambda: called(200, agent, 0))
tried("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(agent), 0))
tried("group", lambda: os.killpg(os.getpgid(agent), 0))
tried("ptrace", ptraced)
tried("memory", read_memory)
tried("limits", lambda: resource.prlimit(agent, resource.RLIMIT_NOFILE, (3, 3)))
for name in ("environ", "mem", "maps", "auxv", "stack"):
    tried(name, lambda: open(f"/proc/{agent}/{name}", "rb").read(1))
tried("map_files", lambda: os.listdir(f"/proc/{agent}/map_files"))
for name in ("root", "cwd", "exe", "fd/0"):
    tried(name, lambda: os.readlink(f"/proc/{agent}/{name}"))
tried("adjust", lambda: open(f"/proc/{agent}/oom_score_adj", "w").write("1000"))
tried("domain name", lambda: open("/proc/sys/kernel/domainname", "w").write("x"))
"""


@pytest.mark.parametrize("approved", [False, True])
async def test_agent_is_out_of_reach(approved: bool, call: ToolContext) -> None:
    kept = ctypes.create_string_buffer(b"memory of the agent")
    script = REACHES_FOR_THE_AGENT.replace("AGENT", str(os.getpid()))
    said = await run_python(
        replace(call, approved=approved), script.replace("ADDRESS", str(ctypes.addressof(kept)))
    )
    assert "reached" not in said
    assert said.count("refused") == 19


async def test_its_launcher_is_out_of_reach_as_well(call: ToolContext) -> None:
    said = await run(
        call,
        "kill -9 $PPID; cat /proc/$PPID/environ; ls -l /proc/$PPID/fd/0; kill -9 -- -$PPID; kill -9 0",
    )
    assert "ended by SIGKILL" in said  # by its own last one, which took nobody else along
    assert said.count("ermitted") + said.count("denied") == 4


REFUSED_CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def called(*given):
    ctypes.set_errno(0)
    return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(*given) < 0 else "made"
print(called(425, 8, ctypes.create_string_buffer(120)))
print(called(435, ctypes.create_string_buffer(88), 88))
print(called(0x40000000 + 41, 2, 1, 0))
print(called(272, 0x10000000))
print(called(29, 0, 4096, 0o1600))
print(called(250, 0, -3, 0))
print(called(56, 0x10000011, 0, 0, 0, 0))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls by the numbers of x86-64")
async def test_calls_that_lead_around_are_missing_or_forbidden(call: ToolContext) -> None:
    said = await run_python(call, REFUSED_CALLS)  # the second line says that Landlock holds it
    assert said.splitlines()[2:] == ["ENOSYS", "ENOSYS", "ENOSYS", "EPERM", "ENOSYS", "EPERM", "EPERM"]


async def test_no_capability_no_namespace_and_no_way_back(call: ToolContext) -> None:
    said = await run(
        replace(call, approved=True),
        "unshare -Ur true || echo refused; grep -c 'Cap[EPIA]..:.0*$' /proc/self/status;"
        "grep NoNewPrivs /proc/self/status",
    )
    assert said.endswith("refused\n4\nNoNewPrivs:\t1\n")


async def test_no_descriptor_leads_out(call: ToolContext) -> None:
    said = await run(call, "for n in /proc/self/fd/*; do readlink $n; done")
    links = said.splitlines()[1:]
    assert [link for link in links if link.startswith("/") and link != "/dev/null"] == []
    assert len(links) == 3


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/hooks/pre-commit",
        "chmod +x .git/hooks/off; echo x >> .git/hooks/off",
        "mv .git sub/; mv .git/hooks .git/x; rm -rf .git",
        "git config core.fsmonitor ./evil",
        "echo x >> .git/config; cp file .git/config; ln -sf /tmp/x .git/config; rm .git/config",
        "echo /evil > .git/commondir; echo x > .git/config.worktree; mkdir -p .git/modules/x",
        "ln -s /tmp .git/modules; ln .git/config sub/hard && echo x >> sub/hard",
        "cd sub && ln -s ../.git/hooks h && echo x > h/pre-commit",
        "echo allow > .lockstitch/policy.toml; mv .lockstitch x; rm -rf .lockstitch",
    ],
)
async def test_what_git_or_we_obey_stays_as_it_is(command: str, call: ToolContext, root: Path) -> None:
    new_repository(root)
    (root / ".git" / "hooks" / "off").write_text("turned off")
    (root / ".lockstitch").mkdir()
    (root / ".lockstitch" / "policy.toml").write_text("deny")
    before = tree(root / ".git"), tree(root / ".lockstitch")
    await run(call, command)
    after = tree(root / ".git"), tree(root / ".lockstitch")
    assert [bytes_of(one) for one in after] == [bytes_of(one) for one in before]
    if "chmod" not in command:  # Landlock knows no modes: docs/commands.md says so
        assert after == before


async def test_repository_and_settings_that_are_missing_cannot_be_planted(
    call: ToolContext, root: Path
) -> None:
    await run(call, "git init; mkdir -p .git/hooks .lockstitch; mkdir sub/.git; mv sub/.git .git; touch .git")
    assert names(root) == ["file", "sub"]
    git(root, "init", "-q")
    (root / ".git" / "hooks").rename(root / "elsewhere")
    await run(call, "mkdir .git/hooks; echo x > .git/hooks/pre-commit; cp -r elsewhere .git/hooks")
    assert not (root / ".git" / "hooks").exists()


async def test_approved_commit_works_also_in_a_linked_worktree(call: ToolContext, tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    new_repository(main)
    git(main, "worktree", "add", "-q", str(linked))
    for folder in (main, linked):
        with Workspace(folder) as workspace:
            said = await run(
                replace(call, workspace=workspace, approved=True),
                "touch new; git add new && git commit -qm second; git log --oneline | wc -l",
            )
        assert said == "Exit code: 0\n2\n"


async def test_unasked_command_reads_the_repository(call: ToolContext, root: Path) -> None:
    new_repository(root)
    (root / "tracked").write_text("two\n")
    said = await run(call, "git status --short; git diff --stat | tail -1; git log --oneline | wc -l")
    assert said == "Exit code: 0\n M tracked\n 1 file changed, 1 insertion(+), 1 deletion(-)\n1\n"


async def test_mode_plan_changes_nothing_at_all(call: ToolContext, root: Path) -> None:
    new_repository(root)
    (root / "sub" / "f").write_text("f")
    os.utime(root / "sub" / "f", ns=(1, 1))
    before = tree(root), (root / "sub" / "f").stat().st_mtime_ns
    said = await run(
        replace(call, discard=True, approved=True),
        "echo x > file; rm -rf sub/f; touch sub/f; chmod 755 sub/f; chown 0:0 sub/f; touch sub/g; git add .;"
        "touch -d 2001-01-01 sub; cat sub/f; echo own > $TMPDIR/own && cat file",
    )
    assert said.endswith("fbefore\n")
    assert (tree(root), (root / "sub" / "f").stat().st_mtime_ns) == before


async def test_modes_of_files_in_the_workspace_are_set_within_bounds(call: ToolContext, root: Path) -> None:
    for name in ("f", "g", "h"):
        (root / "sub" / name).touch(mode=0o644)
    await run(call, "cd sub; chmod +x f; chmod u+s g; chmod 4755 g; chmod 666 h; chmod 000 h")
    assert [stat.S_IMODE((root / "sub" / name).stat().st_mode) for name in ("f", "g", "h")] == [
        0o755,
        0o644,
        0o644,
    ]


async def test_exit_code_and_signal_are_the_commands_own(call: ToolContext) -> None:
    assert (await run(call, "exit 7")) == "Exit code: 7"
    assert (await run(call, "kill -SEGV $$")).startswith("Exit code: 139 (ended by SIGSEGV)")
    assert (await run(call, "kill -9 $$")).startswith("Exit code: 137 (ended by SIGKILL)")


SURVIVOR = "while :; do date +%N > {sub}/alive; sleep 0.02; done"


@pytest.mark.parametrize(
    "command",
    [
        "sh -c '{loop}' &",
        "setsid sh -c '{loop}' &",
        "(env -i setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &) ; sleep 0.3",
        "(setsid sh -c '(setsid env -i sh -c \"{loop}\" &) & ' &); sleep 0.3",
        "nohup setsid sh -c 'trap \"\" TERM HUP; {loop}' >/dev/null 2>&1 & disown; sleep 0.3",
        "sh -c '{loop}' & p=$!; sleep 0.3; kill -STOP $p",
    ],
)
async def test_none_of_its_processes_stays(command: str, call: ToolContext, root: Path) -> None:
    said = await run(call, command.replace("{loop}", SURVIVOR.replace("{sub}", str(root / "sub"))))
    assert said == "Exit code: 0"
    alive = root / "sub" / "alive"
    alive.unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert not alive.exists()


async def test_timeout_lets_it_clean_up_and_ends_what_does_not(call: ToolContext, root: Path) -> None:
    said = await run(
        call,
        "trap 'sleep 0.05 && rm sub/lock; exit' TERM; touch sub/lock; while :; do sleep 0.01; done",
        timeout_s=2,
    )
    assert "timed out" in said
    assert names(root / "sub") == []
    stubborn = f"trap '' TERM; setsid sh -c 'trap \"\" TERM; {SURVIVOR}' & kill -STOP $$"
    said = await run(call, stubborn.replace("{sub}", str(root / "sub")), timeout_s=1)
    assert "timed out" in said
    (root / "sub" / "alive").unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert names(root / "sub") == []


async def test_stop_at_any_moment_leaves_nothing(call: ToolContext, temporary: Path) -> None:
    await run(call, "true")
    before = descriptors()
    for tenth_ms in range(0, 600, 40):
        task = asyncio.create_task(run(call, "true"))
        await asyncio.wait([task], timeout=tenth_ms / 10_000)
        task.cancel()
        await asyncio.wait([task])
    await asyncio.sleep(0)
    assert descriptors() == before
    assert names(temporary) == []


async def test_command_dies_with_us(root: Path, tmp_path: Path, person: Path, temporary: Path) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from lockstitch.state.settings import load_settings\nfrom lockstitch.state.spill import SpillStore\n"
        "from lockstitch.tools.command import run_command\nfrom lockstitch.tools.context import ToolContext\n"
        "from lockstitch.tools.commands.sandbox import find_sandbox\n"
        "from lockstitch.tools.workspace import Workspace\n"
        "root, home, command = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]\n"
        "call = ToolContext(workspace=Workspace(root), settings=load_settings(home=home),\n"
        "                   spill=SpillStore(home, 't'), find_sandbox=lambda: find_sandbox('landlock'))\n"
        "asyncio.run(run_command.ainvoke({'command': command, 'call': call}))\n"
    )
    alive = root / "sub" / "alive"
    loop = SURVIVOR.replace("{sub}", str(root / "sub"))
    given = (str(root), str(tmp_path / "h"), f"(env -i setsid sh -c '{loop}' &) ; sleep 60")
    env = {**os.environ, "TMPDIR": str(temporary)}  # the command's own folder stays when we are killed
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *given, env=env)
    async with asyncio.timeout(20):
        while not alive.exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(0.01)
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    await asyncio.sleep(1)  # the launcher's moment to clean up, and more
    alive.unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert not alive.exists()


async def test_what_cannot_be_set_up_runs_nothing(call: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstitch.tools.commands.landlock_hold.build_filter", lambda *_, **__: b"\0" * 8)
    with pytest.raises(ToolExecutionError, match="could not be set up, so nothing ran"):
        await run(call, "touch sub/new")
    assert names(Path(call.workspace.root, "sub")) == []


async def test_named_domains_are_refused_with_a_reason(call: ToolContext) -> None:
    with pytest.raises(ToolExecutionError, match="named domains needs bubblewrap"):
        await run(replace(call, network=("example.org",)), "true")


async def test_long_process_is_held_as_well_and_ends_with_its_run(call: ToolContext, root: Path) -> None:
    processes = ThreadProcesses()
    loop = SURVIVOR.replace("{sub}", str(root / "sub"))
    own = replace(call, processes=processes)
    command = f"touch top; cat ~/.netrc; {loop}"
    said = str((await start_process.ainvoke({"command": command, "call": own})).output)
    assert "running" in said
    assert "SECRET" not in said
    await processes.end_run()
    alive = root / "sub" / "alive"
    alive.unlink(missing_ok=True)
    await asyncio.sleep(0.2)
    assert not alive.exists()
    assert not (root / "top").exists()


async def test_command_is_told_why_it_was_refused(call: ToolContext) -> None:
    said = await run(call, "touch new")
    assert "Permission denied" in said
    assert "[Landlock" in said
    assert "[Landlock" not in await run(call, "true")


def test_it_takes_over_where_namespaces_are_forbidden() -> None:
    script = (
        "import platform\n"
        "from lockstitch.tools.commands.landlock_launcher import PR_SET_NO_NEW_PRIVS, filter_calls, prctl\n"
        "from lockstitch.tools.commands.sandbox import find_sandbox\n"
        "from lockstitch.tools.commands.system_calls import MACHINES, build_filter\n"
        "prctl(PR_SET_NO_NEW_PRIVS, 1)\n"
        "filter_calls(build_filter(MACHINES[platform.machine()], network=True, frozen=False))\n"
        "print(find_sandbox().backend, find_sandbox('bubblewrap').backend)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "landlock none\n"
