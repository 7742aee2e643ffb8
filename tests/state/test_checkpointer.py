"""Threads survive closing, copying, pruning and rollback with all of their messages."""

import importlib
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from lockstitch.state.checkpointer import ThreadSaver, open_checkpointer, open_default_checkpointer
from lockstitch.state.database_file import BUSY_TIMEOUT_S
from lockstitch.state.errors import HomeUnusableError, SystemFaultError, UsageError
from lockstitch.state.run_state import RunInput, RunState, StepRecord, append_records

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
COPY: RunnableConfig = {"configurable": {"thread_id": "copy"}}
SNAPSHOT_EVERY = 4
SHOPPING_LIST = b"bread, butter, " * 100
PAGE_BYTES = 4096  # SQLite's own; the first one says that it is a database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
async def saver(path: Path) -> AsyncIterator[ThreadSaver]:
    async with open_checkpointer(path) as opened:
        yield opened


class Counted(TypedDict, total=False):
    """A delta channel with frequent copies, and one that is never written."""

    records: Annotated[list[int], DeltaChannel(append_records, snapshot_frequency=SNAPSHOT_EVERY)]
    unused: Annotated[list[int], DeltaChannel(append_records, snapshot_frequency=SNAPSHOT_EVERY)]


def counting(saver: Any) -> Any:
    """Each run appends the number it is given."""
    graph = StateGraph(Counted)
    graph.add_node("rest", lambda state: {})
    graph.add_edge(START, "rest")
    return graph.compile(checkpointer=saver)


async def count(saver: Any, *numbers: int, config: RunnableConfig = THREAD) -> list[str]:
    """One run a number; returns the runs' ids."""
    runs = [str(uuid4()) for _ in numbers]
    for run_id, number in zip(runs, numbers, strict=True):
        about: RunnableConfig = {**config, "metadata": {"run_id": run_id}}
        await counting(saver).ainvoke({"records": [number]}, about, durability="sync")
    return runs


async def counted(saver: Any, config: RunnableConfig = THREAD) -> list[int]:
    values = (await counting(saver).aget_state(config)).values
    return list(values.get("records", []))


async def checkpoints(saver: Any, config: RunnableConfig = THREAD) -> int:
    return len([found async for found in saver.alist(config)])


def talking(saver: Any, *, steps: int) -> Any:
    """The real state in a loop of one node."""

    async def talk(state: RunState) -> RunState:
        number = state.get("step", 0) + 1
        record = StepRecord(number=number)  # type: ignore[typeddict-item]  # only its place matters here
        return RunState(step=number, messages=[AIMessage(f"step {number}")], steps=[record])

    async def route_after_talk(state: RunState) -> str:
        return "talk" if state["step"] < steps else END

    graph = StateGraph(RunState, input_schema=RunInput)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    graph.add_conditional_edges("talk", route_after_talk, ["talk", END])
    return graph.compile(checkpointer=saver)


async def test_three_hundred_steps_are_the_same_after_reopening(path: Path) -> None:
    given = {"messages": [HumanMessage("go", id="h")]}
    async with open_checkpointer(path) as saver:
        config: RunnableConfig = {**THREAD, "recursion_limit": 1000}
        live = await talking(saver, steps=300).ainvoke(given, config, durability="sync")
    async with open_checkpointer(path) as saver:
        kept = (await talking(saver, steps=300).aget_state(THREAD)).values
    assert kept["messages"] == live["messages"]
    assert [m.text for m in kept["messages"]] == ["go", *(f"step {n}" for n in range(1, 301))]
    assert [record["number"] for record in kept["steps"]] == list(range(1, 301))


async def test_stock_saver_goes_on_with_our_unpacked_thread_and_we_with_its(path: Path) -> None:
    async with open_checkpointer(path) as ours:
        await count(ours, 1, 2)
        await ours.aunpack(["t"])
    async with AsyncSqliteSaver.from_conn_string(str(path)) as stock:
        assert await counted(stock) == [1, 2]
        await count(stock, 3)
    async with open_checkpointer(path) as ours:
        assert await counted(ours) == [1, 2, 3]
        await count(ours, 4)
        assert await counted(ours) == [1, 2, 3, 4]


