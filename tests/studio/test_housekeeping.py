"""What can be deleted, what is left alone, and what stays of a thread whose memory is cleared."""

import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kept_files import change_file

from lockstitch.state.content_files import FRESH_S
from lockstitch.state.errors import ThreadBusyError, ThreadUnknownError
from lockstitch.state.event_log import open_event_log
from lockstitch.state.events import AgentReason
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import BEGINNING, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.housekeeping import Housekeeping, open_housekeeping
from lockstitch.studio.service import AgentService, RunRequest, ThreadView, open_service

NOW = "2100-01-01T00:00:00.000+00:00"
LONG_AGO = "2026-01-01T00:00:00.000+00:00"
DAY_H = 24.0
TOLD = 1_000  # the number of an event that the thread's state does not know of


@pytest.fixture
def place(home: Path, scenario: Callable[[str], str]) -> Home:
    scenario('- calls: [{tool: create_tasks, args: {tasks: ["a"]}}]\n- say: Done.\n- say: More.')
    return prepare_home(home)


async def used(service: AgentService, thread_id: str, prompt: str = "Do it.") -> None:
    handle = service.start(RunRequest(thread_id=thread_id, prompt=prompt, context=RunContext(door="cli")))
    async for _ in handle.events():
        pass
    await handle.ended()


async def new_threads(place: Home, count: int) -> list[str]:
    """Threads that were used long ago, each with a kept text, an intent and an event told after a kill."""
    ids = [new_thread_id() for _ in range(count)]
    async with open_service(load_settings()) as service:
        for thread_id in ids:
            await used(service, thread_id)
            row = service.threads.find(thread_id)
            assert row is not None
            service.threads.record(replace(row, updated_at=LONG_AGO))
    with open_ledger(place.ledger_db) as ledger:
        for thread_id in ids:
            SpillStore(place.spill, thread_id).keep(f"of {thread_id}")
            Intents(ledger).begin(thread_id, checkpoint_id="c", call_id="1", now=LONG_AGO)
    with open_event_log(place.path) as log:
        log.append([AgentReason(content="told", seq=TOLD, thread_id=thread_id) for thread_id in ids])
    return ids


async def view(thread_id: str) -> ThreadView:
    async with open_service(load_settings()) as service:
        return await service.view(thread_id)


@asynccontextmanager
async def opened() -> AsyncIterator[Housekeeping]:
    async with open_housekeeping(load_settings()) as house:
        yield house


def traces_of(place: Home, thread_id: str) -> list[str]:
    """Files and rows that name the thread."""
    files = [path.name for path in (place.spill, place.locks) for path in path.glob(f"{thread_id}*")]
    with open_ledger(place.ledger_db) as ledger:
        rows = [
            table
            for table in ("threads", "intents")
            if ledger.execute(f"SELECT 1 FROM {table} WHERE thread_id = ?", (thread_id,))
        ]
    with open_event_log(place.path) as log:
        rows += ["events"] * bool(log.since(thread_id, 0) or log.last_seq(thread_id))
    return files + rows


async def test_nothing_of_a_pruned_thread_is_left_and_others_stay_whole(place: Home) -> None:
    gone, stays = await new_threads(place, 2)
    async with opened() as house:
        idle = await house.idle_threads(idle_hours=DAY_H, now=NOW)
        assert {thread.row.thread_id for thread in idle} == {gone, stays}
        assert all(thread.size > 1_000 for thread in idle)
        pruned = await house.prune([thread for thread in idle if thread.row.thread_id == gone])
    assert (pruned.deleted, pruned.busy) == ([gone], [])
    assert traces_of(place, gone) == []
    assert len(traces_of(place, stays)) == 5
    with pytest.raises(ThreadUnknownError):
        await view(gone)
    assert (await view(stays)).state["final_answer"] == "Done."


async def test_a_thread_that_was_used_lately_is_not_idle(place: Home) -> None:
    await new_threads(place, 1)
    async with opened() as house:
        assert await house.idle_threads(idle_hours=DAY_H, now="2026-01-01T23:59:00.000+00:00") == []
        assert await house.idle_threads(idle_hours=DAY_H, now="2026-01-02T00:01:00.000+00:00") != []


