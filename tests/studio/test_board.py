"""Runs that go on without their clients: followed from any place, lost nowhere, doubled nowhere."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.graph.client import Inbox
from lockstitch.state.errors import SystemFaultError, ThreadBusyError, ThreadUnknownError, UsageError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import (
    AgentApprovalRequest,
    AgentCompletion,
    AgentDelta,
    AgentReason,
    AgentStopped,
    AgentTurnStart,
    Event,
    dump_event,
)
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import new_thread_id
from lockstitch.studio import follower
from lockstitch.studio.board import Board, open_board
from lockstitch.studio.elsewhere import Elsewhere
from lockstitch.studio.run_handle import Emit, RunHandle
from lockstitch.studio.service import AgentService, RunRequest

PATIENCE_S = 60.0  # for a loaded machine
ASKS = AgentApprovalRequest(action_id="1", tool="t", args={}, reason="asks", allowed_decisions=["approve"])
ALLOWED_BY_THE_SERVER = (
    "os.stat",
    "os.listdir",
    "io.BufferedReader.read",
    "io.TextIOWrapper.read",
)  # and more

Script = Callable[["Told"], Awaitable[None]]


class Told:
    """What a fake run says, in the place that follows."""

    def __init__(self, request: RunRequest, emit: Emit, inbox: Inbox) -> None:
        self.request = request
        self.inbox = inbox
        self._emit = emit
        self._stamp = EventStamp(
            thread_id=request.thread_id, run_id="r", last_seq=request.last_seq, now=lambda: "2026-05-01T00:00"
        )

    def say(self, *events: Event) -> None:
        for event in events:
            self._emit(self._stamp.stamp(event, step=1))

    def end(self, reason: TerminationReason = "answered") -> None:
        self.say(AgentCompletion(steps=1, reason=reason))


class FakeService:
    """Runs scripts instead of graphs, one after the other; keeps every request."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.requests: list[RunRequest] = []

    def start(self, request: RunRequest) -> RunHandle:
        self.requests.append(request)
        script, inbox = self.scripts.pop(0), Inbox()

        async def drive(emit: Emit) -> None:
            told = Told(request, emit, inbox)
            try:
                await script(told)
            except asyncio.CancelledError:
                told.say(AgentStopped())
                told.end("cancelled")
                raise

        return RunHandle(drive, inbox)


