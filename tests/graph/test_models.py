"""Which model a name means, and what its failures say to the person who runs it."""

import socket
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage
from tests.model_server import ModelServer

from lockstitch.graph.models.choice import DEFAULT_OPENAI_MODEL, ModelChoice, choose_model, parse_model
from lockstitch.graph.models.failure import explain_failure
from lockstitch.graph.models.scenario import Scenario
from lockstitch.graph.models.source import ConfiguredModels
from lockstitch.state.errors import ModelError, NoModelError, SettingsError
from lockstitch.state.settings import Settings, load_settings

CANARY = "sk-canary-0123456789abcdef"
PLAIN_CANARY = "canaryWithoutAnyPrefix42"
SCHEMA = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {}}}


@pytest.mark.parametrize(
    ("text", "provider", "name"),
    [
        ("gpt-5", "openai", "gpt-5"),
        ("qwen3:8b", "openai", "qwen3:8b"),
        ("openai:qwen3:8b", "openai", "qwen3:8b"),
        ("openai:gpt-5", "openai", "gpt-5"),
        ("anthropic:claude-x", "anthropic", "claude-x"),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("scripted:/a/b.yaml", "scripted", "/a/b.yaml"),
        ("scripted:C:/b.yaml", "scripted", "C:/b.yaml"),
        ("scripted:demo", "scripted", "demo"),
        ("meta-llama/Llama-3:free", "openai", "meta-llama/Llama-3:free"),
        ("anthropic:", "openai", "anthropic:"),
        ("anthropic", "openai", "anthropic"),
        ("Anthropic:claude-x", "openai", "Anthropic:claude-x"),
    ],
)
def test_a_name_is_read_as_provider_and_model(text: str, provider: str, name: str) -> None:
    choice = parse_model(text)
    assert (choice.provider, choice.name) == (provider, name)
    assert parse_model(str(choice)) == choice


KEY, URL = {"openai_api_key": "k"}, {"openai_base_url": "http://127.0.0.1:9/v1"}
MODEL = {"model": "set"}


@pytest.mark.parametrize(
    ("settings", "asked", "expected"),
    [
        ({}, None, None),
        (KEY, None, DEFAULT_OPENAI_MODEL),
        (URL, None, None),
        (KEY | URL, None, None),
        (MODEL, None, None),
        (MODEL | KEY, None, "set"),
        (MODEL | URL, None, "set"),
        (MODEL | KEY | URL, None, "set"),
        ({}, "asked", None),
        (KEY, "asked", "asked"),
        (URL, "asked", "asked"),
        (KEY | URL, "asked", "asked"),
        (MODEL | KEY, "asked", "asked"),
        (MODEL | KEY | URL, "asked", "asked"),
        ({}, "anthropic:claude-x", "anthropic:claude-x"),
        (MODEL | KEY, "scripted:demo", "scripted:demo"),
        ({"model": "scripted:demo"}, None, "scripted:demo"),
    ],
)
def test_the_model_of_a_run(settings: dict[str, str], asked: str | None, expected: str | None) -> None:
    made = load_settings(**settings)
    if expected is None:
        with pytest.raises(NoModelError):
            choose_model(asked, made)
    else:
        assert str(choose_model(asked, made)) == expected


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NoModelError, match="OPENAI_API_KEY"):
        choose_model(None, load_settings())
    with pytest.raises(NoModelError, match="LOCKSTITCH_MODEL or --model"):
        choose_model(None, load_settings(**URL))


def response(status: int, key: str = CANARY) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Response(status, request=httpx.Request("POST", "http://a/v1/chat", headers=headers))


def failed(kind: type[openai.APIStatusError], status: int, text: str, key: str = CANARY) -> Exception:
    return kind(text, response=response(status, key), body={"message": text, "code": "x"})


REQUEST = response(200).request
SAID = f"Incorrect API key provided: {CANARY}"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (failed(openai.AuthenticationError, 401, SAID), "Set OPENAI_API_KEY"),
        (failed(openai.PermissionDeniedError, 403, SAID), "may not use this model"),
        (failed(openai.NotFoundError, 404, SAID), "Check --model and OPENAI_BASE_URL"),
        (failed(openai.RateLimitError, 429, SAID), "rate limit or quota"),
        (failed(openai.BadRequestError, 400, SAID), "refused the request: Incorrect API key"),
        (failed(openai.UnprocessableEntityError, 422, SAID), "answered 422: Incorrect API key"),
        (failed(openai.APIStatusError, 413, SAID), "too large"),
        (failed(openai.InternalServerError, 500, SAID), "failed (500). Try again later"),
        (failed(openai.InternalServerError, 529, SAID), "failed (529). Try again later"),
        (openai.APIConnectionError(message=SAID, request=REQUEST), "cannot be reached"),
        (openai.APITimeoutError(REQUEST), "no answer in time"),
        (TimeoutError(CANARY), "no answer in time"),
        (ConnectionResetError(CANARY), "cannot be reached"),
        (httpx.ConnectError(CANARY), "cannot be reached"),
        (httpx.ReadTimeout(CANARY), "no answer in time"),
        (RuntimeError(CANARY), "the model client failed (RuntimeError)"),
    ],
)
def test_a_failure_says_what_to_do_and_never_the_key(error: Exception, words: str) -> None:
    message = explain_failure(error, ModelChoice("openai", "gpt-5")).message
    assert message.startswith("gpt-5: ")
    assert words in message
    assert CANARY not in message
    assert "\n" not in message
    assert message.endswith("The thread is kept and can go on.")


