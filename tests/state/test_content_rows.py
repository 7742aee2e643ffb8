"""Small contents come back to the byte, from memory or the ledger, and stay while anybody needs them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.clock import Clock

from lockstitch.state.content_files import FRESH_S, ContentFiles
from lockstitch.state.content_rows import SMALL_BYTES, WAITING_MAX, ContentRows
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore

SAME_STORE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000_000.0)


@pytest.fixture
def rows(ledger: Ledger, clock: Clock) -> ContentRows:
    return ContentRows(ledger, now=clock)


@pytest.fixture
def elsewhere(tmp_path: Path, clock: Clock) -> Iterator[ContentRows]:
    """The rows as another process sees them."""
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield ContentRows(ledger, now=clock)


@SAME_STORE
@given(data=st.one_of(st.binary(), st.text(alphabet="ab\n", max_size=SMALL_BYTES - 1).map(str.encode)))
def test_content_comes_back_to_the_byte(rows: ContentRows, elsewhere: ContentRows, data: bytes) -> None:
    digest = rows.put(data)
    assert (rows.read(digest), rows.size(digest)) == (data, len(data))
    rows.write()
    assert (elsewhere.read(digest), elsewhere.size(digest)) == (data, len(data))
    assert elsewhere.stored(digest) <= len(data)


def test_others_see_it_once_it_is_written(rows: ContentRows, elsewhere: ContentRows) -> None:
    digest = rows.put(b"a")
    assert (elsewhere.read(digest), elsewhere.size(digest), elsewhere.stored(digest)) == (None, None, 0)
    rows.write()
    assert elsewhere.read(digest) == b"a"


def test_what_a_change_of_the_ledger_that_failed_was_to_keep_is_kept_by_the_next(
    rows: ContentRows, elsewhere: ContentRows
) -> None:
    digest = rows.put(b"a")
    with pytest.raises(ZeroDivisionError), rows.kept():
        _ = 1 / 0
    assert (rows.read(digest), elsewhere.read(digest)) == (b"a", None)
    rows.write()
    assert elsewhere.read(digest) == b"a"


def test_few_wait_in_memory(rows: ContentRows, elsewhere: ContentRows) -> None:
    digests = [rows.put(b"%d" % number) for number in range(WAITING_MAX + 1)]
    assert [elsewhere.read(digest) for digest in digests] == [b"%d" % n for n in range(WAITING_MAX + 1)]


def test_only_what_nobody_needs_any_more_is_collected(rows: ContentRows, clock: Clock) -> None:
    old, needed, again = (rows.put(data) for data in (b"old" * 100, b"needed", b"again"))
    rows.write()
    clock.now += FRESH_S + 1
    fresh = rows.put(b"fresh")
    assert rows.put(b"again") == again
    rows.write()
    freed = rows.stored(old)
    assert rows.collect({needed}, unused_since=clock.now - FRESH_S) == freed > 0
    found = [digest for digest in (old, needed, again, fresh) if rows.size(digest) is not None]
    assert found == [needed, again, fresh]


@pytest.mark.parametrize("damage", ["payload = zeroblob(length(payload))", "encoding = 0", "size = 1"])
def test_row_that_was_changed_is_told_and_can_be_dropped(
    rows: ContentRows, ledger: Ledger, damage: str
) -> None:
    digest = rows.put(b"content " * 100)
    rows.write()
    ledger.execute(f"UPDATE contents SET {damage}")
    with pytest.raises(SystemFaultError, match=f"{digest[:12]} is missing or damaged.*lockstitch doctor"):
        rows.read(digest)
    rows.drop(digest)
    assert rows.read(digest) is None
    assert rows.put(b"content " * 100) == digest
    rows.write()
    assert rows.read(digest) == b"content " * 100


def test_store_keeps_small_contents_as_rows_and_large_ones_as_files(tmp_path: Path, ledger: Ledger) -> None:
    store, folder = ObjectStore(tmp_path / "objects", ledger), tmp_path / "objects"
    small, large = os.urandom(SMALL_BYTES - 1), os.urandom(SMALL_BYTES)
    for data in (small, large):
        digest = store.put(data)
        assert (store.read(digest), b"".join(store.pieces(digest))) == (data, data)
        assert (store.has(digest), store.size(digest), store.stored([digest]) >= len(data)) == (
            True,
            len(data),
            True,
        )
    assert sum(path.is_file() for path in folder.rglob("*")) == 1
    store.flush()
    assert ledger.execute("SELECT size FROM contents") == [(SMALL_BYTES - 1,)]


def test_small_content_of_an_earlier_version_is_read_from_its_file(tmp_path: Path, ledger: Ledger) -> None:
    digest = ContentFiles(tmp_path / "objects").put(b"from before")
    store = ObjectStore(tmp_path / "objects", ledger)
    assert (store.has(digest), store.read(digest), store.size(digest)) == (True, b"from before", 11)