class Place:
    """A board on a fake service and a real log, and one thread of it."""

    def __init__(self, log: EventLog) -> None:
        self.service = FakeService()
        self.log = log
        elsewhere = Elsewhere(log, Path("/nonexistent"), lambda _: None)
        self.board = Board(cast("AgentService", self.service), log, elsewhere, holder="a test")
        self.thread_id = new_thread_id()

    async def start(self, script: Script, prompt: str | None = "go", **given: Any) -> int:
        self.service.scripts.append(script)
        request = RunRequest(thread_id=self.thread_id, prompt=prompt, context=RunContext(), **given)
        return await self.board.start(request)

    async def follow(self, after: int = 0) -> list[Event]:
        async with asyncio.timeout(PATIENCE_S):
            return [event async for event in self.board.follow(self.thread_id, after=after)]

    async def rest(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.board.rest(self.thread_id)

    def kept(self) -> list[int]:
        return [event.seq for event in self.log.since(self.thread_id, 0, limit=100_000)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with open_event_log(tmp_path) as opened:
        yield opened


@pytest.fixture
async def place(log: EventLog) -> AsyncIterator[Place]:
    place = Place(log)
    yield place
    await place.board.drain(PATIENCE_S)


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


async def short(told: Told) -> None:
    told.say(AgentTurnStart(), AgentReason(content="hm"))
    told.end()


async def endless(told: Told) -> None:
    told.say(AgentTurnStart())
    await asyncio.Event().wait()


def until(gate: asyncio.Event) -> Script:
    async def script(told: Told) -> None:
        told.say(AgentTurnStart())
        await gate.wait()
        told.end()

    return script


async def test_a_run_is_followed_to_its_end_and_kept(place: Place) -> None:
    assert await place.start(short) == 0
    assert types(await place.follow()) == ["agent_turn_start", "agent_reason", "agent_completion"]
    assert place.kept() == [1, 2, 3]
    assert not place.board.is_running(place.thread_id)


async def test_a_run_goes_on_when_its_reader_leaves_and_he_comes_back(place: Place) -> None:
    gate = asyncio.Event()
    await place.start(until(gate))
    async with aclosing(cast("Any", place.board.follow(place.thread_id))) as events:
        first = await anext(events)
    assert place.board.running() == [place.thread_id]
    gate.set()
    assert types(await place.follow(after=first.seq)) == ["agent_completion"]


async def test_what_a_reader_is_told_is_in_the_log_already(place: Place) -> None:
    gate = asyncio.Event()
    await place.start(until(gate))
    async for event in place.board.follow(place.thread_id):
        assert place.log.last_seq(place.thread_id) >= event.seq
        gate.set()


async def test_a_thread_at_rest_tells_what_is_kept_and_ends(place: Place) -> None:
    await place.start(short)
    await place.rest()
    assert seqs(await place.follow(after=1)) == [2, 3]
    assert await place.follow(after=3) == []
    place.thread_id = new_thread_id()
    assert await place.follow() == []


async def test_numbers_go_on_after_those_of_a_process_that_died(place: Place) -> None:
    place.log.append([AgentReason(content="told", seq=41, thread_id=place.thread_id)])
    assert await place.start(short) == 41
    assert place.service.requests[0].last_seq == 41
    assert seqs(await place.follow(after=41)) == [42, 43, 44]


async def test_a_number_told_under_a_piece_of_a_reply_is_not_told_again(place: Place) -> None:
    async def writes(told: Told) -> None:
        told.say(AgentTurnStart(), AgentDelta(kind="text", content="a"))
        await asyncio.Event().wait()

    await place.start(writes)
    async for event in place.board.follow(place.thread_id):
        if event.type == "agent_delta":
            break
    again = Place(place.log)  # as after a kill: nothing of the first board is left but the log
    again.thread_id = place.thread_id
    assert await again.start(short) == 2


@pytest.mark.parametrize(
    "error", [ThreadUnknownError("none"), UsageError("complete"), ThreadBusyError("held")]
)
async def test_a_request_that_cannot_be_followed_is_refused_by_the_start(
    place: Place, error: UsageError
) -> None:
    async def refuses(told: Told) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await place.start(refuses)
    assert caught.value is error
    assert not place.board.is_running(place.thread_id)
    assert await place.follow() == []
    await place.start(short)  # at once


async def test_a_second_run_of_a_thread_is_refused_and_the_first_goes_on(place: Place) -> None:
    gate = asyncio.Event()
    await place.start(until(gate))
    with pytest.raises(ThreadBusyError, match="going on"):
        await place.start(short)
    gate.set()
    assert types(await place.follow()) == ["agent_turn_start", "agent_completion"]


async def test_two_starts_at_once_begin_one_run(place: Place) -> None:
    gate = asyncio.Event()
    done = await asyncio.gather(*(place.start(until(gate)) for _ in range(2)), return_exceptions=True)
    assert sorted(map(repr, map(type, done))) == sorted(map(repr, (int, ThreadBusyError)))
    assert len(place.service.requests) == 1
    gate.set()


@pytest.mark.parametrize("last", [AgentCompletion(steps=1, reason="answered"), ASKS])
async def test_who_is_told_the_last_word_can_begin_the_next_run_at_once(place: Place, last: Event) -> None:
    stored: list[str] = []

    async def ends_slowly(told: Told) -> None:
        told.say(AgentTurnStart(), last)
        for _ in range(20):
            await asyncio.sleep(0)
        stored.append("where it stands")

    await place.start(ends_slowly)
    async for event in place.board.follow(place.thread_id):
        if event.type == last.type:
            break
    assert stored == ["where it stands"]
    assert await place.start(short) == 2


async def test_a_stop_ends_the_run_in_good_order(place: Place) -> None:
    await place.start(endless)
    assert place.board.stop(place.thread_id)
    assert types(await place.follow()) == ["agent_turn_start", "agent_stopped", "agent_completion"]
    assert not place.board.stop(place.thread_id)


async def test_a_start_whose_caller_left_begins_all_the_same(place: Place) -> None:
    gate = asyncio.Event()

    async def begins_late(told: Told) -> None:
        await gate.wait()
        await short(told)

    asked = asyncio.create_task(place.start(begins_late))
    while not place.board.is_running(place.thread_id):  # noqa: ASYNC110  until the run is there
        await asyncio.sleep(0)
    asked.cancel()
    gate.set()
    assert types(await place.follow())[-1] == "agent_completion"


async def test_words_reach_the_run_that_goes_on(place: Place) -> None:
    heard: list[str] = []
    gate = asyncio.Event()

    async def listens(told: Told) -> None:
        told.say(AgentTurnStart())
        await gate.wait()
        heard.extend(told.inbox.texts())
        told.inbox.forget({message.id for message in told.inbox.beyond(())})
        told.end()

    assert not place.board.say(place.thread_id, "too early")
    await place.start(listens)
    assert place.board.say(place.thread_id, "and this")
    gate.set()
    await place.rest()
    assert heard == ["and this"]
    assert len(place.service.requests) == 1


async def test_words_that_come_too_late_begin_the_next_run(place: Place) -> None:
    gate = asyncio.Event()
    await place.start(until(gate), reply=True, prompt=None)
    place.board.say(place.thread_id, "one more")
    place.board.say(place.thread_id, "and another")
    place.service.scripts.append(short)
    gate.set()
    assert seqs(await place.follow()) == [1, 2, 3, 4, 5]
    request = place.service.requests[1]
    assert (request.prompt, request.reply, request.last_seq) == ("one more\n\nand another", None, 2)


async def test_words_to_a_run_that_was_stopped_are_said_to_the_next(place: Place) -> None:
    heard: list[str] = []

    async def listens(told: Told) -> None:
        told.say(AgentTurnStart())
        heard.extend(told.inbox.texts())
        told.end("waiting")

    await place.start(endless)
    place.board.say(place.thread_id, "mind this")
    place.board.stop(place.thread_id)
    await place.rest()
    assert len(place.service.requests) == 1
    await place.start(listens)
    await place.rest()
    assert heard == ["mind this"]


async def test_an_error_in_the_middle_of_a_run_is_told_and_kept(place: Place) -> None:
    async def fails(told: Told) -> None:
        told.say(AgentTurnStart())
        raise SystemFaultError("the disk is full")

    await place.start(fails)
    events = await place.follow()
    assert types(events) == ["agent_turn_start", "agent_error", "agent_completion"]
    assert events[-1].reason == "system_error"  # type: ignore[union-attr]
    assert place.kept() == [1, 2, 3]


async def test_an_error_after_the_completion_does_not_contradict_it(place: Place) -> None:
    async def fails(told: Told) -> None:
        told.end()
        raise SystemFaultError("the row could not be written")

    await place.start(fails)
    assert types(await place.follow()) == ["agent_completion", "agent_error"]


async def test_a_run_whose_events_cannot_be_kept_is_stopped_and_says_why(log: EventLog) -> None:
    full = SystemFaultError("events.db could not be written: the disk is full.")

    class FullLog(EventLog):
        def append(self, events: Sequence[Event]) -> None:
            raise full

    place = Place(FullLog(log._connection, name="events.db"))
    gate = asyncio.Event()

    async def goes_on(told: Told) -> None:
        await gate.wait()
        await endless(told)

    starting = asyncio.create_task(place.start(goes_on))
    following = asyncio.create_task(place.follow())
    while not place.board.is_running(place.thread_id):  # noqa: ASYNC110  until the run is there
        await asyncio.sleep(0)
    following.cancel()
    following = asyncio.create_task(place.follow())
    await asyncio.sleep(0)
    gate.set()
    await starting
    told = await following
    assert types(told)[-3:] == ["agent_stopped", "agent_completion", "agent_error"]
    assert told[-1].message == full.message  # type: ignore[union-attr]


async def test_a_reader_that_stands_still_holds_nobody_up_and_misses_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "ROOM", 10)
    gate = asyncio.Event()

    async def long(told: Told) -> None:
        told.say(AgentTurnStart())
        await gate.wait()
        told.say(*(AgentReason(content=str(n)) for n in range(500)))
        told.end()

    await place.start(long)
    slow = place.board.follow(place.thread_id)
    read = [await anext(slow)]
    gate.set()
    assert len(await place.follow()) == 502
    read += [event async for event in slow]
    assert seqs(read) == list(range(1, 503))


async def test_pieces_of_a_reply_are_told_live_and_in_their_place(place: Place) -> None:
    gate = asyncio.Event()

    async def writes(told: Told) -> None:
        told.say(AgentTurnStart())
        await gate.wait()
        told.say(AgentDelta(kind="text", content="a"), AgentReason(content="a"))
        told.end()

    await place.start(writes)
    events = place.board.follow(place.thread_id)
    read = [await anext(events)]
    gate.set()
    read += [event async for event in events]
    assert types(read) == ["agent_turn_start", "agent_delta", "agent_reason", "agent_completion"]
    assert place.kept() == [1, 3, 4]


async def test_what_worker_threads_report_is_told_in_order(place: Place) -> None:
    async def reports(told: Told) -> None:
        told.say(AgentTurnStart())
        await asyncio.to_thread(told.say, AgentReason(content="from a thread"))
        told.end()

    await place.start(reports)
    assert seqs(await place.follow()) == [1, 2, 3]


async def test_a_drain_stops_what_runs_and_lets_nothing_begin(place: Place) -> None:
    first = place.thread_id
    await place.start(endless)
    place.thread_id = new_thread_id()
    await place.start(endless)
    await place.board.drain(PATIENCE_S)
    assert place.board.running() == []
    for thread_id in (first, place.thread_id):
        assert types(place.log.since(thread_id, 0))[-1] == "agent_completion"
    with pytest.raises(SystemFaultError, match="about to end"):
        await place.start(short)


async def test_a_drain_does_not_wait_for_a_run_that_hangs(place: Place) -> None:
    gate = asyncio.Event()

    async def hangs(told: Told) -> None:
        told.say(AgentTurnStart())
        try:
            await asyncio.Event().wait()
        finally:
            await gate.wait()

    await place.start(hangs)
    await place.board.drain(0.01)
    assert place.kept() == [1]
    gate.set()
    await place.rest()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.integers(0, 12), min_size=1, max_size=12),
    leaves=st.lists(st.integers(0, 9), min_size=40, max_size=70),
    room=st.integers(1, 8),
    page=st.integers(1, 5),
)
def test_readers_that_leave_and_come_back_lose_and_double_nothing(
    log: EventLog,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[int],
    leaves: list[int],
    room: int,
    page: int,
) -> None:
    """At least 1,200 returns over all examples: 15 runs, each read by two who leave after so many events."""
    monkeypatch.setattr(follower, "ROOM", room)
    monkeypatch.setattr(follower, "PAGE", page)

    async def talks(told: Told) -> None:
        told.say(AgentTurnStart())
        for count in batches:
            told.say(*(AgentReason(content="x") for _ in range(count)))
            await asyncio.sleep(0)
        told.end()

    async def read_with_breaks(place: Place) -> list[int]:
        read: list[int] = []
        for patience in leaves:
            events = place.board.follow(place.thread_id, after=read[-1] if read else 0)
            async with aclosing(cast("Any", events)):
                read += [event.seq for _ in range(patience) if (event := await anext(events, None))]
            await asyncio.sleep(0)
        return read + seqs(await place.follow(after=read[-1] if read else 0))

    async def both() -> None:
        place = Place(log)
        await place.start(talks)
        async with asyncio.timeout(PATIENCE_S):
            reads = await asyncio.gather(read_with_breaks(place), read_with_breaks(place))
        assert reads == [list(range(1, sum(batches) + 3))] * 2

    asyncio.run(both())


