"""Processes that go on between calls end with their run, however that ends; a run that waits keeps them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.conversation import INTERRUPTED
from lockstitch.state.errors import ModelError
from lockstitch.tools import background

START = call("start_process", id="s1", command="touch up; sleep 60; :")


@pytest.fixture(autouse=True)
def short_first_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FIRST_S", 0.02)


def bench(tmp_path: Path, *replies: Any) -> Bench:
    return Bench(tmp_path, FakeModel(*replies), unsandboxed_commands="allow", mode="auto")


def running(at: Bench) -> list[str]:
    return [one.process_id for one in at.parts.processes.of("t") if one.running]


async def test_a_run_that_ends_leaves_none(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", START), says("", call("read_process", process_id="p1")), says("Done."))
    state = await at.run("go")
    assert state["phase"] == "completed"
    assert [event["data"]["running"] for event in at.of_type("agent_tool_complete")] == [True, True]
    assert running(at) == []


async def test_a_run_that_fails_leaves_none(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", START), ModelError("gone"))
    assert (await at.run("go"))["reason"] == "model_error"
    assert running(at) == []


async def test_a_run_that_is_stopped_leaves_none(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", START), says("", call("run_command", command="touch on; sleep 60; :")))
    task = asyncio.create_task(at.run("go"))
    while not (at.workspace / "on").exists():  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.005)
    assert running(at) == ["p1"]
    task.cancel()
    await asyncio.wait([task])
    assert running(at) == []


async def test_a_run_that_waits_for_a_person_keeps_them_until_it_goes_on(tmp_path: Path) -> None:
    question = call("request_input", question="Which?")
    at = bench(tmp_path, says("", START), says("", question), says("Done."))
    await at.run("go")
    assert running(at) == ["p1"]
    await at.run(Command(resume={"type": "respond", "message": "this"}))
    assert running(at) == []


async def test_a_new_prompt_ends_those_of_the_run_that_waited(tmp_path: Path) -> None:
    asks, reads = call("request_input", question="Which?"), call("read_process", process_id="p1")
    at = bench(tmp_path, says("", START), says("", asks), says("", reads), says("Done."))
    await at.run("go")
    await at.run("something else")
    (error,) = at.of_type("agent_tool_error")
    assert "no process 'p1'" in error["message"]


async def test_kept_ones_go_on_and_are_read_by_the_next_run(tmp_path: Path) -> None:
    reads = call("read_process", id="r", process_id="p1")
    asks = call("request_input", question="Which?")
    at = bench(tmp_path, says("", START), says("", asks), says("Done."), says("", reads), says("Done."))
    await at.run("go")
    at.parts.processes.of("t").find("p1").kept = True
    await at.run(Command(resume={"type": "respond", "message": "this"}))
    assert running(at) == ["p1"]
    await at.run("Is it up?")
    assert at.of_type("agent_tool_complete")[-1]["data"]["running"] is True
    await at.parts.processes.end_all()
    assert running(at) == []


async def test_after_a_kill_the_id_is_one_to_start_again(tmp_path: Path) -> None:
    reads = call("read_process", process_id="p1")
    at = bench(tmp_path, says("", reads), says("Done."))  # as in a new program, which has started nothing
    await at.run("Is it up?")
    (error,) = at.of_type("agent_tool_error")
    assert "with the program that ran it: start_process starts it again" in error["message"]


async def test_a_start_that_was_cut_off_is_not_made_again(tmp_path: Path) -> None:
    class Cut:
        def begin(self, *_: Any, **__: Any) -> bool:
            return False

    at = bench(tmp_path, says("", START), says("Done."))
    object.__setattr__(at.parts, "intents", Cut())
    await at.run("go")
    assert [event["message"] for event in at.of_type("agent_tool_error")] == [INTERRUPTED]
    assert not (at.workspace / "up").exists()


async def test_mode_ask_asks_before_a_start(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", START), says("Done."))
    await at.run("go", mode="ask")
    assert (await at.waits_for())["action_requests"][0]["name"] == "start_process"
    assert running(at) == []
