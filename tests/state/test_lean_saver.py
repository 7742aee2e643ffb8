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
from lockstitch.state.row_encoding import CHAIN_MAX, WHOLE
from lockstitch.state.short_versions import SHORT_VERSION_MAX

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


async def test_stock_saver_refuses_our_rows_in_one_word(path: Path) -> None:
    async with open_checkpointer(path) as saver:
        saved = await saver.aput(ROOT, checkpoint(x=[1, "ü"]), {}, {})
    async with AsyncSqliteSaver.from_conn_string(str(path)) as stock:
        with pytest.raises(NotImplementedError, match=r"Unknown serialization type: msgpack\+zstd1"):
            await stock.aget_tuple(saved)


async def test_stock_saver_reads_an_unpacked_thread(path: Path) -> None:
    async with open_checkpointer(path) as saver:
        first = await saver.aput(ROOT, checkpoint(x="x" * 1000), {"source": "loop", "step": 2}, {})
        saved = await saver.aput(first, checkpoint(x=[1, "ü"]), {"source": "loop", "step": 3}, {})
        await saver.aput_writes(
            saved, [("phase", 1), ("step", None), ("messages", "m" * 500)], "task", "path"
        )
        before = [found async for found in saver.alist(ROOT)]
        await saver.aunpack(["t"])
        assert [found async for found in saver.alist(ROOT)] == before
        ours = await saver.aget_tuple(saved)
    async with AsyncSqliteSaver.from_conn_string(str(path)) as stock:
        found = await stock.aget_tuple(saved)
        assert found is not None
        assert found._replace(pending_writes=None) == ours._replace(pending_writes=None)  # type: ignore[union-attr]
        by_name = {write[1]: write for write in found.pending_writes or []}
        assert by_name == {write[1]: write for write in ours.pending_writes or []}  # type: ignore[union-attr]
    assert ours is not None
    assert ours.checkpoint["channel_values"] == {"x": [1, "ü"]}
    assert sorted(ours.pending_writes or [], key=lambda write: write[1]) == [
        ("task", "messages", "m" * 500),
        ("task", "phase", 1),
        ("task", "step", None),
    ]


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


async def put_chain(saver: LeanSaver, count: int) -> list[RunnableConfig]:
    """Checkpoints below each other, each with a value of its own and one that all share."""
    shared, at = ["the", "same", "list"], ROOT
    chain = []
    for number in range(count):
        at = await saver.aput(at, checkpoint(shared=shared, number=number), {}, {})
        chain.append(at)
    return chain


def kinds(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as reader:
        return [kind for (kind,) in reader.execute("SELECT type FROM checkpoints ORDER BY checkpoint_id")]


async def test_every_checkpoint_of_a_long_chain_is_read_back(saver: LeanSaver, path: Path) -> None:
    chain = await put_chain(saver, 2 * CHAIN_MAX + 1)
    found = [await saver.aget_tuple(at) for at in chain]
    values = [one.checkpoint["channel_values"] for one in found if one]
    assert values == [{"shared": ["the", "same", "list"], "number": n} for n in range(len(chain))]
    listed = [one.checkpoint["channel_values"]["number"] async for one in saver.alist(ROOT)]
    assert listed == list(range(len(chain)))[::-1]
    assert kinds(path).count(WHOLE) == 3, "a whole row every CHAIN_MAX"


async def test_checkpoint_put_again_leaves_those_told_from_it_as_they_were(saver: LeanSaver) -> None:
    first, second, third = await put_chain(saver, 3)
    again = checkpoint(other="now") | {"id": second["configurable"]["checkpoint_id"]}
    await saver.aput(first, again, {}, {})
    values = [(await saver.aget_tuple(at)).checkpoint["channel_values"] for at in (second, third)]  # type: ignore[union-attr]
    assert values == [{"other": "now"}, {"shared": ["the", "same", "list"], "number": 2}]


async def test_checkpoint_whose_parent_was_deleted_elsewhere_is_stored_whole(
    saver: LeanSaver, path: Path
) -> None:
    (first,) = await put_chain(saver, 1)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM checkpoints")
    saved = await saver.aput(first, checkpoint(x=1), {}, {})
    found = await saver.aget_tuple(saved)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": 1}


@pytest.mark.parametrize("damage", ["x'00'", "zeroblob(100)", "substr(checkpoint, 1, 30)"])
async def test_row_that_cannot_be_unpacked_is_told(saver: LeanSaver, path: Path, damage: str) -> None:
    saved = (await put_chain(saver, 3))[-1]
    with closing(sqlite3.connect(path)) as attacker, attacker:
        attacker.execute(f"UPDATE checkpoints SET checkpoint = {damage}")
    with pytest.raises(SystemFaultError, match=r"threads\.db in the home folder is damaged"):
        await saver.aget_tuple(saved)


async def test_row_whose_base_is_gone_is_told(saver: LeanSaver, path: Path) -> None:
    first, second = await put_chain(saver, 2)
    with closing(sqlite3.connect(path)) as attacker, attacker:
        attacker.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id = ?", (first["configurable"]["checkpoint_id"],)
        )
    with pytest.raises(SystemFaultError, match="differs from is not there"):
        await saver.aget_tuple(second)


async def test_versions_sort_and_go_on_with_those_of_the_stock_saver(saver: LeanSaver, path: Path) -> None:
    ours = [None]
    for _ in range(12):
        ours.append(saver.get_next_version(ours[-1], None))  # type: ignore[arg-type]
    assert ours[1:] == sorted(ours[1:])  # type: ignore[type-var]
    async with AsyncSqliteSaver.from_conn_string(str(path)) as stock:
        theirs = stock.get_next_version(ours[-1], None)  # type: ignore[arg-type]
    assert theirs > ours[-1]  # type: ignore[operator]
    assert saver.get_next_version(theirs, None) > theirs
    last = saver.get_next_version(f" {SHORT_VERSION_MAX - 1:06}", None)
    assert saver.get_next_version(last, None) > last


async def test_superstep_that_is_over_keeps_what_is_replayed_and_an_interrupted_one_all(
    saver: LeanSaver, path: Path
) -> None:
    first = await saver.aput(ROOT, checkpoint(), {}, {})
    await saver.aput_writes(first, [("phase", "a"), ("step", 1), ("messages", ["m"])], "task")
    second = await saver.aput(first, checkpoint(phase="a", step=1), {}, {})
    await saver.aput_writes(second, [("phase", "b"), ("step", 2)], "task")
    await saver.aput_writes(second, [(INTERRUPT, "really?")], "other")
    await saver.aput(second, checkpoint(phase="b", step=2), {}, {})
    await saver.adrop_over()
    kept = [[write[1:] for write in (await saver.aget_tuple(at)).pending_writes] for at in (first, second)]  # type: ignore[union-attr]
    assert kept[0] == [("messages", ["m"])]
    assert sorted(kept[1]) == [(INTERRUPT, "really?"), ("phase", "b"), ("step", 2)]