async def test_a_real_run_is_followed_answered_and_goes_on_after_a_new_start(
    scenario: Callable[[str], str], workspace: Path
) -> None:
    scenario('- calls: [{tool: run_command, args: {command: "echo once >> made.txt"}}]\n- say: Done.')
    thread_id = new_thread_id()
    context = RunContext(door="http", workspace=str(workspace))
    async with open_board(load_settings(), holder="a test", on_loop=True) as board:
        await board.start(RunRequest(thread_id=thread_id, prompt="go", context=context))
        told = [event async for event in board.follow(thread_id)]
        assert told[-1].reason == "waiting"  # type: ignore[union-attr]
    async with open_board(load_settings(), holder="a test", on_loop=False) as board:
        after = await board.start(RunRequest(thread_id=thread_id, reply=True, context=context))
        assert after == told[-1].seq
        told += [event async for event in board.follow(thread_id, after=after)]
        assert [event async for event in board.follow(thread_id)] == told
    assert seqs(told) == list(range(1, len(told) + 1))
    assert (workspace / "made.txt").read_text() == "once\n"


async def test_a_real_run_counts_on_from_what_was_told_before_a_kill(
    scenario: Callable[[str], str], workspace: Path, home: Path
) -> None:
    scenario("- calls: [{tool: list_directory}]\n- say: Done.")
    thread_id = new_thread_id()
    with open_event_log(home) as log:
        log.append([AgentReason(content="told", seq=41, thread_id=thread_id)])
    async with open_board(load_settings(workspace=workspace), holder="a test", on_loop=True) as board:
        await board.start(RunRequest(thread_id=thread_id, prompt="go", context=RunContext(door="http")))
        told = [event async for event in board.follow(thread_id, after=41)]
        assert seqs(told) == list(range(42, 42 + len(told)))
        assert (await board.service.view(thread_id)).state["last_seq"] == told[-1].seq


