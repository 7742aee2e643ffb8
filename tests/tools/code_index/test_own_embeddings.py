"""Vectors from elsewhere: an OpenAI-compatible endpoint on loopback, and Embeddings of a person's own."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from lockstitch.state.settings import Settings, load_settings
from lockstitch.tools.code_index.build import refresh_index
from lockstitch.tools.code_index.encoder import MINILM, Encoder, find_encoder
from lockstitch.tools.code_index.indexes import Indexes
from lockstitch.tools.code_index.look_up import Answer, Question, look_up
from lockstitch.tools.code_index.own_embeddings import EncoderError
from lockstitch.tools.workspace import Workspace

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Endpoint(ThreadingHTTPServer):
    """Speaks POST /v1/embeddings; a vector counts letters, twice as long as it should be."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.status = 200
        self.letters = LETTERS

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        self.server.keys.append(self.headers["authorization"])
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": n, "embedding": [2.0 * t.count(c) for c in self.server.letters]}
            for n, t in enumerate(texts)
        ]
        reply = json.dumps({"object": "list", "data": data, "model": "m", "usage": {}}).encode()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "zoo.py").write_text("def feed_zebra():\n    return 1\n\n\ndef pay():\n    return 2\n")
    with Workspace(tmp_path / "ws") as workspace:
        yield workspace


def settings_for(endpoint: Endpoint, **more: Any) -> Settings:
    return load_settings(embeddings="tiny", embeddings_base_url=endpoint.base_url, **more)


def ask(workspace: Workspace, settings: Settings, query: str = "zebra") -> Answer:
    return look_up(Question(query=query), workspace, settings)


def encoder_of(settings: Settings) -> Encoder:
    encoder = find_encoder(settings)
    assert encoder is not None
    return encoder


def test_endpoints_vectors_build_the_index_and_find(endpoint: Endpoint, workspace: Workspace) -> None:
    found, notes = ask(workspace, settings_for(endpoint))
    assert notes == []
    assert (found.encoded, found.chunks) == (2, 2)
    assert found.hits[0].chunk.symbol == "feed_zebra"
    assert "meaning" in found.hits[0].why
    assert 0 < found.hits[0].relevance <= 1
    assert {body["model"] for body in endpoint.asked} == {"tiny"}
    assert all(isinstance(text, str) for body in endpoint.asked for text in body["input"])  # and no token ids


DENIAL = '[[rule]]\ndecision = "deny"\npath = "zoo.py"\n'


def test_a_file_that_a_rule_denies_is_sent_to_no_endpoint(
    endpoint: Endpoint, workspace: Workspace, home: Path
) -> None:
    settings = settings_for(endpoint, home=home)
    (workspace.root / "shop.py").write_text("def sell():\n    return 3\n")
    (home / "policy.toml").write_text(DENIAL)
    found, _ = ask(workspace, settings)
    assert (found.encoded, found.chunks) == (1, 1)
    assert not [body for body in endpoint.asked if "zebra" in str(body["input"][:-1])]
    (home / "policy.toml").unlink()
    assert ask(workspace, settings).found.chunks == 3  # with the rule gone it is a file like the others


def test_model_key_goes_to_the_models_endpoint_alone(endpoint: Endpoint) -> None:
    elsewhere = settings_for(endpoint, openai_api_key="sk-of-the-model")
    encoder_of(elsewhere).embeddings.embed_query("a")
    same = load_settings(
        embeddings="tiny", openai_base_url=endpoint.base_url, openai_api_key="sk-of-the-model"
    )
    encoder_of(same).embeddings.embed_query("a")
    own = settings_for(endpoint, openai_api_key="sk-of-the-model", embeddings_api_key="sk-own")
    encoder_of(own).embeddings.embed_query("a")
    assert endpoint.keys == ["Bearer none", "Bearer sk-of-the-model", "Bearer sk-own"]


def test_switching_the_embeddings_encodes_anew_and_says_so(endpoint: Endpoint, workspace: Workspace) -> None:
    ask(workspace, settings_for(endpoint))
    other = settings_for(endpoint).model_copy(update={"embeddings": "other"})
    found, notes = ask(workspace, other)
    assert notes == ["the index was of another model and is encoded anew"]
    assert found.encoded == 2
    assert ask(workspace, other).notes == []


def test_model_that_changed_under_its_name_is_encoded_anew(endpoint: Endpoint, workspace: Workspace) -> None:
    settings = settings_for(endpoint)
    ask(workspace, settings)
    endpoint.letters = LETTERS[::-1] + "_"
    assert "changed under their name" in ask(workspace, settings).notes[0]
    (workspace.root / "new.py").write_text("def buy():\n    return 1\n")
    found, notes = ask(workspace, settings)
    assert notes == ["the index was of another model and is encoded anew"]
    assert found.encoded == 3


def test_endpoint_that_fails_leaves_words_and_says_so(endpoint: Endpoint, workspace: Workspace) -> None:
    settings = settings_for(endpoint)
    endpoint.status = 400
    found, notes = ask(workspace, settings)
    assert found.hits[0].chunk.symbol == "feed_zebra"
    assert "cannot be had (BadRequestError)" in notes[0]
    endpoint.status = 200
    assert ask(workspace, settings).found.encoded == 2
    endpoint.status = 401
    found, notes = ask(workspace, settings)
    assert found.hits[0].why == ("words",)
    assert len(notes) == 1
    assert notes[0].startswith("by words alone: the embeddings of 'tiny' cannot be had")


def test_name_of_the_vectors_tells_endpoints_apart_and_holds_no_secret() -> None:
    names = [
        encoder_of(load_settings(embeddings="m", embeddings_base_url=url)).name
        for url in ("http://me:secret@one/v1", "http://two:80/v1")
    ]
    assert names == ["m@one/v1-words1", "m@two:80/v1-words1"]
    assert encoder_of(load_settings(embeddings="m")).name == "m@api.openai.com-words1"
    local = find_encoder(load_settings())
    assert local is None or local.name == MINILM


def test_any_langchain_embeddings_fit(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_embeddings")
    module.fake = DeterministicFakeEmbedding(size=8)  # type: ignore[attr-defined]
    module.wrong = 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_embeddings", module)
    found, notes = ask(workspace, load_settings(embeddings="python:my_embeddings:fake"))
    assert (found.encoded, notes) == (2, [])
    for reference, word in (("my_embeddings:wrong", "is no LangChain"), ("no_such:x", "ModuleNotFoundError")):
        encoder = encoder_of(load_settings(embeddings=f"python:{reference}"))
        with pytest.raises(EncoderError, match=word):
            encoder.embeddings.embed_query("a")


def test_vector_without_direction_is_refused(endpoint: Endpoint, home: Path, workspace: Workspace) -> None:
    endpoint.letters = ""
    with Indexes(home, workspace.root).open(None) as index:
        with pytest.raises(EncoderError, match="holds no numbers"):
            refresh_index(index, workspace, find_encoder(settings_for(endpoint)))
        assert index.count("chunks") == 2
