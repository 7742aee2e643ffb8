"""Rewinds, undos and redos of real threads: files and conversation go together, and nothing is lost."""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.person import PATIENCE_S, Open, Person
from tests.random_commands import contents

from lockstitch.graph.note import is_note
from lockstitch.state.errors import SystemFaultError, ThreadBusyError, UsageError, WorkspaceError
from lockstitch.state.journal import BEGINNING, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.thread_lock import hold_thread
from lockstitch.studio.move_request import FilesChangedError, Moved, MoveRequest
from lockstitch.studio.past import PastStep
from lockstitch.tools.changes import restore as restore_module

AUTO = {"mode": "auto", "unsandboxed_commands": "allow"}
WRITES = """
- calls:
  - {tool: write_file, args: {path: a.txt, content: "one\\n"}}
  - {tool: create_tasks, args: {tasks: [A, B]}}
- calls: [{tool: write_file, args: {path: src/b.txt, content: "two\\n"}}]
- calls:
  - {tool: write_file, args: {path: a.txt, content: "one\\nmore\\n"}}
  - {tool: delete_file, args: {path: src}}
- say: Done.
- calls: [{tool: write_file, args: {path: c.txt, content: "three\\n"}}]
- say: And done.
- say: Again.
- say: And again.
"""
STEP_FILES: list[dict[str, str]] = [
    {},
    {"a.txt": "one\n"},
    {"a.txt": "one\n", "src/b.txt": "two\n"},
    {"a.txt": "one\nmore\n"},
    {"a.txt": "one\nmore\n"},
    {"a.txt": "one\nmore\n", "c.txt": "three\n"},
    {"a.txt": "one\nmore\n", "c.txt": "three\n"},
]


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


async def two_runs(person: Person) -> None:
    assert await person.run("go") == "answered"
    assert await person.run("and on") == "answered"


async def move(person: Person, to: int | None = None, **request: Any) -> Moved:
    return await person.service.stitches.move(MoveRequest(thread_id=person.thread_id, to=to, **request))


async def assert_tied(person: Person) -> None:
    """The checkpoint names the files that are on the disk, and the thread rests."""
    journal = person.service.parts.journal
    assert journal is not None
    state = await person.state()
    assert state.get("files", BEGINNING) == journal.position(person.thread_id)
    assert not (await person.service.view(person.thread_id)).unfinished
    assert journal.unfinished(person.thread_id) == []
    assert person.row().steps == len(state.get("steps", []))


@pytest.mark.parametrize("step", range(7))
async def test_a_rewind_brings_files_and_conversation_of_any_step_back(
    opened: Open, workspace: Path, step: int
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        moved = await move(person, step)
        assert files(workspace) == STEP_FILES[step]
        assert (workspace / "src").exists() == (step == 2)
        state = await person.state()
        assert [record["started_at"] for record in state.get("steps", [])] == [
            record["started_at"] for record in before["steps"][:step]
        ]
        said = state["messages"]
        assert said == before["messages"][: len(said)]
        assert bool(said) == bool(step)
        assert moved.preview.messages_gone == len(before["messages"]) - len(said)
        assert [task["content"] for task in state.get("todos", [])] == (["A", "B"] if step else [])
        assert state["last_seq"] == before["last_seq"]
        assert state["thread_tokens"] == before["thread_tokens"]
        await assert_tied(person)


async def test_a_step_that_ended_its_run_has_the_last_words(opened: Open) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, 4)
        state = await person.state()
        assert (state["final_answer"], state["reason"], state["phase"]) == ("Done.", "answered", "completed")
        await move(person, 3)
        state = await person.state()
        assert (state["final_answer"], state["reason"], state["phase"]) == ("", "cancelled", "cancelled")


async def test_a_rewound_thread_goes_on_from_there(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, 1)
        assert await person.run("once more") == "answered"  # the model says what follows step 1
        assert files(workspace) == STEP_FILES[4]
        assert len((await person.state())["steps"]) == 4
        person.assert_seq_is_whole()
        await assert_tied(person)
        await move(person, 2)
        assert files(workspace) == STEP_FILES[2]


