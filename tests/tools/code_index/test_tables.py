"""Tables kept beside an index: they answer as one counted anew, follow changes, and are needed by nobody."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lockstitch.tools.code_index import kept_tables, loading
from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.columns import Columns, places_of
from lockstitch.tools.code_index.index_file import FORMAT, MODEL, IndexFile
from lockstitch.tools.code_index.indexes import Indexes
from lockstitch.tools.code_index.kept_tables import keep_tables, load_vectors, load_words
from lockstitch.tools.code_index.loading import Loader
from lockstitch.tools.code_index.search import Judged, rank
from lockstitch.tools.code_index.words import terms_of

COUNT = 600  # more than are not worth a table
WORDS = ("apple", "bread", "cheese", "dates", "eggs", "figs", "grapes")
MODEL_NAME = "drawn"


def chunk(number: int, *more: str) -> Chunk:
    text = " ".join((*(word for n, word in enumerate(WORDS) if number % (n + 2) == 0), f"n{number}q", *more))
    return Chunk(f"f{number // 10}.py", 1, 2, f"work{number}", text)


def put(index: IndexFile, numbers: range, *more: str) -> None:
    drawn = np.random.default_rng(numbers.start)
    for first in range(numbers.start, numbers.stop, 10):
        chunks = [chunk(n, *more) for n in range(first, min(first + 10, numbers.stop))]
        with index.change():
            index.put_file(chunks[0].path, stamp="s", content_hash="h", chunks=chunks)
        vectors = drawn.standard_normal((len(chunks), 8)).astype(np.float32)
        index.put_vectors(MODEL_NAME, chunks, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    with IndexFile(tmp_path / "many.db") as index:
        index.set_meta(MODEL, MODEL_NAME)
        put(index, range(COUNT))
        yield index


def ask(columns: Columns) -> list[tuple[str, float]]:
    vector = [1.0] + [0.0] * 7
    found: list[Judged] = rank(columns, "apple cheese of work 7", vector)
    return [(columns.symbols[place], round(relevance, 5)) for place, relevance, _ in found[:20]]


def anew(index: IndexFile) -> Columns:
    return Columns.of(index.chunk_rows(), index.vector_rows(MODEL_NAME))


def test_kept_tables_answer_as_those_counted_anew(index: IndexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_tables(index, MODEL_NAME, complete=True)
    monkeypatch.setattr(loading.WordTable, "of", None)  # nothing is counted
    monkeypatch.setattr(IndexFile, "vector_rows", None)  # nor converted
    columns = Loader().load(index, MODEL_NAME)
    monkeypatch.undo()
    assert ask(columns) == ask(anew(index))
    assert columns.encoded == COUNT


def test_change_is_followed_without_counting_all_anew(
    index: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_tables(index, MODEL_NAME, complete=True)
    loader = Loader()
    loader.load(index, MODEL_NAME)
    put(index, range(20, 30), "zebra")
    with index.change():
        index.drop_files(["f0.py"])
    monkeypatch.setattr(loading.WordTable, "of", None)
    columns = loader.load(index, MODEL_NAME)
    assert (len(columns.ids), columns.encoded) == (COUNT - 10, COUNT - 10)
    best = rank(columns, "zebra", None)
    assert {columns.symbols[judged.place] for judged in best} == {f"work{n}" for n in range(20, 30)}
    shown = {symbol for symbol, _ in ask(columns)}
    assert not shown & {f"work{n}" for n in range(10)}


def test_newer_piece_is_scored_as_one_of_the_table(index: IndexFile) -> None:
    loader = Loader()
    before = ask(loader.load(index, MODEL_NAME))
    put(index, range(10, 20))  # the same text again: other ids, so that they are newer than the table
    after = ask(loader.load(index, MODEL_NAME))
    changed = {f"work{n}" for n in range(10, 20)}
    assert [pair for pair in before if pair[0] not in changed] == [p for p in after if p[0] not in changed]
    columns = loader.load(index, MODEL_NAME)
    shares = {s.place: s.words for s in columns.score(terms_of("apple cheese n15q"), None)}
    place = columns.symbols.index("work15")
    expected = {s.place: s.words for s in anew(index).score(terms_of("apple cheese n15q"), None)}
    assert shares[place] == pytest.approx(expected[place], abs=1e-5)


def test_ids_are_never_used_again(index: IndexFile) -> None:
    last = index.ids()[-1]
    with index.change():
        index.drop_files([f"f{(COUNT - 1) // 10}.py"])
    put(index, range(COUNT, COUNT + 10))
    assert index.ids()[-1] == last + 10


def test_table_that_is_damaged_or_gone_is_made_anew(index: IndexFile) -> None:
    keep_tables(index, MODEL_NAME, complete=True)
    expected = ask(anew(index))
    (words,) = index.path.parent.glob("many.words-*")
    (vectors,) = index.path.parent.glob("many.vectors-*")
    (words / "facts.json").write_text("{")
    (vectors / "vectors.npy").write_bytes(b"nothing")
    assert ask(Loader().load(index, MODEL_NAME)) == expected
    shutil.rmtree(words)
    shutil.rmtree(vectors)
    assert ask(Loader().load(index, MODEL_NAME)) == expected


def test_table_of_another_version_or_model_is_not_read(
    index: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_tables(index, MODEL_NAME, complete=True)
    assert load_vectors(index, "another") is None
    monkeypatch.setattr(kept_tables, "VERSION", "another")
    assert load_words(index) is None
    index.drop_vectors_but("another")
    assert load_vectors(index, MODEL_NAME) is None


def test_full_disk_keeps_no_table_and_hurts_nobody(index: IndexFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", fail)
    keep_tables(index, MODEL_NAME, complete=True)
    assert sorted(path.name for path in index.path.parent.glob("many.*-*") if path.is_dir()) == []
    assert ask(Loader().load(index, MODEL_NAME)) == ask(anew(index))


def test_tables_are_replaced_when_much_has_changed_and_dropped_with_the_index(
    home: Path, tmp_path: Path
) -> None:
    indexes = Indexes(home, tmp_path)
    with indexes.open(None) as index:
        index.set_meta(MODEL, MODEL_NAME)
        put(index, range(COUNT))
        keep_tables(index, MODEL_NAME, complete=True)
        first = {path.name for path in index.path.parent.glob("default.*-*") if path.is_dir()}
        put(index, range(10))
        keep_tables(index, MODEL_NAME, complete=True)
        assert {path.name for path in index.path.parent.glob("default.*-*") if path.is_dir()} == first
        put(index, range(COUNT, 2 * COUNT))
        keep_tables(index, MODEL_NAME, complete=False)  # it may grow on
        assert {path.name for path in index.path.parent.glob("default.*-*") if path.is_dir()} == first
        keep_tables(index, MODEL_NAME, complete=True)
        second = {path.name for path in index.path.parent.glob("default.*-*") if path.is_dir()}
        assert len(second) == 2
        assert not first & second
        folder = index.path.parent
    size = indexes.status(None).size_bytes
    assert size > sum(path.stat().st_size for path in folder.glob("*.db"))
    assert indexes.drop(None)
    assert sorted(path.name for path in folder.iterdir()) == ["workspace"]


def test_index_of_another_format_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with IndexFile(path) as index:
        put(index, range(10))
        index._database.execute(f"PRAGMA user_version = {FORMAT - 1}")
    with IndexFile(path) as index:
        assert index.ids() == []
        assert index.files() == {}
        assert index.meta(MODEL) == f"format {FORMAT - 1}"  # so that the next build says it
        put(index, range(10))
    with IndexFile(path) as index:
        assert len(index.ids()) == 10


def test_places_are_found_among_others() -> None:
    among = np.asarray([2, 4, 9], dtype=np.int64)
    assert places_of(np.asarray([9, 1, 4, 10], dtype=np.int64), among).tolist() == [2, -1, 1, -1]
    assert places_of(among, among[:0]).tolist() == [-1, -1, -1]
