"""Runs on a real home with the scripted model: begun, answered, gone on with, stopped, reopened."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from tests.layer_files import written
from tests.outer_pid import outer_pid
from tests.person import PATIENCE_S, Open, Person

from lockstitch.state.errors import ThreadBusyError, ThreadUnknownError, UsageError
from lockstitch.state.events import AgentToolStart
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState

STOPPED_WITHIN_S = 20.0  # of 60, also on a machine that is slow

ANSWERS = "- say: One.\n- say: Two.\n- say: Three.\n"
ASKS = """
- calls: [{tool: run_command, args: {command: "echo once >> made.txt"}}]
- say: Done.
- say: And more.
"""
LOOKS = """
- calls: [{tool: list_directory}]
- calls: [{tool: get_tasks}, {tool: list_directory}]
- say: Looked.
- say: Went on.
- say: And on.
"""
SLEEPS = """
- say: I wait.
  calls: [{tool: run_command, args: {command: "echo $$ > pid; exec sleep 30"}}]
- say: Went on.
"""
SLOW = "- {say: Late., delay_s: 60}\n- say: Went on.\n"
SLEEPING = {"mode": "auto", "unsandboxed_commands": "allow"}


def assert_every_call_is_answered(state: RunState) -> None:
    open_ids: list[Any] = []
    for message in state["messages"]:
        if isinstance(message, ToolMessage):
            open_ids.remove(message.tool_call_id)
            continue
        assert open_ids == []
        if isinstance(message, AIMessage):
            open_ids = [call["id"] for call in message.tool_calls]
    assert open_ids == []


def told(state: RunState) -> list[str]:
    return [message.text for message in state["messages"] if message.type == "human"]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def content(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def wait_for(path: Path) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while not content(written(path)):  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.01)
    return content(written(path))


async def test_a_run_to_its_end_is_told_and_stored(opened: Open, workspace: Path) -> None:
    async with opened(LOOKS) as person:
        assert await person.run("look around\nplease") == "answered"
        assert person.types[0] == "agent_start"
        state = await person.state()
        assert (state["final_answer"], state["phase"]) == ("Looked.", "completed")
        row = person.row()
        assert (row.phase, row.reason, row.steps) == ("completed", "answered", 3)
        assert (row.title, row.workspace, row.door) == ("look around", str(workspace), "cli")


async def test_seq_goes_on_over_the_runs_of_a_thread(opened: Open) -> None:
    async with opened(LOOKS) as person:
        assert [await person.run(prompt) for prompt in ("one", "two", "three")] == ["answered"] * 3
        person.assert_seq_is_whole()
        assert len({event.run_id for event in person.events}) == 3
        assert person.row().title == "one"


async def test_a_call_that_asks_waits_and_is_made_once_it_is_approved(opened: Open, workspace: Path) -> None:
    async with opened(ASKS) as person:
        assert await person.run("go") == "waiting"
        view = await person.service.view(person.thread_id)
        assert "content=" not in repr(view)  # no message: asyncio.run makes the text of what it gives
        assert view.waiting_for is not None
        assert view.waiting_for["action_requests"][0]["args"] == {"command": "echo once >> made.txt"}
        assert not view.unfinished
        row = person.row()
        assert (row.phase, row.reason, row.steps, row.title) == ("waiting", None, 0, "go")
        assert not (workspace / "made.txt").exists()
        assert await person.run(reply={"type": "approve"}) == "answered"
        assert (workspace / "made.txt").read_text() == "once\n"
        row = person.row()
        assert (row.phase, row.reason, row.steps, row.title) == ("completed", "answered", 2, "go")
        person.assert_seq_is_whole()


async def test_an_approval_outlives_the_process_and_the_call_is_made_once(
    opened: Open, workspace: Path
) -> None:
    async with opened(ASKS) as person:
        assert await person.run("go") == "waiting"
    async with opened(ASKS, person.thread_id) as later:
        later.events = person.events
        assert await later.run(reply=True) == "answered"
        later.assert_seq_is_whole()
        with pytest.raises(UsageError, match="waits for no answer"):
            await later.run(reply=True)
    assert (workspace / "made.txt").read_text() == "once\n"


async def test_a_prompt_on_a_waiting_thread_leaves_the_call_unmade(opened: Open, workspace: Path) -> None:
    async with opened(ASKS) as person:
        await person.run("go")
        assert await person.run("rather not") == "answered"
        state = await person.state()
        assert told(state) == ["go", "rather not"]
        assert_every_call_is_answered(state)
        assert (await person.service.view(person.thread_id)).waiting_for is None
        assert not (workspace / "made.txt").exists()
        person.assert_seq_is_whole()


async def test_a_waiting_thread_does_not_go_on_by_itself(opened: Open) -> None:
    async with opened(ASKS) as person:
        await person.run("go")
        with pytest.raises(UsageError, match="--approve"):
            await person.run()
        assert (await person.service.view(person.thread_id)).waiting_for is not None


async def test_after_the_step_limit_it_goes_on_without_a_prompt(opened: Open) -> None:
    async with opened(LOOKS) as person:
        assert await person.run("look", max_steps=1) == "step_limit"
        row = person.row()
        assert (row.phase, row.reason, row.steps) == ("completed", "step_limit", 1)
        assert await person.run() == "answered"
        assert person.row().steps == 3
        person.assert_seq_is_whole()


async def test_a_complete_thread_needs_a_prompt(opened: Open) -> None:
    async with opened(ANSWERS) as person:
        await person.run("go")
        with pytest.raises(UsageError, match="complete: give it a new prompt"):
            await person.run()
        assert await person.run("more") == "answered"


async def test_a_reply_that_nothing_waits_for_is_refused(opened: Open) -> None:
    async with opened(ANSWERS) as person:
        with pytest.raises(UsageError, match="waits for no answer"):
            await person.run(reply=True)
        await person.run("go")
        with pytest.raises(UsageError, match="waits for no answer"):
            await person.run(reply="yes")
        assert len((await person.state())["messages"]) == 2


async def test_an_unknown_thread_is_refused_and_not_created(opened: Open) -> None:
    async with opened(ANSWERS) as person:
        with pytest.raises(ThreadUnknownError):
            await person.run()
        with pytest.raises(ThreadUnknownError):
            await person.service.view(person.thread_id)
        assert person.service.threads.find(person.thread_id) is None
        person.thread_id = "no uuid"
        with pytest.raises(ThreadUnknownError):
            await person.run("go")


async def test_a_second_run_of_a_thread_is_refused_and_the_first_goes_on(opened: Open) -> None:
    async with opened("- {say: One., delay_s: 0.2}\n") as person:
        first = person.start("go")
        await person.read_until(first, "agent_turn_start")
        other = Person(person.service, person.thread_id)
        with pytest.raises(ThreadBusyError, match="a test"):
            await other.run("me too")
        assert other.events == []
        assert await person.read(first) == "answered"
        assert told(await person.state()) == ["go"]
        person.assert_seq_is_whole()


async def test_a_refused_request_frees_the_thread(opened: Open) -> None:
    async with opened(ANSWERS) as person:
        with pytest.raises(UsageError):
            await person.run(reply=True)
        assert await person.run("go") == "answered"


async def test_two_threads_run_at_the_same_time(opened: Open) -> None:
    async with opened("- {say: One., delay_s: 0.1}\n") as person:
        other = Person(person.service)
        first, second = person.start("a"), other.start("b")
        assert await other.read(second) == await person.read(first) == "answered"
        for each in (person, other):
            each.assert_seq_is_whole()


async def test_a_stop_in_a_command_ends_it_and_the_thread_goes_on(opened: Open, workspace: Path) -> None:
    async with opened(SLEEPS, **SLEEPING) as person:
        handle = person.start("wait a little")
        await person.read_until(handle, "agent_tool_start")
        pid = outer_pid(int(await wait_for(workspace / "pid")), workspace)
        handle.stop()
        async with asyncio.timeout(STOPPED_WITHIN_S):
            assert await person.read(handle) == "cancelled"
        assert not is_alive(pid)
        assert person.types[-3:] == ["agent_stopped", "agent_state", "agent_completion"]
        assert person.events[-1].steps == 1  # type: ignore[union-attr]
        row = person.row()
        assert (row.phase, row.reason, row.title) == ("cancelled", "cancelled", "wait a little")
        state = await person.state()
        assert state["final_answer"] == "The run was stopped at step 1."
        assert "cut off" in next(m.text for m in state["messages"] if isinstance(m, ToolMessage))
        assert await person.run("go on") == "answered"
        state = await person.state()
        assert_every_call_is_answered(state)
        assert told(state) == ["wait a little", "go on"]
        person.assert_seq_is_whole()


async def test_a_stopped_thread_goes_on_without_a_prompt(opened: Open, workspace: Path) -> None:
    async with opened(SLEEPS, **SLEEPING) as person:
        handle = person.start("wait")
        await wait_for(workspace / "pid")
        handle.stop()
        assert await person.read(handle) == "cancelled"
    async with opened(SLEEPS, person.thread_id, **SLEEPING) as later:
        later.events = person.events
        assert await later.run() == "answered"
        later.assert_seq_is_whole()


async def test_a_stop_before_the_first_reply_keeps_what_was_said(opened: Open) -> None:
    async with opened(SLOW) as person:
        handle = person.start("hello")
        await person.read_until(handle, "agent_turn_start")
        handle.stop()
        assert await person.read(handle) == "cancelled"
        assert told(await person.state()) == ["hello"]
        row = person.row()
        assert (row.phase, row.reason, row.steps, row.title) == ("cancelled", "cancelled", 0, "hello")
        person.assert_seq_is_whole()


async def test_a_second_stop_changes_nothing(opened: Open) -> None:
    async with opened(SLOW) as person:
        handle = person.start("hello")
        await person.read_until(handle, "agent_turn_start")
        handle.stop()
        await asyncio.sleep(0)
        handle.stop()
        await person.read_until(handle, "agent_stopped")
        handle.stop()
        assert await person.read(handle) == "cancelled"
        assert person.types.count("agent_stopped") == 1
        assert (await person.state())["reason"] == "cancelled"
        assert person.row().reason == "cancelled"


async def test_a_stop_before_the_run_has_begun_frees_the_thread(opened: Open) -> None:
    async with opened(ANSWERS) as person:
        handle = person.start("never")
        handle.stop()
        await handle.ended()
        assert await person.run("hello") == "answered"
        person.assert_seq_is_whole()


@pytest.mark.parametrize("read", range(1, 16))
async def test_a_stop_after_any_event_leaves_a_thread_that_goes_on(opened: Open, read: int) -> None:
    async with opened(LOOKS) as person:
        handle = person.start("look")
        async for event in handle.events():
            person.events.append(event)
            if len(person.events) == read:
                break
        handle.stop()
        assert await person.read(handle) in ("cancelled", "answered")
        assert person.types.count("agent_completion") == 1
        stopped = await person.state()
        assert_every_call_is_answered(stopped)
        assert told(stopped) == ["look"]
        assert person.row().steps == len(stopped.get("steps", []))
        assert person.row().reason == stopped["reason"] == person.events[-1].reason  # type: ignore[union-attr]
        assert await person.run("and now?") == "answered"
        person.assert_seq_is_whole()
        assert_every_call_is_answered(await person.state())


@pytest.mark.parametrize("ticks", [1, 2, 4, 8, 16, 32, 64, 128])
async def test_a_stop_at_any_moment_of_the_beginning_loses_nothing(opened: Open, ticks: int) -> None:
    async with opened(SLOW) as person:
        handle = person.start("hello")
        for _ in range(ticks):
            await asyncio.sleep(0)
        handle.stop()
        person.events = [event async for event in handle.events()]
        await handle.ended()
        if person.events:  # else it had not begun
            assert person.events[-1].reason == "cancelled"  # type: ignore[union-attr]
            assert told(await person.state()) == ["hello"]
            assert (person.row().reason, person.row().title) == ("cancelled", "hello")
        later = person.start("and now?")
        await person.read_until(later, "agent_turn_start")
        later.stop()
        assert await person.read(later) == "cancelled"
        person.assert_seq_is_whole()


async def test_a_stop_while_a_call_waits_for_its_answer_is_possible(opened: Open, workspace: Path) -> None:
    async with opened(ASKS) as person:
        await person.run("go")
        handle = person.start(reply=True)
        handle.stop()
        await handle.ended()
        view = await person.service.view(person.thread_id)
        assert view.waiting_for is not None  # it had not begun
        assert await person.run(reply=True) == "answered"
        assert (workspace / "made.txt").read_text() == "once\n"


async def test_closing_the_service_in_the_middle_leaves_a_thread_that_goes_on(opened: Open) -> None:
    async with opened(SLOW) as person:
        handle = person.start("hello")
        await person.read_until(handle, "agent_turn_start")
        handle.stop()
        await handle.ended()
    async with opened("- say: Went on.\n", person.thread_id) as later:
        assert await later.run() == "answered"
        assert (await later.state())["final_answer"] == "Went on."


async def test_a_run_that_died_between_nodes_goes_on_by_itself(opened: Open, tmp_path: Path) -> None:
    """The record of the stop is left out, as when the process is killed."""
    async with opened(SLOW) as person:
        stream = person.service._graph.astream(
            {"messages": [("user", "hello")]},
            {"configurable": {"thread_id": person.thread_id}},
            context=RunContext(door="cli"),
            stream_mode="custom",
            durability="sync",
        )
        async for body in stream:
            if body["type"] == "agent_turn_start":
                break
        await stream.aclose()
        assert (await person.service.view(person.thread_id)).unfinished
    async with opened("- say: Went on.\n", person.thread_id) as later:
        assert await later.run() == "answered"
        assert told(await later.state()) == ["hello"]
        assert later.row().title == "hello"


async def test_a_tool_start_names_the_call_that_the_end_names(opened: Open) -> None:
    async with opened(LOOKS) as person:
        await person.run("look")
        begun = [event.call_id for event in person.events if isinstance(event, AgentToolStart)]
        ended = [e.call_id for e in person.events if e.type in ("agent_tool_complete", "agent_tool_error")]
        assert sorted(begun) == sorted(ended)
        assert len(set(begun)) == 3


async def test_a_command_that_was_cut_off_is_not_run_again(opened: Open, workspace: Path) -> None:
    """The graph is cancelled in the middle of the command with nothing recorded, as by a kill."""
    turns = "- calls: [{tool: run_command, args: {command: 'echo once >> log.txt; sleep 30'}}]\n- say: Done."
    async with opened(turns, **SLEEPING, command_layers=False) as person:
        thread_id, config = person.thread_id, {"configurable": {"thread_id": person.thread_id}}
        run = person.service._graph.ainvoke({"messages": [("user", "go")]}, config, durability="sync")  # type: ignore[call-overload]
        running = asyncio.create_task(run)
        async with asyncio.timeout(PATIENCE_S):
            while not written(workspace / "log.txt").exists():  # noqa: ASYNC110  a file tells nobody
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
    async with opened(turns, thread_id, **SLEEPING, command_layers=False) as person:
        assert await person.run() == "answered"
        answers = [m.text for m in (await person.state())["messages"] if isinstance(m, ToolMessage)]
    assert (workspace / "log.txt").read_text() == "once\n"
    assert "its result is unknown" in answers[0]
    assert answers[0].endswith("Changed since it began: A log.txt.")
