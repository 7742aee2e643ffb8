"""A sandbox has ended when the last of its processes has, and not a moment before."""

import asyncio
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.outer_pid import outer_pid

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands import process, sandbox_tree
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

FOUND = find_sandbox()
MANY = 400  # processes: the kernel takes some 10 ms to end them, long enough to see that nobody waited
HIDDEN = 400  # folders of long names: more than a pipe holds by itself
needs_bubblewrap = pytest.mark.skipif(
    FOUND.backend != "bubblewrap", reason=f"needs bubblewrap: {FOUND.reason}"
)


@pytest.mark.skipif(FOUND.backend == "none", reason=f"needs a sandbox: {FOUND.reason}")
async def test_namespace_is_empty_when_the_command_is_answered(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    # none of them holds the output: the end of that would be waited for
    leaves = f"for n in $(seq {MANY}); do sleep 60 & done >/dev/null 2>&1; echo 2 > up; read -r _ < go"
    with Workspace(root) as workspace:
        call = ToolContext(
            workspace=workspace,
            settings=load_settings(home=tmp_path / "home"),
            spill=SpillStore(tmp_path / "spill", "t"),
            find_sandbox=find_sandbox,
        )
        os.mkfifo(root / "go")
        running = asyncio.create_task(run_command.ainvoke({"command": leaves, "call": call}))
        while not (root / "up").exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(0.005)
        first = os.pidfd_open(outer_pid(1, root))
        try:
            (root / "go").write_text("\n")
            assert (await running).output == "Exit code: 0"
            assert select.select([first], [], [], 0)[0] == [first]  # it ends as the last one of its namespace
        finally:
            os.close(first)


@pytest.fixture
def much_hidden(tmp_path: Path) -> Iterator[ToolContext]:
    """A call whose workspace has many folders that a command must not see."""
    root = tmp_path / "ws"
    hidden = [root / f"{number:0150}" for number in range(HIDDEN)]
    for folder in hidden:
        (folder / "secret").mkdir(parents=True)
    with Workspace(root, hidden=hidden) as workspace:
        yield ToolContext(
            workspace=workspace,
            settings=load_settings(home=tmp_path / "home"),
            spill=SpillStore(tmp_path / "spill", "t"),
            find_sandbox=find_sandbox,
        )


@needs_bubblewrap
async def test_much_to_hide_is_told_whole(much_hidden: ToolContext) -> None:
    said = await run_command.ainvoke({"command": "ls */; ls | wc -l", "call": much_hidden})
    assert "secret" not in said.output
    assert str(HIDDEN) in said.output.splitlines()


@needs_bubblewrap
async def test_nothing_runs_of_a_command_whose_sandbox_was_told_a_part(
    much_hidden: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = watched(monkeypatch)
    monkeypatch.setattr(sandbox_tree, "_widen", lambda *_: None)
    with pytest.raises(ToolExecutionError, match="more to hide"):
        await run_command.ainvoke({"command": "touch ran", "call": much_hidden})
    assert [one.returncode for one in started] == [-signal.SIGKILL]
    assert not (Path(much_hidden.workspace.root) / "ran").exists()


def watched(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[bytes]]":
    """The programs that are started from now on."""
    started: list[subprocess.Popen[bytes]] = []
    start = process.start_program

    def start_program(*args: Any, **kwargs: Any) -> "subprocess.Popen[bytes]":
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(process, "start_program", start_program)
    return started