async def test_a_thread_that_another_process_writes_is_left(place: Home) -> None:
    (thread_id,) = await new_threads(place, 1)
    async with opened() as house:
        idle = await house.idle_threads(idle_hours=DAY_H, now=NOW)
        with hold_thread(place.locks, thread_id, holder="a test"):
            pruned = await house.prune(idle)
            with pytest.raises(ThreadBusyError):
                await house.delete(thread_id)
            with pytest.raises(ThreadBusyError):
                await house.clear(thread_id, now=NOW)
    assert (pruned.deleted, pruned.busy) == ([], [thread_id])
    assert (await view(thread_id)).state["final_answer"] == "Done."


async def test_a_thread_that_was_used_since_it_was_listed_is_left(place: Home) -> None:
    (thread_id,) = await new_threads(place, 1)
    async with opened() as house:
        idle = await house.idle_threads(idle_hours=DAY_H, now=NOW)
        async with open_service(load_settings()) as service:
            await used(service, thread_id, "More.")
        assert (await house.prune(idle)).busy == [thread_id]
    assert (await view(thread_id)).state["final_answer"] == "More."


async def test_pruning_gives_space_back_to_the_disk(place: Home) -> None:
    ids = await new_threads(place, 6)
    SpillStore(place.spill, ids[0]).keep("x" * 50_000)
    async with opened() as house:
        pruned = await house.prune(await house.idle_threads(idle_hours=DAY_H, now=NOW))
    assert pruned.freed > 50_000
    assert len(pruned.deleted) == 6


def contents(place: Home) -> set[str]:
    with open_ledger(place.ledger_db) as ledger:
        rows = {digest for (digest,) in ledger.execute("SELECT digest FROM contents")}
    return rows | {path.parent.name + path.name for path in place.objects.glob("??/*")}


def age_contents(place: Home) -> None:
    """Let all contents be older than what is kept for other processes."""
    then = time.time() - 2 * FRESH_S
    for path in place.objects.glob("??/*"):
        os.utime(path, (then, then))
    with open_ledger(place.ledger_db) as ledger:
        ledger.execute("UPDATE contents SET needed_at = ?", (then,))


@pytest.mark.parametrize("way", ["prune", "delete", "clear"])
async def test_contents_go_with_the_last_thread_that_needs_them(place: Home, way: str) -> None:
    gone, stays = await new_threads(place, 2)
    shared, only = b"of both", os.urandom(100_000)
    change_file(place, gone, "a", only, shared)
    change_file(place, stays, "b", None, shared)
    age_contents(place)
    async with opened() as house:
        if way == "prune":
            idle = await house.idle_threads(idle_hours=DAY_H, now=NOW)
            pruned = await house.prune([thread for thread in idle if thread.row.thread_id == gone])
            assert pruned.freed > len(only)
        elif way == "delete":
            await house.delete(gone)
        else:
            await house.clear(gone, now=NOW)
    assert contents(place) == {hashlib.sha256(shared).hexdigest()}
    with open_ledger(place.ledger_db) as ledger:
        journal = Journal(ledger, ObjectStore(place.objects, ledger))
        assert (journal.of_thread(gone), journal.position(gone)) == ([], BEGINNING)
        assert len(journal.of_thread(stays)) == 1


async def test_what_a_fork_stands_on_outlives_the_thread(place: Home) -> None:
    gone, fork = await new_threads(place, 2)
    (head,) = change_file(place, gone, "a", None, b"of both")
    with open_ledger(place.ledger_db) as ledger:
        Journal(ledger, ObjectStore(place.objects, ledger)).place(fork, head)
    age_contents(place)
    async with opened() as house:
        await house.delete(gone)
    assert len(contents(place)) == 1
    with open_ledger(place.ledger_db) as ledger:
        assert Journal(ledger, ObjectStore(place.objects, ledger)).lineage(head) == [head]