async def test_question_to_a_person_survives_reopening(path: Path) -> None:
    def asking(saver: Any) -> Any:
        graph = StateGraph(RunState, input_schema=RunInput)
        graph.add_node("ask", lambda state: {"final_answer": interrupt({"question": "really?"})})
        graph.add_edge(START, "ask")
        return graph.compile(checkpointer=saver)

    async with open_checkpointer(path) as saver:
        await asking(saver).ainvoke({"messages": [HumanMessage("go")]}, THREAD, durability="sync")
    async with open_checkpointer(path) as saver:
        assert (await asking(saver).aget_state(THREAD)).interrupts[0].value == {"question": "really?"}
        assert (await asking(saver).ainvoke(Command(resume="yes"), THREAD))["final_answer"] == "yes"


async def test_pruned_thread_keeps_its_values_and_goes_on(saver: ThreadSaver) -> None:
    numbers = list(range(20))
    await count(saver, *numbers)
    before = await checkpoints(saver)
    await saver.aprune(["t"])
    assert await checkpoints(saver) <= 3 * SNAPSHOT_EVERY < before
    assert await counted(saver) == numbers
    await count(saver, 20)
    assert await counted(saver) == [*numbers, 20]


async def test_pruning_twice_takes_nothing_more(saver: ThreadSaver) -> None:
    await count(saver, *range(10))
    await saver.aprune(["t"])
    left = await checkpoints(saver)
    await saver.aprune(["t"])
    assert await checkpoints(saver) == left
    assert await counted(saver) == list(range(10))


async def test_pruning_never_empties_the_real_state(saver: ThreadSaver) -> None:
    """Its snapshots are so rare that the whole chain is still needed."""
    graph = talking(saver, steps=20)
    live = await graph.ainvoke({"messages": [HumanMessage("go")]}, THREAD, durability="sync")
    await saver.aprune(["t"])
    assert (await graph.aget_state(THREAD)).values["messages"] == live["messages"]


async def test_deleting_strategy_leaves_nothing_of_the_thread(saver: ThreadSaver) -> None:
    await count(saver, 1)
    await count(saver, 2, config=COPY)
    await saver.aprune(["t"], strategy="delete_all")
    assert await checkpoints(saver) == 0
    assert await counted(saver, COPY) == [2]


async def test_unknown_strategy_deletes_nothing(saver: ThreadSaver) -> None:
    await count(saver, 1)
    with pytest.raises(UsageError, match="keep_latest or delete"):
        await saver.aprune(["t"], strategy="everything")
    assert await counted(saver) == [1]


async def test_rolled_back_run_leaves_the_thread_as_before_it(saver: ThreadSaver) -> None:
    *_, last = await count(saver, 1, 2)
    await saver.adelete_for_runs([last])
    assert await counted(saver) == [1]
    await count(saver, 3)
    assert await counted(saver) == [1, 3]


async def test_run_that_later_ones_stand_on_is_not_deleted(saver: ThreadSaver) -> None:
    first, second = await count(saver, 1, 2)
    with pytest.raises(UsageError, match="later runs"):
        await saver.adelete_for_runs([first])
    assert await counted(saver) == [1, 2]
    await saver.adelete_for_runs([first, second])
    assert await checkpoints(saver) == 0


async def test_copy_has_all_of_a_thread_and_a_life_of_its_own(saver: ThreadSaver) -> None:
    await count(saver, *range(6))
    await saver.acopy_thread("t", "copy")
    await count(saver, 6, config=COPY)
    assert await counted(saver, COPY) == list(range(7))
    assert await counted(saver) == list(range(6))


