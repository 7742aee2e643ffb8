"""A command where no layer can be had: what it changed is found, noted, and can be taken back."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lockstitch.state.journal import BEGINNING, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.state.tree_change import inverse
from lockstitch.tools.changes.call_journal import StepJournal
from lockstitch.tools.changes.scanned import found_after_kill
from lockstitch.tools.command import run_command
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    """A call in a workspace without any sandbox."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    with open_ledger(tmp_path / "ledger.db") as ledger:
        step = StepJournal(
            journal=Journal(ledger, ObjectStore(tmp_path / "objects", ledger)),
            thread_id="t",
            checkpoint_id="p",
            workspace=tmp_path / "work",
            head=BEGINNING,
            now=lambda: "2026-01-01T00:00:00+00:00",
        )
        with Workspace(tmp_path / "work", hidden=(tmp_path / "home",)) as workspace:
            yield ToolContext(
                workspace=workspace,
                settings=load_settings(),
                spill=SpillStore(tmp_path / "spill", "t1"),
                journal=step.of_call("c", "run_command"),
                scans=tmp_path / "home",
            )


async def run(context: ToolContext, command: str) -> ToolResult:
    found = await run_command.coroutine(command=command, call=context)  # type: ignore[misc]
    assert isinstance(found, ToolResult)
    return found


async def test_what_it_changed_is_noted_and_can_be_taken_back(context: ToolContext) -> None:
    root = context.workspace.root
    (root / "old").write_text("old\n")
    said = await run(context, "rm old; mkdir d; echo x > d/x; chmod 750 d")
    assert said.output.startswith("Exit code: 0\n[changed A d, A d/x, D old]")
    assert context.journal is not None
    journal = context.journal._step.journal
    (effect,) = journal.of_step("t", "p")
    assert (effect.kind, effect.status, effect.result) == ("command", "done", said.output)
    with context.workspace.open_folder(".") as fd:
        assert apply(fd, inverse(effect.changes), KeptBytes(journal.objects.pieces)) == []
    assert [(path.name, path.read_text()) for path in root.iterdir()] == [("old", "old\n")]


async def test_one_that_changes_nothing_leaves_nothing(context: ToolContext) -> None:
    said = await run(context, "echo hello")
    assert said.output == "Exit code: 0\nhello\n"
    assert context.journal is not None
    assert context.journal._step.journal.of_step("t", "p") == []


async def test_after_a_kill_the_next_look_tells_what_had_changed(context: ToolContext) -> None:
    """The command has begun, and its process is gone with ours: nobody noted anything."""
    from lockstitch.tools.changes.scanned import begin_scan

    root = context.workspace.root
    (root / "log").write_text("1\n")
    begin_scan(context)
    (root / "log").write_text("1\n2\n")
    assert context.journal is not None
    found = found_after_kill(context.workspace, root.parent / "home", context.journal.objects)
    assert found is not None
    assert [change.path for change in found.real] == ["log"]


async def test_without_a_journal_nothing_is_looked_at(context: ToolContext) -> None:
    said = await run(replace(context, journal=None), "echo x > x")
    assert said.output == "Exit code: 0"
    assert not (context.workspace.root.parent / "home" / "scans").exists()


async def test_what_a_workspace_is_known_by_outlives_a_collection(context: ToolContext) -> None:
    """The copies that a later command is compared with are needed, though no effect names them yet."""
    from lockstitch.tools.changes.scanned import kept_by_scans

    root = context.workspace.root
    (root / "a").write_text("before\n")
    await run(context, "true")
    assert context.journal is not None
    needed = kept_by_scans(root.parent / "home")
    assert len(needed) == 1
    assert context.journal.objects.read(needed.pop()) == b"before\n"
    assert kept_by_scans(root.parent / "elsewhere") == set()
