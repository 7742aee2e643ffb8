"""Facts found by meaning: their vectors are kept without their text, and go with a fact that is forgotten."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings

from lockstitch.state.facts import Fact
from lockstitch.state.settings import Settings, load_settings
from lockstitch.tools import fact_search
from lockstitch.tools.code_index.encoder import MODEL_PACKAGE, Encoder
from lockstitch.tools.code_index.own_embeddings import EncoderError
from lockstitch.tools.fact_search import FactsFound, forget_vectors, search_facts

TEXTS = ("The tests need a database first.", "The person likes short answers.", "Releases go out on Fridays.")


def fact(text: str) -> Fact:
    return Fact(id=text[:4], text=text, created_at="", thread_id="", workspace="/w")


FACTS = [fact(text) for text in TEXTS]


class Topics(Embeddings):
    """Knows one meaning: what is about time, and what is not."""

    def __init__(self, width: int = 2) -> None:
        self.texts: list[str] = []
        self.width = width
        self.fails = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if self.fails:
            raise EncoderError("gone")
        about_time = any(word in text for word in ("Fridays", "when", "day"))
        return [1.0, 0.0, *[0.0] * (self.width - 2)] if about_time else [0.0, 1.0, *[0.0] * (self.width - 2)]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    monkeypatch.setattr(fact_search, "find_encoder", lambda settings: Encoder("topics", made))
    return made


def texts_of(found: FactsFound) -> list[str]:
    return [hit.fact.text for hit in found.hits]


def test_fact_is_found_by_what_it_means(topics: Topics) -> None:
    found = search_facts(FACTS, "when do we ship?", load_settings())
    assert texts_of(found) == [TEXTS[2]]
    assert found.note == ""


def test_vectors_are_made_once_and_hold_no_text(topics: Topics, home: Path) -> None:
    for _ in range(2):
        search_facts(FACTS, "when?", load_settings())
    assert len(topics.texts) == 3
    kept = b"".join(path.read_bytes() for path in (home / "indexes").iterdir())
    assert b"Fridays" not in kept
    forget_vectors(home)
    search_facts(FACTS, "when?", load_settings())
    assert len(topics.texts) == 6


def test_without_an_encoder_words_find_and_that_is_said() -> None:
    found = search_facts(FACTS, "database", load_settings(embeddings="off"))
    assert texts_of(found) == [TEXTS[0]]
    assert found.note == "by words alone, as the setting `embeddings` wants it"


def test_encoder_that_fails_leaves_words_and_says_so(topics: Topics) -> None:
    topics.fails = True
    found = search_facts(FACTS, "database", load_settings())
    assert (texts_of(found), found.note) == ([TEXTS[0]], "by words alone: gone")


def test_home_that_cannot_be_written_keeps_no_vectors(topics: Topics, tmp_path: Path) -> None:
    (tmp_path / "indexes").write_text("no folder")
    settings: Settings = load_settings().model_copy(update={"home": tmp_path})
    assert texts_of(search_facts(FACTS, "when?", settings)) == [TEXTS[2]]


def test_model_that_changed_under_its_name_is_asked_anew(topics: Topics) -> None:
    search_facts(FACTS[:2], "when?", load_settings())
    topics.width = 3
    assert texts_of(search_facts(FACTS, "when?", load_settings())) == [TEXTS[2]]


def test_nothing_is_loaded_for_nothing(topics: Topics) -> None:
    assert search_facts([], "when?", load_settings()) == FactsFound([])
    assert search_facts(FACTS, " ", load_settings()) == FactsFound([])
    assert topics.texts == []


@pytest.mark.skipif(
    find_spec(MODEL_PACKAGE) is None or find_spec("onnxruntime") is None, reason="needs the extra `semantic`"
)
def test_model_on_this_machine_finds_other_words_for_it() -> None:
    found = search_facts(FACTS, "on which weekday is a new version published?", load_settings())
    assert texts_of(found)[:1] == [TEXTS[2]]