async def test_copy_says_its_own_id_where_the_server_wrote_the_threads(saver: ThreadSaver) -> None:
    place: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    told: Any = {"thread_id": "t", "note": "ü"}  # the server puts its own fields beside LangGraph's
    await saver.aput(place, {**_EMPTY, "id": "1"}, told, {})
    await saver.acopy_thread("t", "copy")
    copied = await saver.aget_tuple(COPY)
    assert copied is not None
    assert copied.metadata == {"thread_id": "copy", "note": "ü"}


async def test_copy_onto_an_existing_thread_is_refused(saver: ThreadSaver) -> None:
    await count(saver, 1)
    await count(saver, 2, config=COPY)
    with pytest.raises(UsageError, match="already"):
        await saver.acopy_thread("t", "copy")
    assert await counted(saver, COPY) == [2]


async def test_database_waits_for_others_and_forgoes_only_what_a_power_cut_takes(saver: ThreadSaver) -> None:
    names = ("journal_mode", "synchronous", "busy_timeout")
    found = [(await saver.conn.execute_fetchall(f"PRAGMA {name}"))[0][0] for name in names]  # type: ignore[index]
    assert found == ["wal", 1, BUSY_TIMEOUT_S * 1000]


async def test_files_are_readable_by_the_owner_alone(saver: ThreadSaver, path: Path) -> None:
    await count(saver, 1)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(("threads.db", "threads.db-wal", "threads.db-shm"), 0o600)


async def test_two_processes_worth_of_savers_share_the_file(path: Path) -> None:
    async with open_checkpointer(path) as first, open_checkpointer(path) as second:
        await count(first, 1)
        await count(second, 2)
        assert await counted(first) == [1, 2]


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def open_and_close(path: Path) -> None:
    async with open_checkpointer(path):
        pass


async def test_file_that_is_no_database_is_told_and_left_alone(path: Path) -> None:
    write(path, SHOPPING_LIST)
    with pytest.raises(SystemFaultError, match=r"threads\.db in the home folder is no SQLite database"):
        await open_and_close(path)
    assert read(path) == SHOPPING_LIST


async def test_place_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusableError, match="cannot be opened for writing"):
        await open_and_close(tmp_path / "missing" / "threads.db")
    with pytest.raises(HomeUnusableError):
        await open_and_close(tmp_path)


async def test_damaged_database_is_told_when_it_is_read(path: Path) -> None:
    async with open_checkpointer(path) as saver:
        await count(saver, *range(20))
    whole = read(path)
    write(path, whole[:PAGE_BYTES] + b"\xa5" * (len(whole) - PAGE_BYTES))
    with pytest.raises(SystemFaultError, match="is damaged"):
        await read_thread(path)


async def read_thread(path: Path) -> None:
    async with open_checkpointer(path) as saver:
        await saver.aget_tuple(THREAD)


async def test_server_finds_the_checkpointer_of_the_home_by_the_name_in_langgraph_json(home: Path) -> None:
    settings = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())
    module, name = settings["checkpointer"]["path"].rsplit(".", 1)  # as the server splits it
    factory = vars(importlib.import_module(module))[name]
    assert factory is open_default_checkpointer
    async with factory() as saver:
        await count(saver, 1)
    assert (home / "threads.db").exists()


async def test_server_may_open_it_on_an_event_loop_where_blocking_is_forbidden(home: Path) -> None:
    blockbuster = pytest.importorskip(
        "blockbuster",
        reason="needs blockbuster, which is part of the extra `studio` (`langgraph dev` runs under it)",
    )
    with blockbuster.blockbuster_ctx() as forbidden:
        forbidden.functions["os.stat"].deactivate()  # as the server does
        async with open_default_checkpointer() as saver:
            await count(saver, 1)
            assert await counted(saver) == [1]


_EMPTY: Any = {
    "v": 4,
    "ts": "2026-01-01T00:00:00+00:00",
    "channel_values": {},
    "channel_versions": {},
    "versions_seen": {},
    "updated_channels": None,
}
