"""Facts outlive threads and processes, in a file of their own."""

import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lockstitch.state.errors import ResourceLimitError, SystemFaultError
from lockstitch.state.facts import NAME, FactStore, open_default_store


@pytest.fixture
def store(tmp_path: Path) -> FactStore:
    times = iter(f"2026-01-01T00:00:{n:02}.000+00:00" for n in range(60))
    return FactStore(tmp_path, now=lambda: next(times))


def test_facts_come_back_the_oldest_first_and_for_their_workspace_alone(store: FactStore) -> None:
    first = store.remember("/w", "zwei Türen", thread_id="t")
    second = store.remember("/w", "another")
    store.remember("/w.x", "elsewhere")
    assert store.facts("/w") == [first, second]
    assert (first.text, first.thread_id, first.workspace) == ("zwei Türen", "t", "/w")
    assert [fact.workspace for fact in store.all_facts()] == ["/w", "/w", "/w.x"]
    store.close()


def test_a_new_process_finds_them(store: FactStore, tmp_path: Path) -> None:
    kept = store.remember("/w", "kept")
    store.close()
    with FactStore(tmp_path) as again:
        assert again.facts("/w") == [kept]


def test_the_same_fact_is_kept_once_and_as_it_was(store: FactStore) -> None:
    first = store.remember("/w", "The  port\nis 1", thread_id="a")
    assert store.remember("/w", "the port is 1", thread_id="b") == first
    assert len(store.facts("/w")) == 1
    store.close()


def test_a_fact_is_forgotten_by_its_id_in_its_workspace(store: FactStore) -> None:
    fact = store.remember("/w", "same")
    store.remember("/x", "same")
    assert store.forget("/w", fact.id)
    assert not store.forget("/w", fact.id)
    assert store.facts("/w") == []
    assert len(store.facts("/x")) == 1
    store.close()


def test_all_facts_of_a_workspace_are_forgotten_at_once(store: FactStore) -> None:
    for number in range(15):
        store.remember("/w", f"fact {number}")
    store.remember("/x", "stays")
    assert store.forget_all("/w") == 15
    assert [fact.text for fact in store.all_facts()] == ["stays"]
    store.close()


def test_a_workspace_holds_a_bounded_number(store: FactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstitch.state.facts.FACTS_MAX", 1)
    store.remember("/w", "one")
    with pytest.raises(ResourceLimitError):
        store.remember("/w", "two")
    store.remember("/x", "other workspaces have their own")
    store.close()


def test_nothing_is_created_before_there_is_a_fact(store: FactStore, tmp_path: Path) -> None:
    assert store.facts("/w") == []
    assert not store.forget("/w", "0")
    assert store.forget_all("/w") == 0
    assert list(tmp_path.iterdir()) == []


def test_listing_where_nothing_is_kept_does_not_load_the_store() -> None:
    program = (
        "import sys; from pathlib import Path; from lockstitch.state.facts import FactStore; "
        "FactStore(Path('/nowhere')).facts('/w'); sys.exit('langgraph' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_nobody_else_may_read_the_file(store: FactStore, tmp_path: Path) -> None:
    store.remember("/w", "private")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    store.close()


@pytest.mark.parametrize("text", ["half a pair \ud83d", "\0", '"; DROP TABLE store; --', "%s {x}"])
def test_any_text_can_be_kept(store: FactStore, text: str) -> None:
    kept = store.remember("/w/\udcff", text)
    assert store.facts("/w/\udcff") == [kept]
    store.close()


def test_a_damaged_file_is_told_in_one_line(store: FactStore, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database" * 100)
    with pytest.raises(SystemFaultError, match=r"facts\.db in the home folder is no SQLite"):
        store.facts("/w")


async def test_langgraphs_server_reads_and_writes_the_same_file(home: Path) -> None:
    with FactStore(home) as store:
        store.remember("/w", "of the agent")
        async with open_default_store() as served:
            (item,) = await served.asearch(("facts",))
            assert item.value["text"] == "of the agent"
            await served.aput((*item.namespace,), "ffffffff", {**item.value, "text": "of a client"})
        assert {fact.text for fact in store.facts("/w")} == {"of the agent", "of a client"}


def test_many_that_open_a_new_file_at_once_all_keep_their_fact(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def keep(number: int) -> None:
        with FactStore(tmp_path) as store:
            together.wait(20)
            store.remember("/w", f"fact {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, range(8)))
    with FactStore(tmp_path) as store:
        assert len(store.facts("/w")) == 8
