import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.model_server import ModelServer

from lockstitch.graph.models.scenario import Scenario

Lockstitch = Callable[..., Any]
CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    scenario = Scenario.model_validate({"name": "served-\x1b[2J-model", "turns": [{"say": "hi"}]})
    with ModelServer(scenario, key=CANARY) as listening:
        yield listening


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


def words_of(done: Any) -> str:
    """The output with its lines joined: where they break is not what is tested."""
    assert (done.code, done.err) == (0, "")
    assert CANARY not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    return " ".join(done.out.split())


def test_without_a_key_it_says_what_to_set_and_lists_the_presets(lockstitch: Lockstitch):
    words = words_of(lockstitch("models"))
    assert words.count("no model is configured. Set OPENAI_API_KEY") == 1
    for name in ("* balanced", "fast", "powerful", "thrifty"):
        assert f"{name} The " in words


@pytest.mark.usefixtures("key")
def test_with_a_key_alone_each_tier_has_a_default_with_its_window_and_price(lockstitch: Lockstitch):
    words = words_of(lockstitch("models"))
    assert (
        "balanced gpt-5-mini (default) window 272,000; $0.25 in, $0.025 cached, $2 out per million" in words
    )
    assert "fast gpt-5-nano (default)" in words
    assert "powerful gpt-5 (default)" in words
    assert "When a model cannot be reached: none" in words
    assert "the provider's bill counts" in words


@pytest.mark.usefixtures("key")
def test_settings_and_the_persons_files_are_shown(
    lockstitch: Lockstitch, home: Path, monkeypatch: pytest.MonkeyPatch
):
    (home / "presets.toml").write_text('[mine]\ndescription = "My own."\ntemperature = 0.5\n')
    for name, value in {
        "MODEL": "qwen3:8b",
        "MODEL_FAST": "gpt-6-luna-2026-09-22",
        "PRESET": "mine",
        "FALLBACK_MODELS": "a,b",
    }.items():
        monkeypatch.setenv(f"LOCKSTITCH_{name}", value)
    words = words_of(lockstitch("models"))
    assert "balanced qwen3:8b (setting model) window unknown, taken as 128,000; price unknown" in words
    assert "fast gpt-6-luna-2026-09-22 (setting model_fast)" in words
    assert "with more than 272,000 tokens in $0.2 in, $0.02 cached, $0.75 out" in words
    assert "* mine My own." in words
    assert "temperature 0.5" in words
    assert "When a model cannot be reached: a, b." in words


def test_a_scripted_model_is_free(lockstitch: Lockstitch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCKSTITCH_MODEL", "scripted:demo")
    assert "scripted:demo (setting model) window unknown, taken as 128,000; free" in words_of(
        lockstitch("models")
    )


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("name", ["anthropic:claude-x", "scripted:/no/such/file.yaml"])
def test_a_tier_that_cannot_be_opened_says_why_and_the_others_are_shown(
    lockstitch: Lockstitch, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("LOCKSTITCH_MODEL_POWERFUL", name)
    words = words_of(lockstitch("models"))
    assert "pip install langchain" in words or "cannot be read" in words
    assert "balanced gpt-5-mini (default)" in words


@pytest.mark.usefixtures("key")
def test_an_unknown_preset_is_said(lockstitch: Lockstitch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCKSTITCH_PRESET", "wild\x1b[2J")
    done = lockstitch("models")
    assert "There is no preset" in words_of(done)
    assert "* balanced" in done.out
    assert "\x1b" not in done.out


@pytest.mark.usefixtures("key")
def test_json_holds_all_of_it(lockstitch: Lockstitch):
    done = lockstitch("models", "--json")
    body = json.loads(done.out)
    assert body.keys() == {"tiers", "preset", "presets", "fallbacks", "notices", "prices_as_of"}
    assert [tier["tier"] for tier in body["tiers"]] == ["fast", "balanced", "powerful"]
    assert body["tiers"][1]["model"] == "gpt-5-mini"
    assert body["tiers"][1]["origin"] == "default"
    assert body["tiers"][1]["facts"]["price"]["input"] == 0.25
    assert body["preset"] == "balanced"
    assert body["presets"]["thrifty"]["tools"]["read_file"] == "fast"
    assert CANARY not in done.out


@pytest.mark.parametrize("file", ["presets.toml", "models.toml"])
def test_a_broken_file_is_wrong_usage_that_names_it(lockstitch: Lockstitch, home: Path, file: str):
    (home / file).write_text("[broken\n")
    done = lockstitch("models")
    assert done.code == 2
    assert done.err.startswith(f"lockstitch: {file} in the home folder is no valid TOML")


def test_the_endpoint_is_asked_what_it_serves(
    lockstitch: Lockstitch, server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    done = lockstitch("models", "--remote")
    assert (done.code, done.out) == (0, "served-\\x1b[2J-model\n")
    assert json.loads(lockstitch("models", "--remote", "--json").out) == {"served": ["served-\x1b[2J-model"]}


def test_a_refused_key_is_said(lockstitch: Lockstitch, server: ModelServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-0123456789")
    done = lockstitch("models", "--remote")
    assert done.code == 9
    assert "the endpoint refused the key (401). Set OPENAI_API_KEY to a valid one." in done.err
    assert "sk-another" not in done.err


def test_an_address_that_is_none_of_an_api_is_said(
    lockstitch: Lockstitch, server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    done = lockstitch("models", "--remote")
    assert done.code == 9
    assert "has no list of models (404). Check OPENAI_BASE_URL" in done.err


def test_an_endpoint_that_is_down_is_said(lockstitch: Lockstitch, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        done = lockstitch("models", "--remote")
    assert done.code == 9
    assert "cannot be reached" in done.err


def test_with_nobody_to_ask_it_says_what_to_set(lockstitch: Lockstitch):
    done = lockstitch("models", "--remote")
    assert done.code == 2
    assert "Set OPENAI_API_KEY" in done.err


def test_a_presets_fallbacks_are_listed_as_names(lockstitch: Lockstitch, home: Path):
    (home / "presets.toml").write_text('[mine]\nfallbacks = ["b", "c"]\ntemperature = 0\n')
    assert "temperature 0.0, fallbacks b, c" in words_of(lockstitch("models"))
