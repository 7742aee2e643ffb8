"""Forks: a new thread at a step of another one, in the same folder or a copy; the other stays."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.person import Open, Person
from tests.random_commands import contents

from lockstitch.graph.note import is_note
from lockstitch.state.errors import SystemFaultError, ThreadUnknownError, UsageError, WorkspaceError
from lockstitch.state.spill import SpillStore
from lockstitch.state.threads import new_thread_id
from lockstitch.studio import fork as fork_module
from lockstitch.studio.fork import Forked, ForkRequest
from lockstitch.studio.move_request import MoveRequest

AUTO = {"mode": "auto", "unsandboxed_commands": "allow"}
TURNS = """
- calls: [{tool: write_file, args: {path: a.txt, content: "one\\n"}}]
- calls: [{tool: write_file, args: {path: a.txt, content: "two\\n"}}]
- calls: [{tool: write_file, args: {path: b.txt, content: "three\\n"}}]
- say: Done.
- say: More.
"""


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


async def fork(person: Person, at: int | None = None, workspace: Path | None = None) -> tuple[Forked, Person]:
    given = str(workspace) if workspace else None
    request = ForkRequest(thread_id=person.thread_id, at=at, workspace=given)
    forked = await person.service.stitches.fork(request)
    return forked, Person(person.service, forked.thread_id)


def position(person: Person) -> str:
    assert person.service.parts.journal is not None
    return person.service.parts.journal.position(person.thread_id)


@pytest.mark.parametrize("step", range(5))
async def test_a_fork_with_a_folder_has_the_files_and_the_conversation_of_its_step(
    opened: Open, workspace: Path, tmp_path: Path, step: int
) -> None:
    (workspace / "mine.txt").write_text("mine\n")
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        before, tree = await person.state(), contents(workspace)
        forked, other = await fork(person, step, tmp_path / "copy")
        state = await other.state()
        want = [{}, {"a.txt": "one\n"}, {"a.txt": "two\n"}, *[{"a.txt": "two\n", "b.txt": "three\n"}] * 2]
        assert files(tmp_path / "copy") == want[step] | {"mine.txt": "mine\n"}
        assert (len(state.get("steps", [])), state["workspace"]) == (step, str(tmp_path / "copy"))
        assert state["messages"] == before["messages"][: len(state["messages"])]
        assert state["files"] == position(other)
        assert (await person.state(), contents(workspace)) == (before, tree)
        assert other.row().title == person.row().title
        assert (forked.left, forked.step) == ((), step)
        assert await other.run("go") == "answered"
        other.assert_seq_is_whole()
        assert files(tmp_path / "copy")["a.txt"] == "two\n"
        assert (await person.state(), contents(workspace)) == (before, tree)


async def test_a_fork_can_be_rewound_to_steps_before_it(opened: Open, tmp_path: Path) -> None:
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        _, other = await fork(person, 3, tmp_path / "copy")
        await other.service.stitches.move(MoveRequest(thread_id=other.thread_id, to=1))
        assert files(tmp_path / "copy") == {"a.txt": "one\n"}
        await other.service.stitches.move(MoveRequest(thread_id=other.thread_id, kind="undo"))
        assert files(tmp_path / "copy") == {"a.txt": "two\n", "b.txt": "three\n"}
        await other.service.stitches.move(MoveRequest(thread_id=other.thread_id, kind="undo"))
        assert files(tmp_path / "copy") == {"a.txt": "two\n"}


async def test_a_fork_outlives_its_source(opened: Open, tmp_path: Path) -> None:
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        _, other = await fork(person, 3, tmp_path / "copy")
        assert person.service.parts.journal is not None
        await person.service._graph.checkpointer.adelete_thread(person.thread_id)  # type: ignore[union-attr]
        person.service.parts.journal.forget(person.thread_id)
        await other.service.stitches.move(MoveRequest(thread_id=other.thread_id, to=0))
        assert files(tmp_path / "copy") == {}


async def test_a_fork_in_the_same_folder_leaves_it_and_tells_the_model(opened: Open, workspace: Path) -> None:
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        forked, other = await fork(person, 1)
        assert [delta.path for delta in forked.files] == ["a.txt", "b.txt"]
        assert files(workspace) == {"a.txt": "two\n", "b.txt": "three\n"}
        state = await other.state()
        assert is_note(state["messages"][-1])
        assert "M a.txt, A b.txt" in state["messages"][-1].text
        assert state["files"] == position(other) == position(person)
        await other.service.stitches.move(MoveRequest(thread_id=other.thread_id, to=1, what="files"))
        assert files(workspace) == {"a.txt": "one\n"}


async def test_the_copy_has_modes_links_and_git_and_not_our_home(
    opened: Open, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace / "run.sh").write_text("x")
    (workspace / "run.sh").chmod(0o750)
    (workspace / "link").symlink_to("/nowhere")
    (workspace / "empty").mkdir(mode=0o700)
    os.mkfifo(workspace / "pipe")
    monkeypatch.setenv("LOCKSTITCH_HOME", str(workspace / "home"))
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        await fork(person, None, tmp_path / "copy")
    here, copy = contents(workspace), contents(tmp_path / "copy")
    left_out = {path for path in here if path == b"pipe" or path.partition(b"/")[0] == b"home"}
    assert copy == {path: held for path, held in here.items() if path not in left_out}


async def test_what_a_person_changed_is_copied_as_it_is(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        (workspace / "a.txt").write_text("a person's\n")
        forked, _ = await fork(person, 1, tmp_path / "copy")
        assert forked.left == ("a.txt",)
        assert files(tmp_path / "copy") == {"a.txt": "a person's\n"}


async def test_a_folder_that_cannot_be_taken_is_refused(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        home = person.service.parts.home.path
        for place in (tmp_path / "full", workspace / "below", home / "x", tmp_path / "full" / "x"):
            with pytest.raises(WorkspaceError):
                await fork(person, 1, place)
        with pytest.raises(UsageError, match="no step 9"):
            await fork(person, 9)
        assert len(person.service.threads.recent(9)) == 1
        assert files(tmp_path / "full") == {"x": ""}


async def test_a_fork_that_fails_leaves_no_folder(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise SystemFaultError("full")

    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        monkeypatch.setattr(fork_module, "apply", fails)
        with pytest.raises(SystemFaultError):
            await fork(person, 1, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        assert len(person.service.threads.recent(9)) == 1


async def test_kept_texts_can_be_read_in_the_fork_and_outlive_the_source(opened: Open) -> None:
    async with opened(TURNS, **AUTO) as person:
        await person.run("go")
        spill = person.service.parts.home.spill
        kept = SpillStore(spill, person.thread_id).keep("a long text")
        forked, _ = await fork(person, 1)
        SpillStore(spill, person.thread_id).clear()
        assert SpillStore(spill, forked.thread_id).read(kept) == "a long text"


async def test_an_unknown_thread_cannot_be_forked(opened: Open) -> None:
    async with opened(TURNS) as person:
        person.thread_id = new_thread_id()
        with pytest.raises(ThreadUnknownError):
            await fork(person, 0)
