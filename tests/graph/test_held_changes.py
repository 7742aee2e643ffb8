"""Mode ask, where a layer can be had: a command runs, and a person says whether what it changed is kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says
from tests.layer_files import layers_below

from lockstitch.state.journal import BEGINNING, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.tools.changes.layers import Layers
from lockstitch.tools.changes.spare_layers import wait_for_spares
from lockstitch.tools.commands.sandbox import find_sandbox

pytestmark = pytest.mark.skipif(not find_sandbox().overlay, reason="no overlay can be had on this machine")
APPEND = call("run_command", "c1", command="echo two >> a.txt; echo ran")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield Journal(ledger, ObjectStore(tmp_path / "objects", ledger))


def bench(tmp_path: Path, journal: Journal, *replies: Any, **settings: Any) -> Bench:
    model = FakeModel(*replies)
    made = Bench(tmp_path, model, sandbox=find_sandbox(), journal=journal, mode="ask", **settings)
    (made.workspace / "a.txt").write_text("one\n")
    return made


def answers(state: dict[str, Any]) -> list[str]:
    return [message.text for message in state["messages"] if isinstance(message, ToolMessage)]


def layers(tmp_path: Path) -> list[Path]:
    """Those that hold something; an empty one may be used again."""
    wait_for_spares()
    return [layer for layer in layers_below(tmp_path) if any((layer / "upper").iterdir())]


async def test_what_a_command_changed_is_shown_and_kept_on_a_yes(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    asked = await place.waits_for()
    assert (place.workspace / "a.txt").read_text() == "one\n"
    assert asked["changes"] == [{"path": "a.txt", "change": "M", "added": 1, "removed": 0}]
    assert "+two" in asked["diff"]
    assert asked["review_configs"][0]["allowed_decisions"] == ["approve", "reject", "respond"]
    (event,) = place.of_type("agent_approval_request")
    assert (event["diff"], event["digest"]) == (asked["diff"], asked["digest"])
    state = await place.run(Command(resume={"type": "approve", "digest": asked["digest"]}))
    assert (place.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert answers(state) == ["Exit code: 0\n[changed M a.txt]\nran\n"]
    assert [effect.kind for effect in journal.chain(state["files"])] == ["command"]
    assert layers(tmp_path) == []
    assert place.types().count("agent_tool_start") == place.types().count("agent_tool_complete") == 1


async def test_a_command_that_changes_nothing_asks_nobody(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", call("run_command", command="cat a.txt")), says("Done."))
    state = await place.run("go")
    assert answers(state) == ["Exit code: 0\none\n"]
    assert await place.waits_for() is None


class CutOff:
    """Of every call it is known that it had begun."""

    def begin(self, *_: Any, **__: Any) -> bool:
        return False


async def test_in_mode_plan_a_command_that_was_cut_off_runs_again(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", call("run_command", command="cat a.txt")), says("Done."))
    object.__setattr__(place.parts, "intents", CutOff())
    state = await place.run("go", mode="plan")  # where nothing that it does is kept
    assert answers(state) == ["Exit code: 0\none\n"]


async def test_a_no_throws_it_away_and_tells_the_model(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    state = await place.run(Command(resume={"type": "reject", "message": "not this file"}))
    assert (place.workspace / "a.txt").read_text() == "one\n"
    (answer,) = answers(state)
    assert answer.startswith(
        "Error: the person said no to what this command changed: not this file\nExit code: 0"
    )
    assert (layers(tmp_path), journal.position("t")) == ([], BEGINNING)


async def test_the_calls_behind_it_wait(tmp_path: Path, journal: Journal) -> None:
    calls = [
        call("write_file", "c0", path="b.txt", content="b\n"),
        APPEND,
        call("read_file", "c2", path="a.txt"),
        call("run_command", "c3", command="cat a.txt b.txt"),
    ]
    place = bench(tmp_path, journal, says("", *calls), says("Done."))
    await place.run("go")
    assert (place.workspace / "b.txt").exists()
    assert place.types().count("agent_tool_start") == 2
    state = await place.run(Command(resume=True))
    assert [text.split() for text in answers(state)[2:]] == [
        ["1", "one", "2", "two"],
        ["Exit", "code:", "0", "one", "two", "b"],
    ]
    assert [call["tool"] for call in state["steps"][0]["calls"]] == [
        "write_file", "run_command", "read_file", "run_command"
    ]  # fmt: skip


async def test_a_yes_to_something_else_is_a_no(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    state = await place.run(Command(resume={"type": "approve", "digest": "another"}))
    assert "another call than this one" in answers(state)[0]
    assert (place.workspace / "a.txt").read_text() == "one\n"


async def test_a_file_that_a_person_changed_meanwhile_stays_theirs(tmp_path: Path, journal: Journal) -> None:
    command = call("run_command", "c1", command="echo two >> a.txt; echo new > b.txt")
    place = bench(tmp_path, journal, says("", command), says("Done."))
    await place.run("go")
    (place.workspace / "a.txt").write_text("theirs\n")
    state = await place.run(Command(resume=True))
    assert (place.workspace / "a.txt").read_text() == "theirs\n"
    assert (place.workspace / "b.txt").read_text() == "new\n"
    assert "a.txt was changed by somebody else" in answers(state)[0]


async def test_a_new_prompt_throws_it_away(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    assert len(layers(tmp_path)) == 1
    state = await place.run("never mind")
    assert (place.workspace / "a.txt").read_text() == "one\n"
    assert "was not kept: the person was asked, and sent something new" in answers(state)[0]
    assert layers(tmp_path) == []


async def test_a_layer_that_is_gone_is_told(tmp_path: Path, journal: Journal) -> None:
    import shutil

    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    shutil.rmtree(layers(tmp_path)[0])
    state = await place.run(Command(resume=True))
    assert answers(state) == [
        "Error: what the command changed is gone, so nothing of it was kept: run it again."
    ]


async def test_what_was_kept_in_the_moment_of_a_kill_is_kept_once(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    await place.run("go")
    finish = journal.finish

    class GraphDies(BaseException):
        pass

    def dies_after(effect_id: str) -> None:
        finish(effect_id)
        raise GraphDies

    with monkeypatch.context() as patch:
        patch.setattr(journal, "finish", dies_after)
        with pytest.raises(GraphDies):
            await place.run(Command(resume=True))
    state = await place.run(None)
    assert (place.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert answers(state) == ["Exit code: 0\n[changed M a.txt]\nran\n"]


async def test_with_the_network_it_asks_before(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", APPEND), says("Done."), command_network="on")
    await place.run("go")
    asked = await place.waits_for()
    assert "diff" not in asked
    assert "edit" in asked["review_configs"][0]["allowed_decisions"]
    assert place.types().count("agent_tool_start") == 0


async def test_a_deletion_that_asks_shows_what_would_go(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", call("delete_file", path="a.txt")), says("Done."))
    await place.run("go")
    asked = await place.waits_for()
    assert asked["changes"] == [{"path": "a.txt", "change": "D", "added": 0, "removed": 1}]
    assert "-one" in asked["diff"]
    await place.run(Command(resume={"type": "approve", "digest": asked["digest"]}))
    assert not (place.workspace / "a.txt").exists()


async def test_an_approval_is_for_the_files_that_were_shown(tmp_path: Path, journal: Journal) -> None:
    place = bench(tmp_path, journal, says("", call("delete_file", path="a.txt")), says("Done."))
    await place.run("go")
    (place.workspace / "a.txt").write_text("a person's work\n")
    state = await place.run(Command(resume=True))
    assert (place.workspace / "a.txt").read_text() == "a person's work\n"
    assert "the files changed since the person was asked" in answers(state)[0]


async def test_what_was_to_be_held_does_not_run_where_nothing_holds_it_any_more(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the plan and the call layers are gone, as when another process goes on under other settings."""
    place = bench(tmp_path, journal, says("", APPEND), says("Done."))
    told = iter([""])
    monkeypatch.setattr(Layers, "trouble", lambda *_, **__: next(told, "no layer can be had"))
    state = await place.run("go")
    assert (place.workspace / "a.txt").read_text() == "one\n"
    assert "It did not ask a moment ago: make the call again" in answers(state)[0]
