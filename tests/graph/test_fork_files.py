"""A fork by LangGraph's own API: the files are asked about, taken along or kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield Journal(ledger, ObjectStore(tmp_path / "objects", ledger))


async def forked(tmp_path: Path, journal: Journal, **settings: Any) -> Bench:
    """Two runs write `a.txt`; the thread is set back to the end of the first one, as Studio does it."""
    one = says("", call("write_file", "c1", path="a.txt", content="one\n"))
    two = says("", call("write_file", "c2", path="a.txt", content="two\n"))
    place = Bench(
        tmp_path, FakeModel(one, says("1."), two, says("2."), says("3.")), journal=journal, **settings
    )
    await place.run("first")
    config = (await place.graph.aget_state(place.config)).config
    await place.run("second")
    assert (place.workspace / "a.txt").read_text() == "two\n"
    place.config = await place.graph.aupdate_state(config, None, as_node="finish")
    place.config = {"configurable": {"thread_id": "t"}}
    return place


def text(place: Bench) -> str:
    return (place.workspace / "a.txt").read_text()


async def test_a_person_is_asked_and_the_files_come_along(tmp_path: Path, journal: Journal) -> None:
    place = await forked(tmp_path, journal)
    await place.run("third")
    asked = await place.waits_for()
    assert asked["action_requests"][0]["name"] == "restore_files"
    assert "M a.txt" in asked["action_requests"][0]["description"]
    assert asked["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
    assert text(place) == "two\n"
    state = await place.run(Command(resume=True))
    assert text(place) == "one\n"
    assert state["files"] == journal.position("t")
    assert state["final_answer"] == "3."


async def test_a_no_leaves_them_and_the_model_is_told(tmp_path: Path, journal: Journal) -> None:
    place = await forked(tmp_path, journal)
    await place.run("third")
    state = await place.run(Command(resume=False))
    assert text(place) == "two\n"
    assert state["files"] == journal.position("t")
    assert any("the files stayed as later work left them" in message.text for message in state["messages"])


async def test_by_setting_they_come_along_unasked(tmp_path: Path, journal: Journal) -> None:
    place = await forked(tmp_path, journal, files_on_fork="restore")
    state = await place.run("third")
    assert (text(place), state["final_answer"]) == ("one\n", "3.")
    assert journal.effect(state["files"]).kind == "rewind"


async def test_by_setting_they_stay_unasked(tmp_path: Path, journal: Journal) -> None:
    place = await forked(tmp_path, journal, files_on_fork="keep")
    state = await place.run("third")
    assert (text(place), state["final_answer"]) == ("two\n", "3.")
    again = await place.run("fourth") if place.parts.models.replies else state  # type: ignore[attr-defined]
    assert again["files"] == journal.position("t")


async def test_what_somebody_else_changed_stays(tmp_path: Path, journal: Journal) -> None:
    place = await forked(tmp_path, journal, files_on_fork="restore")
    (place.workspace / "a.txt").write_text("a person's\n")
    state = await place.run("third")
    assert text(place) == "a person's\n"
    assert any("somebody else changed a.txt" in message.text for message in state["messages"])


async def test_a_run_on_its_own_files_asks_nothing(tmp_path: Path, journal: Journal) -> None:
    one = says("", call("write_file", "c1", path="a.txt", content="one\n"))
    place = Bench(tmp_path, FakeModel(one, says("1."), says("2.")), journal=journal)
    await place.run("first")
    state = await place.run("second")
    assert state["final_answer"] == "2."
    assert await place.waits_for() is None