@pytest.mark.parametrize("what", ["both", "files", "conversation"])
@pytest.mark.parametrize("step", [0, 2, 5])
async def test_undo_restores_what_was_before_a_rewind(
    opened: Open, workspace: Path, step: int, what: Any
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        await move(person, step, what=what)
        await move(person, kind="undo")
        state = await person.state()
        assert files(workspace) == STEP_FILES[6]
        assert [state[key] for key in ("messages", "steps", "todos", "final_answer")] == [
            before[key] for key in ("messages", "steps", "todos", "final_answer")
        ]
        await assert_tied(person)


async def test_undo_goes_back_step_by_step_and_redo_forth(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        for step in (5, 4, 3, 2, 1, 0):
            assert (await move(person, kind="undo")).preview.step == step
            assert files(workspace) == STEP_FILES[step]
        with pytest.raises(UsageError, match="nothing to undo"):
            await move(person, kind="undo")
        for step in (1, 2, 3, 4, 5, 6):
            assert (await move(person, kind="redo")).preview.step == step
            assert files(workspace) == STEP_FILES[step]
        with pytest.raises(UsageError, match="nothing to redo"):
            await move(person, kind="redo")


async def test_redo_makes_an_undone_rewind_again(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, 1)
        await move(person, kind="undo")
        await move(person, kind="redo")
        assert files(workspace) == STEP_FILES[1]
        await move(person, kind="undo")  # the rewind once more
        assert files(workspace) == STEP_FILES[6]


async def test_redo_after_a_rewind_takes_it_back(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, 1)
        await move(person, kind="redo")
        assert files(workspace) == STEP_FILES[6]


async def test_nothing_is_redone_after_a_step(opened: Open) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, kind="undo")
        await person.run("on")
        with pytest.raises(UsageError, match="nothing to redo"):
            await move(person, kind="redo")


async def test_files_alone_are_taken_back_and_the_model_is_told(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        await move(person, 2, what="files")
        assert files(workspace) == STEP_FILES[2]
        state = await person.state()
        assert state["messages"][:-1] == before["messages"]
        told = state["messages"][-1]
        assert is_note(told)
        assert "M a.txt, D c.txt, A src, A src/b.txt" in told.text
        assert state["steps"] == before["steps"]
        await assert_tied(person)


async def test_the_conversation_alone_is_taken_back_and_the_model_is_told(
    opened: Open, workspace: Path
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        await move(person, 2, what="conversation")
        assert files(workspace) == STEP_FILES[6]
        state = await person.state()
        assert state["messages"][:-1] == before["messages"][: len(state["messages"]) - 1]
        assert "M a.txt, A c.txt, D src, D src/b.txt" in state["messages"][-1].text
        await assert_tied(person)


async def test_a_file_that_somebody_else_changed_is_never_overwritten(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        (workspace / "a.txt").write_text("a person's\n")
        preview = await person.service.stitches.preview(MoveRequest(thread_id=person.thread_id, to=2))
        assert preview.conflicts == ("a.txt",)
        assert [delta.path for delta in preview.files] == ["c.txt", "src", "src/b.txt"]
        before, now = await person.state(), files(workspace)
        with pytest.raises(FilesChangedError, match=r"a\.txt.*--keep-changed"):
            await move(person, 2)
        assert (await person.state(), files(workspace)) == (before, now)
        moved = await move(person, 2, keep_changed=True)
        assert moved.left == ("a.txt",)
        assert files(workspace) == STEP_FILES[2] | {"a.txt": "a person's\n"}
        await move(person, kind="undo")
        assert files(workspace) == now


async def test_a_file_that_is_as_it_shall_be_is_left_and_undo_leaves_it(
    opened: Open, workspace: Path
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        (workspace / "a.txt").write_text("one\n")  # by hand, as it was after step 2
        moved = await move(person, 2)
        assert "a.txt" not in [delta.path for delta in moved.preview.files]
        await move(person, kind="undo")
        assert files(workspace) == STEP_FILES[6] | {"a.txt": "one\n"}


async def test_what_a_person_put_into_a_folder_of_the_thread_stays(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await person.run("go", max_steps=2)
        (workspace / "src" / "mine.txt").write_text("mine\n")
        moved = await move(person, 1)
        assert moved.preview.staying == ("src",)
        assert files(workspace) == STEP_FILES[1] | {"src/mine.txt": "mine\n"}


async def test_files_the_thread_never_touched_are_not_touched(opened: Open, workspace: Path) -> None:
    (workspace / "other.txt").write_text("other\n")
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        (workspace / "other.txt").write_text("changed\n")
        (workspace / "new.txt").write_text("new\n")
        await move(person, 0)
        assert files(workspace) == {"other.txt": "changed\n", "new.txt": "new\n"}


async def test_a_step_there_is_not_is_refused(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        for request in (7, None):
            with pytest.raises(UsageError, match="step"):
                await move(person, request)
        assert files(workspace) == STEP_FILES[6]


async def test_a_thread_that_went_on_since_it_was_shown_is_not_moved(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        preview = await person.service.stitches.preview(MoveRequest(thread_id=person.thread_id, to=2))
        await person.run("on")
        with pytest.raises(UsageError, match="went on since"):
            await move(person, 2, seen=preview.token)
        assert files(workspace) == STEP_FILES[6]


async def test_a_thread_that_is_being_written_is_refused(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        with (
            hold_thread(person.service.parts.home.locks, person.thread_id, holder="another"),
            pytest.raises(ThreadBusyError, match="another"),
        ):
            await move(person, 1)
        assert files(workspace) == STEP_FILES[6]


async def test_a_missing_workspace_is_told_and_its_new_place_can_be_named(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        os.rename(workspace, tmp_path / "elsewhere")  # noqa: PTH104  pathlib is not for async functions
        with pytest.raises(WorkspaceError, match="--workspace"):
            await move(person, 1)
        await move(person, 1, workspace=str(tmp_path / "elsewhere"))
        assert files(tmp_path / "elsewhere") == STEP_FILES[1]
        assert (await person.state())["workspace"] == str(tmp_path / "elsewhere")
        await assert_tied(person)


async def test_a_question_that_waits_is_dropped_and_the_call_not_made(opened: Open, workspace: Path) -> None:
    turns = "".join(WRITES.partition("  - {tool: create_tasks")[:1])
    turns += "- calls: [{tool: delete_file, args: {path: a.txt}}]\n- say: Fine.\n"
    async with opened(turns) as person:
        assert await person.run("go") == "waiting"
        moved = await move(person, 1)
        assert moved.preview.warnings == ("What waits for your word is dropped: the call is not made.",)
        assert (await person.service.view(person.thread_id)).waiting_for is None
        await move(person, kind="undo")
        state = await person.state()
        assert state["messages"][-1].tool_calls[0]["name"] == "delete_file"  # type: ignore[union-attr]
        assert await person.run("rather not") == "answered"
        answers = [m.text for m in (await person.state())["messages"] if m.type == "tool"]
        assert "this call was not made" in answers[-1]
        assert files(workspace) == STEP_FILES[1]


async def test_a_thread_from_before_the_journal_says_what_it_cannot_take_back(
    opened: Open, workspace: Path
) -> None:
    async with opened(WRITES, **AUTO) as person:
        object.__setattr__(person.service.parts, "journal", None)
        await person.run("go")
        thread_id = person.thread_id
    async with opened(WRITES, thread_id, **AUTO) as person:
        await person.run("and on")
        moved = await move(person, 1)
        assert files(workspace) == STEP_FILES[3]
        assert moved.preview.warnings == (
            "What was changed in step 2, 3 was not kept at that time, and is not taken back.",
        )
        await assert_tied(person)


async def test_gits_own_files_stay_and_a_moved_head_is_told(opened: Open, workspace: Path) -> None:
    def git(*words: str) -> None:
        person_is = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *person_is, *words], cwd=workspace, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    async with opened(WRITES, **AUTO) as person:
        await person.run("go", max_steps=2)
        os.utime(workspace / ".git" / "logs" / "HEAD")
        log = workspace / ".git" / "logs" / "HEAD"
        past = log.read_text().replace(" +0000", " +0000")
        log.write_text(past)
        assert (await move(person, 1)).preview.warnings == ()
        later = past.splitlines()[-1].split(">")
        log.write_text(past + f"{later[0]}> 4000000000 +0000\tcommit: second\n")
        await move(person, kind="undo")
        [told] = (await move(person, 1)).preview.warnings
        assert told == "git's HEAD moved once since (a commit or a checkout): `.git` stays as it is."


class Killed(BaseException):
    """What nothing catches, as kill -9."""


SEAMS = {
    "before the seal": ("lockstitch.state.journal.Journal.seal", "before"),
    "after the seal": ("lockstitch.state.journal.Journal.seal", "after"),
    "in the middle of the files": ("lockstitch.tools.confined.file_source.KeptBytes.put", "after"),
    "before the files are noted": ("lockstitch.state.journal.Journal.finish", "before"),
    "after the files are noted": ("lockstitch.state.journal.Journal.finish", "after"),
    "before the conversation": ("lockstitch.studio.stitches.tie", "before"),
    "in the middle of the conversation": ("lockstitch.state.lean_saver.LeanSaver.aput", "before"),
    "after the conversation": ("lockstitch.studio.stitches.tie", "after"),
    "before the index": ("lockstitch.state.threads.ThreadIndex.record", "before"),
}


def kill_at(monkeypatch: pytest.MonkeyPatch, seam: str) -> None:
    name, when = SEAMS[seam]
    owner, _, verb = name.rpartition(".")
    module, _, kind = owner.rpartition(".")
    place = getattr(sys.modules[module], kind, None) or sys.modules[owner]
    real = getattr(place, verb)

    def dies(*given: Any, **named: Any) -> Any:
        if when == "after":
            real(*given, **named)
        raise Killed

    async def dies_async(*given: Any, **named: Any) -> Any:
        if when == "after":
            await real(*given, **named)
        raise Killed

    monkeypatch.setattr(place, verb, dies_async if verb in ("tie", "aput") else dies)


@pytest.mark.parametrize("looks", ["a move", "a run"])
@pytest.mark.parametrize("seam", SEAMS)
async def test_a_move_that_was_killed_anywhere_is_made_wholly_or_not_at_all(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch, seam: str, looks: str
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        with monkeypatch.context() as patch:
            kill_at(patch, seam)
            with pytest.raises(Killed):
                await move(person, 2)
    made = seam != "before the seal"
    async with opened(WRITES, person.thread_id, **AUTO) as person:
        if looks == "a move":
            await person.service.stitches.preview(MoveRequest(thread_id=person.thread_id, to=0))
            assert files(workspace) == STEP_FILES[2 if made else 6]
            state = await person.state()
            assert len(state["steps"]) == (2 if made else 6)
            assert state["files"] == position(person)
            await move(person, kind="undo")  # of the rewind, or of the last step
            assert files(workspace) == STEP_FILES[6 if made else 5]
            assert (await person.state())["messages"] == before["messages"][: None if made else -1]
        else:
            await person.run("on", max_steps=1)
            assert len((await person.state())["steps"]) == (3 if made else 7)
            assert files(workspace) == STEP_FILES[3 if made else 6]
        await assert_tied(person)


def position(person: Person) -> str:
    journal = person.service.parts.journal
    assert journal is not None
    return journal.position(person.thread_id)


async def test_a_move_whose_files_cannot_be_written_changes_nothing(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = restore_module.apply

    def full(root: int, changes: Any, source: Any) -> Any:
        real(root, changes[:1], source)
        monkeypatch.setattr(restore_module, "apply", real)
        raise OSError(28, "No space left on device")

    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        monkeypatch.setattr(restore_module, "apply", full)
        with pytest.raises(SystemFaultError, match="full disk"):
            await move(person, 2)
        assert files(workspace) == STEP_FILES[6]
        assert await person.state() == before
        await assert_tied(person)
        await move(person, 2)
        assert files(workspace) == STEP_FILES[2]


async def test_a_content_that_is_gone_is_told_and_nothing_is_touched(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        before = await person.state()
        with open_ledger(person.service.parts.home.ledger_db) as ledger:
            assert ledger.execute("DELETE FROM contents RETURNING 1")
        with pytest.raises(SystemFaultError, match="doctor"):
            await move(person, 2)
        assert files(workspace) == STEP_FILES[6]
        assert await person.state() == before
        assert person.service.parts.journal is not None
        assert person.service.parts.journal.unfinished(person.thread_id) == []


async def test_what_a_killed_run_was_changing_is_finished_before_a_rewind(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(WRITES, **AUTO) as person:
        await person.run("go", max_steps=1)
        with monkeypatch.context() as patch:
            kill_at(patch, "after the seal")
            patch.setattr(Journal, "void", lambda *_: None)
            with pytest.raises(Killed):
                await person.service._graph.ainvoke(  # type: ignore[call-overload]
                    {"messages": [("user", "on")]},
                    {"configurable": {"thread_id": person.thread_id}},
                    durability="sync",
                )
    async with opened(WRITES, person.thread_id, **AUTO) as person:
        assert (await person.service.view(person.thread_id)).unfinished
        moved = await move(person, kind="undo")  # the half step
        assert moved.preview.warnings == ("The run that was cut off does not go on.",)
        assert files(workspace) == STEP_FILES[1]
        assert moved.preview.step == 1
        await assert_tied(person)
        await move(person, kind="redo")
        assert files(workspace) == STEP_FILES[2]


async def test_what_a_stopped_step_had_changed_is_undone_first(opened: Open, workspace: Path) -> None:
    turns = """
- calls: [{tool: write_file, args: {path: a.txt, content: "one\\n"}}]
- calls:
  - {tool: write_file, args: {path: a.txt, content: "two\\n"}}
  - {tool: run_command, args: {command: "touch begun; sleep 60"}}
- say: Done.
"""
    async with opened(turns, **AUTO) as person:
        handle = person.start("go")
        await wait_for(workspace / "a.txt", "two\n")
        handle.stop()
        assert await person.read(handle) == "cancelled"
        assert (await person.state())["files"] == position(person)
        assert (await move(person, kind="undo")).preview.step == 1
        assert (workspace / "a.txt").read_text() == "one\n"
        await move(person, kind="redo")
        assert (workspace / "a.txt").read_text() == "two\n"


async def wait_for(path: Path, content: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (path.exists() and path.read_text() == content):  # noqa: ASYNC110, ASYNC240  a file tells nobody
            await asyncio.sleep(0.01)


NAMES = ["a", "b.txt", "d/c", "d/e/f", "d/e/g", "link", "run.sh", "bin", "new/n"]


def random_turns(source: random.Random, steps: int) -> str:
    """A scenario of random calls of the file tools; some of them fail, as a model's do."""

    def one() -> dict[str, Any]:
        path, other = source.choice(NAMES), source.choice(NAMES)
        content = "".join(source.choice("xyz\n") for _ in range(source.randint(0, 40)))
        return source.choice(
            [
                {"tool": "write_file", "args": {"path": path, "content": content}},
                {"tool": "write_file", "args": {"path": path, "content": content}},
                {
                    "tool": "edit_file",
                    "args": {"path": path, "old_text": "x", "new_text": "yy", "replace_all": True},
                },
                {"tool": "delete_file", "args": {"path": path}},
                {"tool": "delete_file", "args": {"path": source.choice(["d", "d/e", "new"])}},
                {"tool": "move_file", "args": {"source": path, "destination": other}},
                {"tool": "move_file", "args": {"source": "d", "destination": f"moved{source.randint(0, 9)}"}},
            ]
        )

    turns = [{"calls": [one() for _ in range(source.randint(1, 3))]} for _ in range(steps)]
    return json.dumps([*turns, {"say": "Done."}])


def fill(root: Path) -> None:
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e").chmod(0o700)
    (root / "d" / "empty").mkdir()
    (root / "a").write_bytes(b"x\r\ny\r\n")
    (root / "bin").write_bytes(bytes(range(256)) * 20)
    (root / "run.sh").write_text("x\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("d/e")
    (root / "d" / "e" / "f").symlink_to("/nowhere")
    (root / "d" / "c").write_text("xyz")
    (root / "d" / "c").chmod(0o600)


@pytest.mark.parametrize("seed", range(2))
async def test_any_step_of_a_random_thread_is_restored_to_the_byte_mode_and_link(
    opened: Open, workspace: Path, seed: int
) -> None:
    source, trees, steps = random.Random(seed), [], 10
    fill(workspace)
    async with opened(random_turns(source, steps), **AUTO, rate_limit_per_minute=0) as person:
        trees.append(contents(workspace))
        await person.run("go", max_steps=1)
        trees.append(contents(workspace))
        while len((await person.state())["steps"]) < steps:
            await person.run(max_steps=1)
            trees.append(contents(workspace))
        assert len({str(tree) for tree in trees}) > steps // 2
        for _ in range(8):
            step, now = source.randint(0, steps), contents(workspace)
            await move(person, step, what="files")
            assert contents(workspace) == trees[step]
            if source.random() < 0.5:
                await move(person, kind="undo")
                assert contents(workspace) == now
            await assert_tied(person)


async def test_a_pruned_thread_keeps_its_state_and_says_what_is_gone(opened: Open, workspace: Path) -> None:
    async with opened(WRITES, **AUTO) as person:
        await two_runs(person)
        await move(person, 3)
        before = await person.state()
        await person.service._graph.checkpointer.aprune([person.thread_id])  # type: ignore[union-attr]
        assert await person.state() == before
        with pytest.raises(UsageError, match="pruned"):
            await move(person, kind="undo")
        assert files(workspace) == STEP_FILES[3]
        assert await person.run("on") == "answered"
        await move(person, kind="undo")
        assert files(workspace) == STEP_FILES[3]
        past = await person.service.stitches.past(person.thread_id)
        assert [step.number for step in past if isinstance(step, PastStep)] == [1, 2, 3]
        await assert_tied(person)
