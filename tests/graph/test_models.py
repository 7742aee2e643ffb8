"""Which model a name means, and what its failures say to the person who runs it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import HumanMessage
from pydantic import SecretStr
from tests.model_server import ModelServer

from lockstitch.graph.models.build import ModelOptions, build_chat_model
from lockstitch.graph.models.choice import ModelChoice, choose_model, find_model, parse_model
from lockstitch.graph.models.failure import explain_failure
from lockstitch.graph.models.scenario import Scenario
from lockstitch.graph.models.source import ConfiguredModels
from lockstitch.graph.models.spent import spent_of
from lockstitch.graph.models.wish import ModelWish, Tier
from lockstitch.state.errors import ModelError, NoModelError, SettingsError
from lockstitch.state.settings import Settings, load_settings

LOOKS = """
import sys
from lockstitch.graph.models.build import ModelOptions, build_chat_model
from lockstitch.graph.models.choice import ModelChoice
from lockstitch.state.settings import Settings
build_chat_model(ModelChoice("openai", "m"), ModelOptions(), Settings())
print("aiohttp" in sys.modules)
import aiohttp
"""
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
        (KEY, None, "gpt-5-mini"),
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


TIERED = {"model_fast": "small", "model_powerful": "large"}


@pytest.mark.parametrize(
    ("settings", "asked", "names", "origins"),
    [
        (KEY, None, "gpt-5-nano gpt-5-mini gpt-5", ["default"] * 3),
        (KEY | MODEL, None, "set set set", ["setting model"] * 3),
        (
            KEY | MODEL | TIERED,
            None,
            "small set large",
            ["setting model_fast", "setting model", "setting model_powerful"],
        ),
        (
            KEY | MODEL | {"model_fast": "small"},
            None,
            "small set set",
            ["setting model_fast", "setting model", "setting model"],
        ),
        (
            KEY | TIERED,
            None,
            "small gpt-5-mini large",
            ["setting model_fast", "default", "setting model_powerful"],
        ),
        (KEY | MODEL | TIERED, "one", "one one one", ["asked"] * 3),
    ],
)
def test_each_tier_means_a_model_and_says_where_its_name_comes_from(
    settings: dict[str, str], asked: str | None, names: str, origins: list[str]
) -> None:
    tiers: tuple[Tier, ...] = ("fast", "balanced", "powerful")
    found = [find_model(asked, load_settings(**settings), tier=tier) for tier in tiers]
    assert " ".join(str(choice) for choice, _ in found) == names
    assert [origin for _, origin in found] == origins


def test_a_tier_without_a_model_at_an_endpoint_of_ones_own_names_what_to_set() -> None:
    settings = load_settings(**URL, model_fast="small")
    assert str(choose_model(None, settings, tier="fast")) == "small"
    with pytest.raises(NoModelError, match="LOCKSTITCH_MODEL or --model"):
        choose_model(None, settings, tier="balanced")


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
        (failed(openai.APIStatusError, 413, SAID), "longer than the model can read"),
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


async def ask(settings: Settings, *, stream: bool = False) -> Any:
    model = ConfiguredModels(settings).open(ModelWish(stream=stream))
    return await model.ask([HumanMessage("go")], tools=[SCHEMA])


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
            reply = await ask(at(server), stream=stream)
            usage = reply.usage_metadata
            seen.append((reply.text, reply.tool_calls, reply.invalid_tool_calls, usage["output_tokens"]))
    assert seen[0] == seen[1]
    assert [one["id"] for one in seen[0][1]] == ["c1", "c2"]


async def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    with ModelServer(scenario({"say": "hi"})) as server:
        assert (await ask(at(server, openai_api_key=None))).text == "hi"


async def bodies_of(settings: Settings, server: ModelServer, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """The requests of one run: each call is the arguments of `open`."""
    models = ConfiguredModels(settings)
    for call in calls:
        await models.open(**({"wish": ModelWish()} | call)).ask([HumanMessage("go")])
    return server.bodies


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(scenario(*({"say": "hi"} for _ in range(9))), keep_bodies=True) as listening:
        yield listening


def write(home: Path, file: str, text: str) -> None:
    (home / file).write_text(text, encoding="utf-8")


async def test_nothing_is_sent_that_nobody_asked_for(server: ModelServer) -> None:
    (body,) = await bodies_of(at(server), server, {})
    assert body.keys() <= {"model", "messages", "stream"}


async def test_two_tiers_in_one_run_get_their_models_and_options(server: ModelServer, home: Path) -> None:
    write(home, "models.toml", '[models.large]\nreply = 500\nefforts = ["low"]\n')
    write(
        home,
        "presets.toml",
        """
        [mine]
        tiers = { plan = "powerful", sum_up = "fast" }
        tools = { read_file = "fast" }
        temperature = 0.3
        reply_tokens = 700
        reasoning_effort = "low"
        """,
    )
    settings = at(server, preset="mine", model="middle", **TIERED)
    calls: list[dict[str, Any]] = [
        {"phase": "plan"},
        {"phase": "plan", "after": ["read_file"]},
        {"phase": "plan", "after": ["read_file", "edit_file"]},
        {"phase": "observe"},
        {"phase": "sum_up"},
    ]
    sent = await bodies_of(settings, server, *calls)
    assert [body["model"] for body in sent] == ["large", "small", "large", "middle", "small"]
    assert {body["temperature"] for body in sent} == {0.3}
    assert [body["max_completion_tokens"] for body in sent] == [500, 700, 500, 700, 700]
    assert [body.get("reasoning_effort") for body in sent] == ["low", None, "low", None, None]


async def test_the_run_wins_over_the_settings_and_they_over_the_preset(
    server: ModelServer, home: Path
) -> None:
    write(
        home,
        "presets.toml",
        '[mine]\ntemperature = 0.3\nreply_tokens = 700\nreasoning_effort = "low"\nfallbacks = ["x"]\n',
    )
    settings = at(server, preset="mine", temperature=0.2, reply_tokens=600, reasoning_effort="high")
    wishes = [ModelWish(), ModelWish(temperature=0.0), ModelWish(model="one", preset="fast")]
    sent = await bodies_of(settings, server, *({"wish": wish} for wish in wishes))
    assert [body["temperature"] for body in sent] == [0.2, 0.0, 0.2]
    assert {body["max_completion_tokens"] for body in sent} == {600}
    assert {body["reasoning_effort"] for body in sent} == {"high"}
    assert [body["model"] for body in sent] == ["m", "m", "one"]


@pytest.mark.parametrize("provider", ["anthropic", "google_genai"])
def test_a_missing_provider_package_names_what_to_install(provider: str) -> None:
    words = f"pip install langchain langchain-{provider.replace('_', '-')}"
    with pytest.raises(NoModelError, match=words):
        ConfiguredModels(load_settings()).open(ModelWish(model=f"{provider}:some-model"))


def test_a_model_is_built_once_for_each_choice_and_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []

    def build(choice: ModelChoice, options: ModelOptions, *more: Any, **rest: Any) -> Any:
        built.append((str(choice), options.temperature))
        return build_chat_model(choice, options, *more, **rest)

    monkeypatch.setattr("lockstitch.graph.models.source.build_chat_model", build)
    models = ConfiguredModels(load_settings(model="scripted:demo", temperature=0.5))
    for wish in (ModelWish(), ModelWish(model="scripted:demo", temperature=0.5), ModelWish(preset="fast")):
        assert models.open(wish).name == "scripted:demo"
    models.open(ModelWish(temperature=0.1))
    assert built == [("scripted:demo", 0.5), ("scripted:demo", 0.1)]


def test_a_scenario_that_is_not_there_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent.yaml cannot be read"):
        ConfiguredModels(load_settings()).open(ModelWish(model=f"scripted:{tmp_path / 'absent.yaml'}"))


def test_an_unknown_preset_is_the_default_and_a_word() -> None:
    models = ConfiguredModels(load_settings(**KEY, preset="wild"))
    assert models.open(ModelWish()).name == "gpt-5-mini"
    (word,) = models.notices(ModelWish())
    assert "no preset 'wild'" in word
    assert "uses 'balanced'" in word
    assert "thrifty" in word
    assert models.notices(ModelWish(preset="fast")) == []
    assert ConfiguredModels(load_settings(**KEY)).notices(ModelWish()) == []


def test_a_preset_adds_its_words_to_the_system_prompt(home: Path) -> None:
    write(home, "presets.toml", '[terse]\nsystem_prompt = "Say less."\n')
    models = ConfiguredModels(load_settings(**KEY))
    assert models.system_prompt(ModelWish(preset="terse")) == "Say less."
    assert models.system_prompt(ModelWish()) == ""


@pytest.mark.parametrize(
    ("settings", "wish", "expected"),
    [
        ({}, ModelWish(), "m"),
        ({"fallback_models": "a,m,b,a"}, ModelWish(), "m a b"),
        ({"fallback_models": "a"}, ModelWish(preset="mine"), "m x y"),
        ({"fallback_models": "a"}, ModelWish(model="a"), "a"),
        ({"fallback_models": "anthropic:c"}, ModelWish(), "m anthropic:c"),
    ],
)
def test_the_chain_is_the_model_and_its_fallbacks_each_once(
    home: Path, settings: dict[str, str], wish: ModelWish, expected: str
) -> None:
    write(home, "presets.toml", '[mine]\nfallbacks = ["x", "y", "x"]\n')
    models = ConfiguredModels(load_settings(**KEY, model="m", **settings))
    assert " ".join(map(str, models.chain(wish, "balanced"))) == expected


def test_what_is_known_of_a_model_comes_from_the_tables_then_from_langchain(home: Path) -> None:
    write(home, "models.toml", "[models.mine]\nwindow = 1234\n")
    models = ConfiguredModels(load_settings(**KEY))
    assert models.facts(parse_model("mine")).window == 1234
    assert models.facts(parse_model("gpt-4-turbo")).window == 128_000  # in langchain-openai's own profiles
    unknown = models.facts(parse_model("nobody-knows"))
    assert (unknown.window, unknown.price) == (None, None)


def test_a_window_that_is_set_is_every_models_window() -> None:
    models = ConfiguredModels(load_settings(**KEY, context_window=9000))
    assert {models.facts(parse_model(name)).window for name in ("gpt-5", "nobody-knows")} == {9000}


async def test_a_runs_own_key_is_the_one_that_is_sent() -> None:
    with ModelServer(scenario({"say": "hi"}), key="own") as server:
        models = ConfiguredModels(at(server), api_key=SecretStr("own"))
        reply = await models.open(ModelWish()).ask([HumanMessage("go")], tools=[SCHEMA])
        assert reply.text == "hi"


async def test_an_address_of_a_runs_own_never_gets_the_operators_key() -> None:
    with ModelServer(scenario({"say": "hi"}), key=CANARY) as server:
        settings = load_settings(**MODEL, openai_api_key=CANARY, model_retries=0)
        models = ConfiguredModels(settings, base_url=server.base_url)
        with pytest.raises(ModelError, match="refused the key"):
            await models.open(ModelWish()).ask([HumanMessage("go")])


def test_another_providers_model_is_not_asked_at_an_address_of_a_runs_own() -> None:
    models = ConfiguredModels(load_settings(**KEY), base_url="http://127.0.0.1:9/v1")
    with pytest.raises(NoModelError, match="leave out the address or the model"):
        models.open(ModelWish(model="anthropic:claude-x"))


def test_a_runs_own_key_goes_to_one_provider_alone() -> None:
    settings = load_settings(
        **KEY, model="m", model_fast="anthropic:small", fallback_models="anthropic:c,openai:other"
    )
    own = ConfiguredModels(settings, api_key=SecretStr("own"))
    assert " ".join(map(str, own.chain(ModelWish(), "balanced"))) == "m other"
    assert " ".join(map(str, own.chain(ModelWish(), "fast"))) == "m other"
    assert " ".join(map(str, ConfiguredModels(settings).chain(ModelWish(), "fast"))).startswith("anthropic:")


def test_a_key_is_nowhere_to_be_read() -> None:
    models = ConfiguredModels(load_settings(**MODEL), api_key=SecretStr(CANARY))
    port = models.open(ModelWish())
    link = next(iter(models._links.values()))
    for shown in (models, vars(models), port, vars(port), link, vars(link.port), link.port._model):
        assert CANARY not in repr(shown)
        assert CANARY not in str(shown)


async def test_a_reply_costs_what_the_persons_table_says(server: ModelServer, home: Path) -> None:
    write(home, "models.toml", "[models.m]\nprice = { input = 1_000_000, output = 0 }\n")
    reply = await ask(at(server))
    assert spent_of([reply]).cost_usd == reply.usage_metadata["input_tokens"]
    assert spent_of([await ask(at(server, model="nobody-knows"))]).cost_usd is None


def test_a_model_is_built_without_what_it_does_not_use_which_others_may_load_later() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
