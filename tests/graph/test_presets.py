"""Presets: which tier a call gets, ours and a person's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.models.presets import TIERS, Preset, load_presets
from lockstitch.graph.models.wish import Phase, Tier
from lockstitch.state.errors import SettingsError
from lockstitch.state.settings import load_settings
from lockstitch.tools.catalog import build_registry


def loaded(home: Path, text: str) -> dict[str, Preset]:
    (home / "presets.toml").write_text(text, encoding="utf-8")
    return load_presets(home)


@pytest.mark.parametrize(
    ("name", "phase", "tier"),
    [
        ("balanced", "plan", "balanced"),
        ("balanced", "compact", "balanced"),
        ("fast", "plan", "fast"),
        ("fast", "sum_up", "fast"),
        ("powerful", "plan", "powerful"),
        ("powerful", "observe", "powerful"),
        ("powerful", "compact", "balanced"),
        ("thrifty", "plan", "powerful"),
        ("thrifty", "compact", "fast"),
    ],
)
def test_our_presets(home: Path, name: str, phase: Phase, tier: Tier) -> None:
    assert load_presets(home)[name].tier(phase) == tier


@pytest.mark.parametrize(
    ("after", "tier"),
    [
        ([], "powerful"),
        (["read_file"], "fast"),
        (["read_file", "grep_files"], "fast"),
        (["edit_file"], "powerful"),
        (["read_file", "edit_file"], "powerful"),
        (["read_file", "request_input"], "balanced"),
        (["no_such_tool"], "powerful"),
    ],
)
def test_the_strongest_tier_of_the_tools_that_were_called_counts(after: list[str], tier: Tier) -> None:
    preset = Preset.model_validate(
        {
            "tiers": {"plan": "powerful"},
            "tools": {"read_file": "fast", "grep_files": "fast", "request_input": "balanced"},
        }
    )
    assert preset.tier("plan", after) == tier


def test_a_tool_can_call_for_a_stronger_tier_than_the_phase() -> None:
    preset = Preset.model_validate({"tiers": {"plan": "fast"}, "tools": {"run_command": "powerful"}})
    assert preset.tier("plan", ["read_file", "run_command"]) == "powerful"
    assert preset.tier("plan", ["read_file"]) == "fast"


@given(st.lists(st.sampled_from(["a", "b", "c", "d"])))
def test_neither_order_nor_repetition_of_the_tools_changes_the_tier(after: list[str]) -> None:
    preset = Preset.model_validate({"tools": {"a": "fast", "b": "balanced", "c": "powerful"}})
    tier = preset.tier("plan", after)
    assert tier == preset.tier("plan", sorted(after) * 2)
    assert TIERS.index(tier) >= max((TIERS.index(preset.tier("plan", [one])) for one in after), default=0)


def test_our_presets_say_what_they_are_for_and_name_tools_that_exist(home: Path) -> None:
    tools = {tool.name for tool in build_registry(load_settings().extra_tools).select(None)}
    for preset in load_presets(home).values():
        assert preset.description
        assert preset.tools.keys() <= tools


def test_a_persons_preset_is_added_and_may_leave_everything_out(home: Path) -> None:
    presets = loaded(home, '[mine]\nsystem_prompt = """\nSay less."""\nfallbacks = ["a", "b"]\n[empty]\n')
    assert presets["mine"].system_prompt == "Say less."
    assert presets["mine"].fallbacks == ("a", "b")
    assert presets["empty"] == Preset()
    assert presets["fast"].tier("plan") == "fast"


def test_a_persons_preset_replaces_ours_of_that_name_as_a_whole(home: Path) -> None:
    assert loaded(home, "[fast]\ntemperature = 0.5\n")["fast"] == Preset(temperature=0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[mine]\ntiers = { plan = "huge" }\n',
            ("'mine'", "tiers.plan: ", "'fast', 'balanced' or 'powerful'"),
        ),
        ('[mine]\ntiers = { think = "fast" }\n', ("tiers.think: there is no such field",)),
        ('[mine.tools]\nread_file = "small"\n', ("tools.read_file: ",)),
        ("[mine]\ntemperature = 3\n", ("temperature: ",)),
        ("[mine]\nreply_tokens = 0\n", ("reply_tokens: ",)),
        ('[mine]\nfallbacks = "gpt-5"\n', ("fallbacks: ",)),
        ('[mine]\nmodel = "gpt-5"\n', ("model: there is no such field",)),
        ("mine = 3\n", ("'mine'", "it: ")),
        ("[mine\n", ("no valid TOML", "line 1")),
    ],
)
def test_a_file_that_does_not_fit_names_file_preset_and_field(
    home: Path, text: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError, match=r"^presets.toml in the home folder") as caught:
        loaded(home, text)
    for word in words:
        assert word in caught.value.message
    assert "\n" not in caught.value.message