TELLS = """
import asyncio, json, sys
from lockstitch.state.events import dump_event
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.studio.board import open_board
from lockstitch.studio.service import RunRequest

async def main():
    async with open_board(load_settings(), holder="a test", on_loop=True) as board:
        await board.start(RunRequest(thread_id=sys.argv[1], prompt="go", context=RunContext(), streams=True))
        async for event in board.follow(sys.argv[1]):
            print(json.dumps(dump_event(event)), flush=True)

asyncio.run(main())
"""


def told_until_killed(thread_id: str) -> list[dict[str, Any]]:
    """The events of a run in another process, which is killed in its second step."""
    told: list[dict[str, Any]] = []
    with subprocess.Popen([sys.executable, "-c", TELLS, thread_id], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while not told or (told[-1]["type"], told[-1]["step"]) != ("agent_turn_start", 2):
            told.append(json.loads(process.stdout.readline()))
        process.kill()
    return told


async def test_what_was_told_before_a_kill_is_told_the_same_and_no_number_twice(
    scenario: Callable[[str], str], workspace: Path
) -> None:
    first = "- {say: One. And some more words., calls: [{tool: list_directory}]}\n"
    scenario(first + "- {say: Late., delay_s: 60}")
    thread_id = new_thread_id()
    before = told_until_killed(thread_id)
    scenario(first + "- say: Done.")
    async with open_board(load_settings(), holder="a test", on_loop=True) as board:
        await board.start(RunRequest(thread_id=thread_id, context=RunContext()))
        after = [event async for event in board.follow(thread_id, after=before[-1]["seq"])]
        kept = [dump_event(event) async for event in board.follow(thread_id)]
    assert after[-1].reason == "answered"  # type: ignore[union-attr]
    told = [*before, *map(dump_event, after)]
    assert kept == [event for event in told if event["type"] != "agent_delta"]
    assert len({event["seq"] for event in told}) == len(told)


async def test_where_the_loop_may_do_no_file_work_it_does_none(
    scenario: Callable[[str], str], workspace: Path
) -> None:
    blockbuster = pytest.importorskip(
        "blockbuster",
        reason="needs blockbuster, which is part of the extra `studio` (`langgraph dev` runs under it)",
    )
    scenario("- calls: [{tool: list_directory}]\n- say: Done.\n- {say: Late., delay_s: 60}")
    thread_id, context = new_thread_id(), RunContext(door="http")
    settings = load_settings(workspace=workspace)
    with blockbuster.blockbuster_ctx() as forbidden:
        for name in ALLOWED_BY_THE_SERVER:
            forbidden.functions[name].deactivate()
        async with open_board(settings, holder="a test", on_loop=False) as board:
            await board.start(RunRequest(thread_id=thread_id, prompt="go", context=context))
            told = [event async for event in board.follow(thread_id)]
            await board.start(RunRequest(thread_id=thread_id, prompt="more", context=context))
            board.stop(thread_id)
            told += [event async for event in board.follow(thread_id, after=told[-1].seq)]
    assert [e.reason for e in told if isinstance(e, AgentCompletion)] == ["answered", "cancelled"]


@pytest.mark.parametrize("ticks", [1, 2, 4, 8, 16, 32, 64])
async def test_a_stop_at_any_moment_of_the_beginning_frees_the_thread(
    scenario: Callable[[str], str], workspace: Path, ticks: int
) -> None:
    scenario("- {say: Late., delay_s: 60}")
    thread_id, told, told_before = new_thread_id(), list[Event](), 41
    request = RunRequest(
        thread_id=thread_id, prompt="go", context=RunContext(door="http"), last_seq=told_before
    )
    async with open_board(load_settings(workspace=workspace), holder="a test", on_loop=False) as board:
        for _ in range(2):
            handle = board.service.start(request)
            for _ in range(ticks):
                await asyncio.sleep(0)
            handle.stop()
            async with asyncio.timeout(PATIENCE_S):
                events = [event async for event in handle.events()]
            assert not events or events[-1].reason == "cancelled"  # type: ignore[union-attr]
            told += events
    assert seqs(told) == [told_before + n for n in range(1, len(told) + 1)]
