"""A sandbox has ended when the last of its processes has, and not a moment before."""

import asyncio
import os
import select
from pathlib import Path

import pytest
from tests.outer_pid import outer_pid

from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.workspace import Workspace

FOUND = find_sandbox()
MANY = 400  # processes: the kernel takes some 10 ms to end them, long enough to see that nobody waited


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