def test_a_key_of_any_shape_that_the_endpoint_repeats_is_masked() -> None:
    error = failed(openai.BadRequestError, 400, f"bad key {PLAIN_CANARY}, sorry", key=PLAIN_CANARY)
    message = explain_failure(error, ModelChoice("openai", "m")).message
    assert PLAIN_CANARY not in message
    assert "bad key ***, sorry" in message


def test_the_endpoints_own_words_are_one_short_line_whatever_they_hold() -> None:
    error = failed(openai.BadRequestError, 400, "no {tools}\n\n here " + "x" * 999)
    message = explain_failure(error, ModelChoice("openai", "m")).message
    assert "no {tools} here xxx" in message
    assert len(message) < 400


@pytest.mark.parametrize("body", [None, "text", {"message": 7}, {"error": "x"}, ["a"]])
def test_a_body_of_another_shape_adds_nothing(body: object) -> None:
    error = openai.BadRequestError("x", response=response(400), body=body)
    assert "refused the request. Check" in explain_failure(error, ModelChoice("openai", "m")).message


def test_another_providers_key_is_not_called_openais() -> None:
    error = failed(openai.AuthenticationError, 401, "no")
    assert "OPENAI_API_KEY" not in explain_failure(error, ModelChoice("anthropic", "c")).message


def scenario(*turns: dict[str, Any]) -> Scenario:
    return Scenario.model_validate({"name": "m", "turns": turns})


def at(server: ModelServer, **more: Any) -> Settings:
    given = {"openai_base_url": server.base_url, "openai_api_key": CANARY, "model": "m", "model_retries": 0}
    return load_settings(**(given | more))


async def ask(settings: Settings) -> Any:
    return await ConfiguredModels(settings).open(None).ask([HumanMessage("go")], tools=[SCHEMA])


async def test_a_refused_key_is_said_by_a_real_client() -> None:
    with ModelServer(scenario({"say": "hi"}), key="another") as server:
        with pytest.raises(ModelError, match=r"refused the key \(401\)") as caught:
            await ask(at(server))
        assert CANARY not in caught.value.message


async def test_an_endpoint_that_is_down_is_said_by_a_real_client() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"  # bound, and nobody listens
        settings = load_settings(openai_base_url=closed, model="m", model_retries=0)
        with pytest.raises(ModelError, match="cannot be reached"):
            await ask(settings)


@pytest.mark.parametrize(
    ("status", "words"),
    [(400, "failure on purpose"), (404, "no such model"), (429, "quota"), (503, "Try again later")],
)
async def test_each_refusal_is_said_by_a_real_client(status: int, words: str) -> None:
    with (
        ModelServer(scenario({"fail": {"status": status}})) as server,
        pytest.raises(ModelError, match=words),
    ):
        await ask(at(server))


async def test_a_slow_endpoint_is_given_up_after_the_timeout() -> None:
    with (
        ModelServer(scenario({"say": "late"}), delay_s=60) as server,
        pytest.raises(ModelError, match="MODEL_TIMEOUT_S"),
    ):
        await ask(at(server, model_timeout_s=0.05))


async def test_a_passing_failure_is_tried_again_as_often_as_set() -> None:
    with ModelServer(scenario({"say": "hi", "fail": {"status": 429}})) as server:
        assert (await ask(at(server, model_retries=1))).text == "hi"
        assert server.requests == 2


async def test_streamed_or_not_the_reply_is_the_same() -> None:
    calls = [{"tool": "look", "args": {"path": "ä/" + "x" * 50}, "id": "c1"}, {"tool": "look", "id": "c2"}]
    seen = []
    with ModelServer(scenario({"say": "I look, ünïcode.", "calls": calls})) as server:
        for stream in (False, True):
            reply = await ask(at(server, stream=stream))
            usage = reply.usage_metadata
            seen.append((reply.text, reply.tool_calls, reply.invalid_tool_calls, usage["output_tokens"]))
    assert seen[0] == seen[1]
    assert [one["id"] for one in seen[0][1]] == ["c1", "c2"]


async def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    with ModelServer(scenario({"say": "hi"})) as server:
        assert (await ask(at(server, openai_api_key=None))).text == "hi"


async def test_temperature_is_sent_when_set_and_left_out_otherwise() -> None:
    with ModelServer(scenario({"say": "1"}, {"say": "2"}), keep_bodies=True) as server:
        models = ConfiguredModels(at(server))
        for temperature in (None, 0.0):
            await models.open(None, temperature=temperature).ask([HumanMessage("go")])
    assert [body.get("temperature") for body in server.bodies] == [None, 0.0]


@pytest.mark.parametrize("provider", ["anthropic", "google_genai"])
def test_a_missing_provider_package_names_what_to_install(provider: str) -> None:
    words = f"pip install langchain langchain-{provider.replace('_', '-')}"
    with pytest.raises(NoModelError, match=words):
        ConfiguredModels(load_settings()).open(f"{provider}:some-model")


def test_a_model_is_built_once_for_each_choice_and_temperature(tmp_path: Path) -> None:
    models = ConfiguredModels(load_settings(model="scripted:demo", temperature=0.5))
    opened = models.open(None)
    assert models.open("scripted:demo", temperature=0.5) is opened
    assert models.open(None, temperature=0.1) is not opened
    assert opened.name == "scripted:demo"


def test_a_scenario_that_is_not_there_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent.yaml cannot be read"):
        ConfiguredModels(load_settings()).open(f"scripted:{tmp_path / 'absent.yaml'}")
