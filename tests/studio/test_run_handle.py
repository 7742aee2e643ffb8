"""A run in a task of its own: its events in order, its errors told, its stop recorded once."""

import asyncio
from typing import Any

import pytest

from lockstitch.state.errors import ModelError, SystemFaultError
from lockstitch.state.events import AgentCompletion, AgentReason, AgentStopped, AgentTurnStart
from lockstitch.studio.run_handle import Emit, RunHandle

PATIENCE_S = 60.0


async def drained(handle: RunHandle) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [event.type async for event in handle.events()]


async def endless(emit: Emit) -> None:
    emit(AgentTurnStart())
    await asyncio.Event().wait()


async def test_events_come_in_order_and_end_with_the_run() -> None:
    async def drive(emit: Emit) -> None:
        emit(AgentTurnStart())
        await asyncio.sleep(0)
        emit(AgentReason(content="hm"))

    handle = RunHandle(drive)
    assert await drained(handle) == ["agent_turn_start", "agent_reason"]
    await handle.ended()


async def test_a_run_goes_on_although_nobody_reads() -> None:
    done: list[str] = []

    async def drive(emit: Emit) -> None:
        emit(AgentTurnStart())
        await asyncio.sleep(0)
        done.append("all of it")

    await RunHandle(drive).ended()
    assert done == ["all of it"]


async def test_an_error_of_ours_reaches_the_reader_after_the_events() -> None:
    error = ModelError("no answer")

    async def drive(emit: Emit) -> None:
        emit(AgentTurnStart())
        raise error

    events = RunHandle(drive).events()
    assert (await anext(events)).type == "agent_turn_start"
    with pytest.raises(ModelError) as caught:
        await anext(events)
    assert caught.value is error


async def test_any_other_error_becomes_a_fault_without_its_text() -> None:
    cause = KeyError("sk-canary-0123456789")

    async def drive(emit: Emit) -> None:
        raise cause

    with pytest.raises(SystemFaultError, match="KeyError") as caught:
        await drained(RunHandle(drive))
    assert caught.value.__cause__ is cause
    assert "canary" not in caught.value.message


async def test_a_stop_ends_the_events() -> None:
    handle = RunHandle(endless)
    await asyncio.sleep(0)
    handle.stop()
    assert await drained(handle) == ["agent_turn_start"]
    await handle.ended()


async def test_a_stop_before_the_run_has_begun_ends_the_events_too() -> None:
    handle = RunHandle(endless)
    handle.stop()
    assert await drained(handle) == []
    await handle.ended()


async def test_a_second_stop_does_not_cut_off_what_the_first_one_does() -> None:
    recorded: list[str] = []
    recording = asyncio.Event()

    async def drive(emit: Emit) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            recording.set()
            await asyncio.sleep(0)
            recorded.append("stop")
            emit(AgentStopped())
            raise

    handle = RunHandle(drive)
    await asyncio.sleep(0)
    handle.stop()
    await recording.wait()
    handle.stop()
    assert await drained(handle) == ["agent_stopped"]
    assert recorded == ["stop"]


async def test_a_stop_after_the_end_changes_nothing() -> None:
    async def drive(emit: Emit) -> None:
        emit(AgentTurnStart())

    handle = RunHandle(drive)
    await handle.ended()
    handle.stop()
    assert await drained(handle) == ["agent_turn_start"]


async def test_a_stop_after_the_completion_was_told_does_not_contradict_it() -> None:
    stored: list[str] = []

    async def drive(emit: Emit) -> None:
        emit(AgentCompletion(steps=1, reason="answered"))
        await asyncio.sleep(0)
        stored.append("the end")

    handle = RunHandle(drive)
    assert (await anext(handle.events())).type == "agent_completion"
    handle.stop()
    await handle.ended()
    assert stored == ["the end"]


async def test_waiting_for_the_end_does_not_stop_the_run() -> None:
    go = asyncio.Event()

    async def drive(emit: Emit) -> None:
        await go.wait()
        emit(AgentTurnStart())

    handle = RunHandle(drive)
    waiting: asyncio.Task[Any] = asyncio.create_task(handle.ended())
    await asyncio.sleep(0)
    waiting.cancel()
    go.set()
    assert await drained(handle) == ["agent_turn_start"]
