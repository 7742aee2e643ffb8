"""What is known of a model by its name, and what a reply costs by that."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.models.catalogue import (
    Catalogue,
    ModelFacts,
    cost_usd,
    default_model,
    load_catalogue,
)
from lockstitch.graph.models.table_file import shipped_tables
from lockstitch.state.errors import SettingsError

COUNTS = st.integers(min_value=0, max_value=10_000_000)


def usage(sent: int, said: int, **details: int) -> Any:
    return {
        "input_tokens": sent,
        "output_tokens": said,
        "total_tokens": sent + said,
        "input_token_details": details,
    }


def priced(**rates: Any) -> ModelFacts:
    return ModelFacts.model_validate({"price": {"input": 2.0, "output": 10.0, **rates}})


def loaded(home: Path, text: str) -> Catalogue:
    (home / "models.toml").write_text(text, encoding="utf-8")
    return load_catalogue(home)


@pytest.mark.parametrize(
    ("facts", "used", "expected"),
    [
        (priced(), usage(1_000_000, 0), 2.0),
        (priced(), usage(0, 1_000_000), 10.0),
        (priced(cached=0.2), usage(1_000_000, 0, cache_read=600_000), 0.4 * 2.0 + 0.6 * 0.2),
        (priced(), usage(1_000_000, 0, cache_read=600_000), 2.0),
        (priced(cached=0.0), usage(1_000_000, 0, cache_read=1_000_000), 0.0),
        (priced(cache_write=2.5), usage(1_000_000, 0, cache_creation=400_000), 0.6 * 2.0 + 0.4 * 2.5),
        (priced(), usage(1_000_000, 0, cache_creation=400_000), 2.0),
        (
            priced(cached=0.2, cache_write=2.5),
            usage(1_000_000, 100_000, cache_read=500_000, cache_creation=300_000),
            0.2 * 2.0 + 0.5 * 0.2 + 0.3 * 2.5 + 0.1 * 10.0,
        ),
        (priced(), usage(100, 0, cache_read=500), 500 * 2.0 / 1_000_000),  # an endpoint that counts otherwise
        (priced(), usage(0, 0), 0.0),
    ],
)
def test_a_reply_costs_what_its_tokens_cost(facts: ModelFacts, used: Any, expected: float) -> None:
    assert cost_usd(used, facts) == pytest.approx(expected)


def test_reasoning_is_part_of_the_output_and_not_counted_twice() -> None:
    used = usage(0, 1_000_000) | {"output_token_details": {"reasoning": 900_000}}
    assert cost_usd(used, priced()) == pytest.approx(10.0)


def test_a_long_prompt_makes_the_whole_request_dearer() -> None:
    facts = priced(long={"over": 200_000, "input": 4.0, "output": 15.0})
    assert cost_usd(usage(200_000, 1_000), facts) == pytest.approx(0.4 + 0.01)
    assert cost_usd(usage(200_001, 1_000), facts) == pytest.approx(0.800004 + 0.015)


def test_what_is_unknown_costs_an_unknown_sum() -> None:
    assert cost_usd(usage(1, 1), ModelFacts()) is None
    assert cost_usd(None, priced()) is None


@given(fresh=COUNTS, read=COUNTS, said=COUNTS)
def test_a_cache_never_makes_a_reply_dearer(fresh: int, read: int, said: int) -> None:
    facts = priced(cached=0.2)
    cached = cost_usd(usage(fresh + read, said, cache_read=read), facts)
    plain = cost_usd(usage(fresh + read, said), facts)
    assert cached is not None
    assert plain is not None
    assert 0 <= cached <= plain + 1e-9


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("gpt-5-mini", "gpt-5-mini"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-5-mini-20250807", "gpt-5-mini"),
        ("gpt-5-mini@20250807", "gpt-5-mini"),
        ("gpt-5-mini-latest", "gpt-5-mini"),
        ("gpt-5-pro", None),  # twelve times the price of gpt-5
        ("gpt-5-chat-latest", None),
        ("gpt-5-minimal", None),
        ("my-gpt-5", None),
        ("qwen3:8b", None),
    ],
)
def test_a_dated_name_has_the_facts_of_its_model_and_no_other_name_has(
    home: Path, name: str, known_as: str | None
) -> None:
    catalogue = load_catalogue(home)
    assert catalogue.facts(name) == (catalogue.models[known_as] if known_as else ModelFacts())


def test_a_scripted_model_costs_nothing(home: Path) -> None:
    facts = load_catalogue(home).facts("scripted:demo")
    assert cost_usd(usage(1_000_000, 1_000_000), facts) == 0


def test_our_own_table_holds_together(home: Path) -> None:
    catalogue = load_catalogue(home)
    assert catalogue.as_of
    for name, facts in catalogue.models.items():
        assert facts.window, name
        assert facts.reply, name
        assert facts.price, name
        assert (facts.price.cached or 0) < facts.price.input < facts.price.output, name
    for tier in ("fast", "balanced", "powerful"):
        assert default_model(tier) in catalogue.models


def test_a_persons_file_adds_models(home: Path) -> None:
    catalogue = loaded(home, '[models."qwen3:8b"]\nwindow = 40_960\nprice = { input = 0, output = 0 }\n')
    facts = catalogue.facts("qwen3:8b")
    assert facts.window == 40_960
    assert cost_usd(usage(5, 5), facts) == 0
    assert catalogue.facts("gpt-5").price


def test_a_persons_file_changes_single_fields_of_ours(home: Path) -> None:
    before = load_catalogue(home).facts("gpt-5")
    after = loaded(home, 'as_of = "2031"\n[models.gpt-5]\nwindow = 1000\n')
    assert after.facts("gpt-5") == before.model_copy(update={"window": 1000})
    assert after.as_of == "2031"
    assert shipped_tables("models.toml")["models"]["gpt-5"]["window"] == before.window


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[models.m]\nwindow = 0\n", ("'m'", "window: ")),
        ("[models.m]\nwidth = 1\n", ("'m'", "width: there is no such field")),
        ("[models.m]\nprice = { input = 1 }\n", ("'m'", "price.output: ")),
        ("[models.m]\nprice = { input = -1, output = 1 }\n", ("price.input: ",)),
        ("[models.m]\nprice = { input = nan, output = 1 }\n", ("price.input: ",)),
        ("[models.m]\nprice = { input = inf, output = 1 }\n", ("price.input: ",)),
        ("[m]\nwindow = 1\n", ("no such field as 'm'", "[models.")),
        ("models = 3\n", ("[models.",)),
        ("[models]\nm = 3\n", ("[models.",)),
        ("[models.m\n", ("no valid TOML", "line 1")),
    ],
)
def test_a_file_that_does_not_fit_is_a_wrong_setting_that_names_the_place(
    home: Path, text: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError, match=r"^models.toml in the home folder") as caught:
        loaded(home, text)
    for word in words:
        assert word in caught.value.message


def test_a_file_that_is_no_text_or_no_file_is_a_wrong_setting(home: Path) -> None:
    (home / "models.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="no valid TOML"):
        load_catalogue(home)
    (home / "models.toml").unlink()
    (home / "models.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_catalogue(home)
