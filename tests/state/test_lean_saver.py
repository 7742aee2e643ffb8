"""What the saver writes and reads is what the stock saver does; only the way there differs."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import INTERRUPT, Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_POS_ARGS, JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.lean_saver import LOOP_WRITES, WRITES_AT_ONCE, LeanSaver

ROOT: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def checkpoint(**values: Any) -> Checkpoint:
    return {**empty_checkpoint(), "channel_values": values}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture(params=[False, True], ids=["worker", "in_loop"])
async def saver(path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LeanSaver]:
    async with open_checkpointer(path, in_loop=request.param) as opened:
        yield opened


async def test_stock_saver_reads_the_file(path: Path) -> None:
    async with open_checkpointer(path) as saver:
        saved = await saver.aput(ROOT, checkpoint(x=[1, "ü"]), {"source": "loop", "step": 3}, {})
        await saver.aput_writes(saved, [("x", 1), ("y", None)], "task", "path")
        ours = await saver.aget_tuple(saved)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as stock:
        assert await stock.aget_tuple(saved) == ours
    assert ours is not None
    assert ours.checkpoint["channel_values"] == {"x": [1, "ü"]}
    assert ours.pending_writes == [("task", "x", 1), ("task", "y", None)]


async def test_what_a_task_wrote_first_stays(saver: LeanSaver) -> None:
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    for value in (1, 2):
        await saver.aput_writes(saved, [("x", value)], "task")
        await saver.aput_writes(saved, [(INTERRUPT, value)], "task")  # a mark, which is written anew
    found = await saver.aget_tuple(saved)
    assert found is not None
    assert sorted(found.pending_writes or []) == [("task", INTERRUPT, 2), ("task", "x", 1)]


@pytest.mark.parametrize("count", [0, 1, WRITES_AT_ONCE, 2 * WRITES_AT_ONCE + 1])
async def test_any_number_of_writes_is_stored_in_order(saver: LeanSaver, count: int) -> None:
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    await saver.aput_writes(saved, [("x", n) for n in range(count)], "task")
    found = await saver.aget_tuple(saved)
    assert found is not None
    assert [value for _, _, value in found.pending_writes or []] == list(range(count))


async def test_write_that_was_acknowledged_is_on_disk(saver: LeanSaver, path: Path) -> None:
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    await saver.aput_writes(saved, [("x", 1)], "task")
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
        assert reader.execute("SELECT count(*) FROM writes").fetchone() == (1,)


async def test_write_waits_for_another_process_outside_of_the_event_loop(path: Path) -> None:
    async with open_checkpointer(path, in_loop=True) as saver:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(saver.aput(ROOT, checkpoint(x=1), {}, {}))
            await asyncio.sleep(0)  # its first try is made, and the loop is free again
            assert not writing.done()
            other.execute("COMMIT")
            saved = await writing
        found = await saver.aget_tuple(saved)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": 1}


async def test_log_of_writes_in_the_loop_does_not_grow_without_end(path: Path) -> None:
    size = 100_000
    async with open_checkpointer(path, in_loop=True) as saver:
        for _ in range(2 * LOOP_WRITES):
            await saver.aput(ROOT, checkpoint(x="x" * size), {}, {})
        log = path.with_name(f"{path.name}-wal").stat().st_size
    assert log < 1.5 * LOOP_WRITES * size


async def test_cancelled_deletion_leaves_no_transaction_open(saver: LeanSaver, path: Path) -> None:
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    deletion = asyncio.create_task(saver.adelete_thread("t"))
    await asyncio.sleep(0)  # it has asked for its transaction
    deletion.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deletion
    with closing(sqlite3.connect(path, timeout=0)) as another:
        another.execute("BEGIN IMMEDIATE")
    assert await saver.aget_tuple(saved) is not None


def os_system(command: str) -> bytes:
    """A msgpack value that calls `os.system` when it is read without care."""
    call = ormsgpack.packb(["posix", "system", [command]])
    return ormsgpack.packb(ormsgpack.Ext(EXT_CONSTRUCTOR_POS_ARGS, call))


async def test_planted_row_that_names_a_function_runs_nothing(
    saver: LeanSaver, path: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "executed"
    planted = os_system(f"touch {proof}")
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    await saver.aput_writes(saved, [("x", 1)], "task")
    with closing(sqlite3.connect(path)) as attacker, attacker:
        attacker.execute("UPDATE writes SET value = ?", (planted,))
    await saver.aget_tuple(saved)
    await saver.aget_delta_channel_history(config=saved, channels=["x"])
    assert not proof.exists()

    JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", planted))
    assert proof.exists(), "the plant must bite where nobody looks"


async def test_pickled_row_is_refused(saver: LeanSaver, path: Path) -> None:
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    with closing(sqlite3.connect(path)) as attacker, attacker:
        attacker.execute("UPDATE checkpoints SET type = 'pickle'")
    with pytest.raises(NotImplementedError, match="Unknown serialization type: pickle"):
        await saver.aget_tuple(saved)


async def test_database_that_lost_a_table_is_told(saver: LeanSaver, path: Path) -> None:
    with closing(sqlite3.connect(path)) as attacker:
        attacker.execute("DROP TABLE writes")
    saved = await saver.aput(ROOT, checkpoint(), {}, {})
    with pytest.raises(SystemFaultError, match=r"threads\.db in the home folder failed: no such table"):
        await saver.aput_writes(saved, [("x", 1)], "task")
    with pytest.raises(SystemFaultError):
        await saver.aget_tuple(saved)
