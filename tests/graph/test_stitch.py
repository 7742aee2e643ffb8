"""The files of a thread are locked to its steps: each change is in the journal, and made once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore


class GraphDies(BaseException):
    """Nothing of ours catches it."""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield Journal(ledger, ObjectStore(tmp_path / "objects", ledger))


def bench(tmp_path: Path, journal: Journal, *replies: Any, **settings: Any) -> Bench:
    return Bench(tmp_path, FakeModel(*replies), journal=journal, **settings)


async def test_a_checkpoint_names_the_files_that_it_was_made_with(tmp_path: Path, journal: Journal) -> None:
    place = bench(
        tmp_path,
        journal,
        says("", call("write_file", "c1", path="a.txt", content="one\n")),
        says("", call("read_file", "c2", path="a.txt")),
        says("", call("edit_file", "c3", path="a.txt", old_text="one", new_text="two")),
        says("Done."),
    )
    state = await place.run("go")
    line = journal.lineage(state["files"])
    assert len(line) == 2
    assert journal.position("t") == state["files"]
    history = [s.values.get("files", BEGINNING) async for s in place.graph.aget_state_history(place.config)]
    assert set(history) == {BEGINNING, *line}
    assert [journal.effect(one).tool for one in line] == ["edit_file", "write_file"]


async def test_a_change_that_a_kill_cut_off_is_finished_and_not_made_again(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is left behind the seal, with nothing recorded, as by a kill."""
    edit = call("edit_file", "c1", path="a.txt", old_text="x", new_text="xx")
    place = bench(tmp_path, journal, says("", edit), says("Done."))
    (place.workspace / "a.txt").write_text("x\n")
    seal = journal.seal

    def dies_after(effect: Effect) -> None:
        seal(effect)
        raise GraphDies

    with monkeypatch.context() as patch:
        patch.setattr(journal, "seal", dies_after)
        patch.setattr(journal, "void", lambda effect_id: None)
        with pytest.raises(GraphDies):
            await place.run("go")
    assert (place.workspace / "a.txt").read_text() == "x\n"
    state = await place.run(None)
    assert (place.workspace / "a.txt").read_text() == "xx\n"
    (answer,) = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    assert answer == "Done before the run was cut off: M a.txt."
    assert [effect.status for effect in journal.chain(state["files"])] == ["done"]


async def test_a_change_whose_outcome_was_not_stored_is_not_made_twice(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An insertion that would fit a second time: `x` into `xx`, made, and cut off before the checkpoint."""
    edit = call("edit_file", "c1", path="a.txt", old_text="x", new_text="xx")
    place = bench(tmp_path, journal, says("", edit), says("Done."))
    (place.workspace / "a.txt").write_text("x\n")
    finish = journal.finish

    def dies_after(effect_id: str) -> None:
        finish(effect_id)
        raise GraphDies

    with monkeypatch.context() as patch:
        patch.setattr(journal, "finish", dies_after)
        with pytest.raises(GraphDies):
            await place.run("go")
    assert (place.workspace / "a.txt").read_text() == "xx\n"
    await place.run(None)
    assert (place.workspace / "a.txt").read_text() == "xx\n"


async def test_a_run_without_a_journal_works_as_ever(tmp_path: Path) -> None:
    place = Bench(tmp_path, FakeModel(says("", call("write_file", path="a.txt", content="x")), says("Done.")))
    state = await place.run("go")
    assert "files" not in state
    assert (place.workspace / "a.txt").read_text() == "x"


async def test_a_new_prompt_after_a_kill_finishes_the_change_and_tells_the_model(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person does not resume: the call that had been made is answered by what it did."""
    write = call("write_file", "c1", path="a.txt", content="x\n")
    place = bench(tmp_path, journal, says("", write), says("Done."))
    seal = journal.seal

    def dies_after(effect: Effect) -> None:
        seal(effect)
        raise GraphDies

    with monkeypatch.context() as patch:
        patch.setattr(journal, "seal", dies_after)
        patch.setattr(journal, "void", lambda effect_id: None)
        with pytest.raises(GraphDies):
            await place.run("go")
    state = await place.run("something else")
    assert (place.workspace / "a.txt").read_text() == "x\n"
    (answer,) = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    assert answer == "Done before the run was cut off: A a.txt."
    assert state["files"] == journal.position("t") != BEGINNING
    assert place.of_type("agent_notice")[-1]["content"] == "Finished what was cut off: A a.txt."