async def test_the_file_shrinks_by_itself_where_much_of_it_is_free(place: Home) -> None:
    large, _ = await new_threads(place, 2)
    async with opened() as house:
        await house._saver.conn.execute_fetchall(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, value)"
            " VALUES (?, '', 'c', 't', 0, 'x', zeroblob(1000000))",
            (large,),
        )
        await house.delete(large)
    assert place.threads_db.stat().st_size < 1_000_000


async def test_a_deleted_thread_is_gone_at_once(place: Home) -> None:
    (thread_id,) = await new_threads(place, 1)
    async with opened() as house:
        await house.delete(thread_id)
        with pytest.raises(ThreadUnknownError):
            await house.delete(thread_id)
    assert traces_of(place, thread_id) == []


async def test_a_cleared_thread_remembers_nothing_and_goes_on(place: Home) -> None:
    (thread_id,) = await new_threads(place, 1)
    before = (await view(thread_id)).state
    async with opened() as house:
        await house.clear(thread_id, now=NOW)
    state = (await view(thread_id)).state
    assert [state.get(name, []) for name in ("messages", "steps", "todos")] == [[], [], []]
    assert state.get("compaction") is None
    assert (state["workspace"], state["last_seq"]) == (before["workspace"], TOLD)
    assert not (place.spill / thread_id).exists()
    assert "events" not in traces_of(place, thread_id)
    async with open_service(load_settings()) as service:
        row = service.threads.find(thread_id)
        assert row is not None
        assert (row.phase, row.reason, row.steps, row.updated_at) == ("idle", None, 0, NOW)
        await used(service, thread_id, "Anew.")
        state = (await service.view(thread_id)).state
    assert [m.text for m in state["messages"] if m.type == "human"] == ["Anew."]
    assert state["last_seq"] > TOLD


async def test_a_clear_that_was_cut_off_is_mended_by_the_next(place: Home) -> None:
    (thread_id,) = await new_threads(place, 1)
    async with opened() as house:
        await house._saver.adelete_thread(thread_id)
        await house.clear(thread_id, now=NOW)
    assert (await view(thread_id)).state["workspace"]


async def test_a_waiting_thread_waits_for_nothing_once_it_is_cleared(
    place: Home, scenario: Callable[[str], str]
) -> None:
    scenario('- calls: [{tool: run_command, args: {command: "touch made"}}]\n- say: Done.')
    (thread_id,) = await new_threads(place, 1)
    assert (await view(thread_id)).waiting_for is not None
    async with opened() as house:
        await house.clear(thread_id, now=NOW)
    after = await view(thread_id)
    assert (after.waiting_for, after.unfinished) == (None, False)


async def test_an_unknown_thread_cannot_be_cleared(place: Home) -> None:
    async with opened() as house:
        with pytest.raises(ThreadUnknownError):
            await house.clear(new_thread_id(), now=NOW)


async def test_space_that_cannot_be_given_back_now_is_no_error(place: Home) -> None:
    async with opened() as house, opened() as other:
        await other._saver.conn.execute_fetchall("BEGIN IMMEDIATE")
        await house._saver.conn.execute_fetchall("PRAGMA busy_timeout = 0")
        await house._shrink()
        await other._saver.conn.rollback()


async def test_where_the_loop_may_do_no_file_work_it_does_none(place: Home) -> None:
    blockbuster = pytest.importorskip(
        "blockbuster",
        reason="needs blockbuster, which is part of the extra `studio` (`langgraph dev` runs under it)",
    )
    cleared, deleted, pruned = await new_threads(place, 3)
    with blockbuster.blockbuster_ctx() as forbidden:
        for name in ("os.stat", "os.listdir"):
            forbidden.functions[name].deactivate()  # as the server does
        async with opened() as house:
            await house.clear(cleared, now=NOW)
            await house.delete(deleted)
            idle = await house.idle_threads(idle_hours=DAY_H, now="2026-06-01T00:00:00.000+00:00")
            assert (await house.prune(idle)).deleted == [pruned]
