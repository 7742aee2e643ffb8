"""Strategies by name: ours, those of installed packages, and the plain call with agent mode off."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.strategies import registry
from lockstitch.graph.strategies.react import React
from lockstitch.graph.strategies.registry import STRATEGIES, choose_strategy, strategy_names
from lockstitch.state.errors import SettingsError


class Careful(React):
    """A strategy of somebody else's."""

    name = "careful"


class NoStrategy:
    """Something else that an entry point may name by mistake."""


careful = Careful()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages with these entry points, as importlib reports them."""
    targets = {"careful": "Careful", "an-object": "careful", "wrong": "NoStrategy", "gone": "Missing"}
    points = [
        EntryPoint(name, f"tests.graph.test_strategy_registry:{target}", registry.ENTRY_POINTS)
        for name, target in {**targets, "react": "Careful"}.items()
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == "lockstitch.strategies"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._installed.cache_clear()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["careful", "an-object"])
def test_a_strategy_of_an_installed_package_is_found(name: str) -> None:
    assert choose_strategy(name).name == "careful"


@pytest.mark.usefixtures("installed")
def test_no_package_takes_the_name_of_one_of_ours() -> None:
    assert choose_strategy("react") is STRATEGIES["react"]
    assert strategy_names()[: len(STRATEGIES)] == list(STRATEGIES)
    assert strategy_names().count("react") == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [("wrong", "has no think and observe"), ("gone", "cannot be loaded"), ("nope", "Choose one of: react")],
)
def test_what_cannot_be_used_is_said(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        choose_strategy(name)


@pytest.mark.usefixtures("installed")
async def test_a_run_thinks_by_an_installed_strategy(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(says("Done.")))
    state = await bench.run("go", strategy="careful")
    assert (state["final_answer"], bench.of_type("agent_start")[0]["strategy"]) == ("Done.", "careful")


@pytest.mark.parametrize("reply", [says("Paris."), says("Paris.", call("read_file", path="a.txt"))])
async def test_with_agent_mode_off_one_plain_call_answers(tmp_path: Path, reply: Any) -> None:
    model = FakeModel(reply)
    bench = Bench(tmp_path, model)
    state = await bench.run("The capital of France?", agent_mode=False)
    assert (state["reason"], state["final_answer"]) == ("answered", "Paris.")
    assert (model.tools, len(model.prompts)) == ([[]], 1)
    assert bench.of_type("agent_tool_start") == []
    assert bench.of_type("agent_start")[0]["strategy"] == "plain"
