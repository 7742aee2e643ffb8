"""The model on this machine: its word pieces, and that near meanings are near."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from lockstitch.state.settings import load_settings
from lockstitch.tools.code_index import encoder as module
from lockstitch.tools.code_index.encoder import MINILM, MODEL_PACKAGE, describe_missing, find_encoder
from lockstitch.tools.code_index.wordpiece import VOCABULARY, WordPiece

needs_model = pytest.mark.skipif(
    find_spec(MODEL_PACKAGE) is None or find_spec("onnxruntime") is None, reason="needs the extra `semantic`"
)


@pytest.fixture(scope="module")
def pieces() -> WordPiece:
    return WordPiece()


@pytest.mark.parametrize(
    ("text", "ids"),  # as the tokenizer of the model's authors gives them
    [
        ("Hello, World!", [101, 7592, 1010, 2088, 999, 102]),
        ("embeddings", [101, 7861, 8270, 4667, 2015, 102]),
        ("café", [101, 7668, 102]),
        ("", [101, 102]),
        ("中文", [101, 1746, 1861, 102]),
        ("a_b", [101, 1037, 1035, 1038, 102]),
        ("x" * 101, [101, 100, 102]),
    ],
)
def test_pieces_are_those_of_the_models_own_tokenizer(text: str, ids: list[int], pieces: WordPiece) -> None:
    assert pieces.encode(text, max_pieces=128) == ids


def test_long_text_is_cut_and_keeps_its_end_mark(pieces: WordPiece) -> None:
    ids = pieces.encode("word " * 10_000, max_pieces=128)
    assert (len(ids), ids[0], ids[-1]) == (128, 101, 102)


def test_vocabulary_comes_with_its_licence() -> None:
    assert "Apache License" in (VOCABULARY.parent / "LICENSE").read_text()
    assert "vocab.txt" in (VOCABULARY.parent / "NOTICE").read_text()


def test_without_the_extra_there_is_no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    module._local_encoder.cache_clear()
    assert find_encoder(load_settings()) is None
    module._local_encoder.cache_clear()
    assert "pip install" in describe_missing(load_settings())


@needs_model
def test_near_meanings_have_near_vectors() -> None:
    encoder = find_encoder(load_settings())
    assert encoder is not None
    assert encoder.name == MINILM
    texts = ["sort a list of numbers", "arrange integers in ascending order", "open a network socket"]
    first, near, far = encoder.embeddings.embed_documents(texts)
    alone = encoder.embeddings.embed_query(texts[0])
    beside_longer, _ = encoder.embeddings.embed_documents([texts[0], "a long text " * 40])

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert cosine(first, first) == pytest.approx(1, abs=1e-3)
    assert cosine(first, alone) > 0.99
    assert cosine(beside_longer, alone) > 0.99
    assert cosine(first, near) > 0.5 > cosine(first, far)


@needs_model
def test_an_old_processor_gives_nearly_the_same_vectors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "read the settings of a project from its file"
    vectors = []
    for flags in ("avx2", "avx2 avx512_vnni"):
        monkeypatch.setattr(module, "CPU_INFO", tmp_path / "cpuinfo")
        (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
        vectors.append(module.MiniLm().embed_query(text))
    assert sum(a * b for a, b in zip(*vectors, strict=True)) > 0.99
