"""The index of threads, and the one spelling of their ids."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ThreadUnknownError
from lockstitch.state.ledger import open_ledger
from lockstitch.state.threads import ThreadIndex, ThreadRow, check_thread_id, new_thread_id

ROW = ThreadRow(
    thread_id="3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a",
    title="repariere die Tür 🚪",
    workspace="/work",
    model="m",
    strategy="react",
    mode="ask",
    door="cli",
    created_at="2026-01-01T00:00:00.000+00:00",
    updated_at="2026-01-01T00:00:00.000+00:00",
    steps=0,
    phase="planning",
    reason=None,
)


def later(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00.000+00:00"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ThreadIndex]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield ThreadIndex(ledger)


def test_recorded_thread_is_found_as_it_was(index: ThreadIndex) -> None:
    index.record(ROW)
    assert index.find(ROW.thread_id) == ROW
    assert index.find(new_thread_id()) is None


def test_recording_again_keeps_when_the_thread_began(index: ThreadIndex) -> None:
    index.record(ROW)
    again = replace(
        ROW, created_at=later(5), updated_at=later(5), title="another", steps=3, reason="answered"
    )
    index.record(again)
    assert index.find(ROW.thread_id) == replace(again, created_at=ROW.created_at)


def test_touch_changes_how_far_a_thread_has_come_and_nothing_else(index: ThreadIndex) -> None:
    index.record(ROW)
    index.touch(ROW.thread_id, now=later(1), steps=4, phase="completed", reason="answered")
    assert index.find(ROW.thread_id) == replace(
        ROW, updated_at=later(1), steps=4, phase="completed", reason="answered"
    )


def test_touching_an_unknown_thread_is_an_error(index: ThreadIndex) -> None:
    with pytest.raises(ThreadUnknownError):
        index.touch(ROW.thread_id, now=later(1), steps=1, phase="planning", reason=None)


def test_latest_is_the_last_active_of_its_workspace(index: ThreadIndex) -> None:
    rows = [replace(ROW, thread_id=str(n), updated_at=later(n)) for n in (2, 3, 1)]
    for row in [*rows, replace(ROW, thread_id="9", workspace="/other", updated_at=later(9))]:
        index.record(row)
    found = index.latest("/work")
    assert found is not None
    assert found.thread_id == "3"
    assert index.latest("/nowhere") is None


def test_of_threads_active_in_the_same_instant_the_newer_is_the_latest(index: ThreadIndex) -> None:
    for name in ("a", "b"):
        index.record(replace(ROW, thread_id=name))
    assert [row.thread_id for row in index.recent(2)] == ["b", "a"]
    assert index.latest("/work") == replace(ROW, thread_id="b")


def test_recent_lists_the_last_active_first_up_to_its_limit(index: ThreadIndex) -> None:
    for n in (2, 3, 1):
        index.record(replace(ROW, thread_id=str(n), updated_at=later(n)))
    assert [row.thread_id for row in index.recent(2)] == ["3", "2"]
    assert [row.thread_id for row in index.recent(10)] == ["3", "2", "1"]


def test_recent_gives_whole_rows(index: ThreadIndex) -> None:
    index.record(ROW)
    assert index.recent(1) == [ROW]


def test_forgotten_thread_is_gone(index: ThreadIndex) -> None:
    index.record(ROW)
    index.forget(ROW.thread_id)
    index.forget(ROW.thread_id)
    assert index.find(ROW.thread_id) is None


@given(st.uuids())
def test_every_spelling_of_an_id_becomes_the_same_one(uuid: UUID) -> None:
    spellings = {str(uuid), str(uuid).upper(), uuid.hex}
    assert {check_thread_id(text) for text in spellings} == {str(uuid)}


@pytest.mark.parametrize(
    "text", ["", "last", "../../etc/passwd", f"{{{ROW.thread_id}}}", ROW.thread_id[:-1], "ü" * 900]
)
def test_what_is_no_id_is_refused_with_an_example_of_one(text: str) -> None:
    with pytest.raises(ThreadUnknownError, match=r"one looks like [0-9a-f]{8}-") as refusal:
        check_thread_id(text)
    assert len(refusal.value.message) < 400


def test_new_ids_are_canonical_and_differ() -> None:
    first, second = new_thread_id(), new_thread_id()
    assert check_thread_id(first) == first
    assert first != second
