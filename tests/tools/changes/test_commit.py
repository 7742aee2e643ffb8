"""A command as one journalled change: nothing before its commit, all of it after, judged path by path."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kept_files import step_of
from tests.layer_files import layers_below, written

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.journal import Effect, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.changes import commit as commit_module
from lockstitch.tools.changes.call_journal import recover
from lockstitch.tools.changes.spare_layers import wait_for_spares
from lockstitch.tools.command import run_command
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

pytestmark = pytest.mark.skipif(not find_sandbox().overlay, reason="no overlay can be had on this machine")


class GraphDies(BaseException):
    """Nothing of ours catches it."""


class Terminal:
    """Commands of one thread, each in a layer; of sandboxes that stood ready, if so wanted."""

    def __init__(self, base: Path, journal: Journal, *, is_ready: bool) -> None:
        self.root, self.home = base / "work", base / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.journal = journal
        self.processes = ThreadProcesses() if is_ready else None
        step = step_of(journal, self.root)
        self.context = ToolContext(
            workspace=Workspace(self.root, hidden=(self.home,)),
            settings=load_settings(),
            spill=SpillStore(base / "spill", "t1"),
            find_sandbox=find_sandbox,
            journal=step.of_call("c", "run_command"),
            layers=self.home,
            processes=self.processes,
        )

    async def run(self, command: str, *, timeout_s: float = 60) -> ToolResult:
        if self.processes:
            await run_command.coroutine(command=":", call=replace(self.context, journal=None))  # type: ignore[misc]
            await asyncio.to_thread(self.processes.ready.wait)
        found = await run_command.coroutine(command=command, call=self.context, timeout_s=timeout_s)  # type: ignore[misc]
        assert isinstance(found, ToolResult)
        return found

    @property
    def effects(self) -> list[Effect]:
        return self.journal.of_step("t", "p")

    def layers(self) -> list[Path]:
        wait_for_spares()
        return list(layers_below(self.root.parent))

    def in_layers(self) -> list[str]:
        """What is left of commands; an empty layer may be used again."""
        return [name for layer in self.layers() for name in names(layer / "upper")]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=[False, True], ids=["new", "ready"])
async def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Terminal]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        objects = ObjectStore(tmp_path / "objects", ledger)
        made = Terminal(tmp_path, Journal(ledger, objects), is_ready=request.param)
        yield made
        if made.processes:
            await made.processes.end_all()
        made.context.workspace.close()


async def test_what_it_changed_is_one_effect_with_the_answer(terminal: Terminal) -> None:
    (terminal.root / "old.txt").write_text("old\n")
    said = await terminal.run("mv old.txt new.txt; echo more >> new.txt; mkdir empty; exit 3")
    assert (terminal.root / "new.txt").read_text() == "old\nmore\n"
    (effect,) = terminal.effects
    assert (effect.kind, effect.status, effect.tool) == ("command", "done", "run_command")
    assert [change.path for change in effect.changes] == ["empty", "new.txt", "old.txt"]
    assert effect.result == said.output
    assert said.output.startswith("Exit code: 3\n[changed A empty, A new.txt, D old.txt]")
    assert said.data["changes"][2] == {"path": "old.txt", "change": "D"}
    assert terminal.in_layers() == []


async def test_one_that_changes_nothing_leaves_no_effect(terminal: Terminal) -> None:
    (terminal.root / "a.txt").write_text("a\n")
    said = await terminal.run("cat a.txt; touch a.txt; echo x > /tmp/elsewhere")
    assert "changed" not in said.output
    assert terminal.effects == []


async def test_cut_off_while_it_runs_nothing_has_happened(terminal: Terminal) -> None:
    (terminal.root / "a.txt").write_text("a\n")
    running = asyncio.create_task(terminal.run("echo b >> a.txt; echo begun > begun; sleep 60"))
    while not written(terminal.root / "begun").exists():  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (terminal.root / "a.txt").read_text() == "a\n"
    assert names(terminal.root) == ["a.txt"]
    assert (terminal.effects, terminal.in_layers()) == ([], [])


async def test_cut_off_in_its_commit_it_is_finished_from_what_was_kept(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise GraphDies

    with monkeypatch.context() as patch:
        patch.setattr(commit_module, "apply", dies)
        patch.setattr(terminal.context.journal, "take_back", lambda *_: None)
        with pytest.raises(GraphDies):
            await terminal.run("mkdir d; echo x > d/x; chmod 755 d/x; ln -s x d/l")
    for layer in terminal.layers():
        shutil.rmtree(layer)
    assert names(terminal.root) == []
    (recovered,) = recover(terminal.journal, terminal.journal.unfinished("t"))
    assert recovered.conflicts == ()
    assert (terminal.root / "d" / "x").read_text() == "x\n"
    assert (terminal.root / "d" / "x").stat().st_mode & 0o777 == 0o755
    assert (terminal.root / "d" / "l").readlink() == Path("x")
    assert terminal.journal.position("t") == recovered.effect.id


async def test_a_commit_that_fails_changes_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (terminal.root / "a.txt").write_text("a\n")
    real = commit_module.apply

    def half(root: int, changes: list[object], source: object) -> list[object]:
        real(root, changes[:1], source)  # type: ignore[arg-type]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commit_module, "apply", half)
    with pytest.raises(ToolExecutionError, match=r"could not be kept.*disk is full"):
        await terminal.run("echo b > a.txt; echo new > b.txt")
    assert (terminal.root / "a.txt").read_text() == "a\n"
    assert names(terminal.root) == ["a.txt"]
    assert [effect.status for effect in terminal.effects] == ["void"]


async def test_what_somebody_else_changed_meanwhile_stays_theirs(terminal: Terminal) -> None:
    (terminal.root / "a.txt").write_text("a\n")
    running = asyncio.create_task(
        terminal.run("echo mine > a.txt; echo mine > b.txt; echo begun > begun; sleep 1.5")
    )
    while not written(terminal.root / "begun").exists():  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.01)
    (terminal.root / "a.txt").write_text("theirs\n")
    said = await running
    assert (terminal.root / "a.txt").read_text() == "theirs\n"
    assert (terminal.root / "b.txt").read_text() == "mine\n"
    assert "[a.txt was changed by somebody else while the command ran: their version stays]" in said.output


async def test_a_rule_and_gits_own_places_hold_single_files_back(terminal: Terminal) -> None:
    (terminal.root / ".git" / "hooks").mkdir(parents=True)
    terminal.context = replace(terminal.context, is_denied=lambda path: path.startswith("secret/"))
    said = await terminal.run(
        "mkdir secret; echo x > secret/x; echo y > y; echo evil > .git/hooks/post-commit"
    )
    assert names(terminal.root) == [".git", "secret", "y"]
    assert names(terminal.root / "secret") == []
    assert names(terminal.root / ".git" / "hooks") == []
    assert "[secret/x was not kept: a rule forbids it]" in said.output
    assert ".git/hooks/post-commit was not kept" in said.output


async def test_its_differences_are_shown_to_people(terminal: Terminal) -> None:
    shown: list[object] = []
    (terminal.root / "a.txt").write_text("a\n")
    terminal.context = replace(terminal.context, emit=shown.append)
    await terminal.run("echo b >> a.txt; head -c 300000 /dev/zero > big.bin")
    (preview,) = [event for event in shown if getattr(event, "type", "") == "agent_diff_preview"]
    assert (preview.file_path, preview.change_type) == ("a.txt", "modify")  # type: ignore[attr-defined]


async def test_dependencies_are_made_and_not_kept(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What .gitignore names and is large: the workspace gets it, the journal does not."""
    monkeypatch.setattr("lockstitch.tools.changes.ignored_changes.FILES_MAX", 5)
    (terminal.root / ".gitignore").write_text("node_modules/\n")
    said = await terminal.run(
        "mkdir -p node_modules/a; for n in 1 2 3 4 5 6; do echo $n > node_modules/a/$n; done; echo x > x"
    )
    assert len(names(terminal.root / "node_modules" / "a")) == 6
    (effect,) = terminal.effects
    assert [change.path for change in effect.changes] == ["x"]
    assert "[node_modules is ignored and large: no rewind takes back what is in it]" in said.output
