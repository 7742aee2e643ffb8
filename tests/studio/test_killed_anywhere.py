"""A run that is killed behind any write of its thread goes on by itself, and makes nothing twice."""

from pathlib import Path
from typing import Any

import pytest
from tests.person import Open

from lockstitch.state.checkpointer import ThreadSaver
from lockstitch.state.errors import SystemFaultError

TURNS = """
- calls: [{tool: write_file, args: {path: a.txt, content: one}}]
- say: Done.
"""
WRITES = 16  # of such a run until its end is written


class KilledError(Exception):
    """Stands for the kill."""


@pytest.mark.parametrize("count", range(1, WRITES))
async def test_a_run_killed_behind_any_write_goes_on(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    left = count

    def dying(write: Any) -> Any:
        async def dies(*args: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            return await write(*args, **named)

        return dies

    with monkeypatch.context() as patch:
        for name in ("aput", "aput_writes"):
            patch.setattr(ThreadSaver, name, dying(getattr(ThreadSaver, name)))
        async with opened(TURNS) as person:
            with pytest.raises(SystemFaultError):
                await person.run("go")
    async with opened(TURNS, person.thread_id) as person:
        assert await person.run() == "answered"
        assert (workspace / "a.txt").read_text() == "one"
        assert len((await person.state())["steps"]) == 2
