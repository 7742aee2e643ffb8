"""Kept texts come back whole, to their own thread alone."""

import stat
from pathlib import Path

import pytest

from lockstitch.state.errors import SystemFaultError, ToolValidationError
from lockstitch.state.spill import SpillStore


@pytest.mark.parametrize("text", ["", "ä\n\r\n\0", "half a pair \ud83d", "x" * 100_000])
def test_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    store = SpillStore(tmp_path, "t1")
    assert store.read(store.keep(text)) == text


def test_same_text_is_kept_once(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, "t1")
    assert store.keep("a") == store.keep("a") != store.keep("b")
    assert len(list((tmp_path / "t1").iterdir())) == 2


def test_nobody_else_may_read_the_files(tmp_path: Path) -> None:
    spill_id = SpillStore(tmp_path, "t1").keep("secret")
    assert stat.S_IMODE((tmp_path / "t1").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "t1" / spill_id).stat().st_mode) == 0o600


def test_another_thread_does_not_see_it(tmp_path: Path) -> None:
    spill_id = SpillStore(tmp_path, "t1").keep("mine")
    with pytest.raises(ToolValidationError, match="kept no result"):
        SpillStore(tmp_path, "t2").read(spill_id)


@pytest.mark.parametrize(
    "spill_id", ["", "..", "../t2/0123456789abcdef", "0123456789ABCDEF", "0" * 17, "0" * 16 + "\n"]
)
def test_malformed_id_is_refused(tmp_path: Path, spill_id: str) -> None:
    with pytest.raises(ToolValidationError, match="hex digits"):
        SpillStore(tmp_path, "t1").read(spill_id)


@pytest.mark.parametrize("thread_id", ["", ".", "..", "a/b", "../t2", "a\0b", "x" * 129])
def test_thread_id_that_is_no_folder_name_is_refused(tmp_path: Path, thread_id: str) -> None:
    with pytest.raises(ToolValidationError, match="thread's id"):
        SpillStore(tmp_path, thread_id)


def test_unwritable_store_is_a_fault_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemFaultError, match="could not be kept"):
        SpillStore(tmp_path / "file", "t1").keep("text")


def test_kept_texts_are_listed_and_measured_and_drafts_are_not(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, "t1")
    assert (store.ids(), store.size()) == ([], 0)
    ids = {store.keep("ä"), store.keep("bc")}
    (tmp_path / "t1" / f".{'0' * 16}.draft").write_text("half")
    assert (set(store.ids()), store.size()) == (ids, 4)


def test_cleared_texts_are_gone_and_new_ones_can_be_kept(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, "t1")
    other = SpillStore(tmp_path, "t2")
    store.keep("a")
    other.keep("b")
    store.clear()
    store.clear()
    assert (store.ids(), len(other.ids())) == ([], 1)
    assert store.read(store.keep("c")) == "c"


def test_texts_that_cannot_be_deleted_are_told(tmp_path: Path) -> None:
    (tmp_path / "t1").write_text("no folder")
    with pytest.raises(SystemFaultError, match="could not be deleted"):
        SpillStore(tmp_path, "t1").clear()


def test_nobody_else_may_look_into_the_folders(tmp_path: Path) -> None:
    SpillStore(tmp_path / "spill", "t").keep("x")
    folders = (tmp_path / "spill", tmp_path / "spill" / "t")
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
