"""The typed context of a run: what a caller may choose, within which bounds, and where Studio shows it."""

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from lockstitch.state.run_context import RunContext

CONTEXT = TypeAdapter(RunContext)
NO_NETWORKS = [
    {"network": words} for words in ("yes", "http://pypi.org", ["a b.org"], ["*"], "pypi.org:80", [1])
]
NODES = {"begin", "plan", "approve", "execute", "observe", "finish"}


def test_every_choice_is_optional_and_means_the_setting() -> None:
    context = RunContext()
    chosen = {f.name: getattr(context, f.name) for f in fields(context)}
    assert (chosen.pop("door"), chosen.pop("agent_mode")) == ("studio", True)
    assert set(chosen.values()) == {None}


@pytest.mark.parametrize(
    "choice",
    [
        {"max_steps": 1},
        {"max_steps": 500},
        {"temperature": 0},
        {"temperature": 2},
        {"mode": "plan"},
        {"tools": []},
        {"network": "off"},
        {"network": "on"},
        {"network": ("pypi.org", "*.pythonhosted.org")},
    ],
    ids=str,
)
def test_choice_within_bounds_is_taken(choice: dict[str, Any]) -> None:
    context = CONTEXT.validate_python(choice)
    assert {name: getattr(context, name) for name in choice} == choice


@pytest.mark.parametrize(
    "choice",
    [
        {"max_steps": 0},
        {"max_steps": 501},
        {"temperature": 2.1},
        {"mode": "yolo"},
        {"door": "window"},
        *NO_NETWORKS,
    ],
    ids=str,
)
def test_choice_out_of_bounds_is_refused(choice: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CONTEXT.validate_python(choice)


def test_context_cannot_be_changed_during_a_run() -> None:
    with pytest.raises(FrozenInstanceError):
        RunContext().mode = "auto"  # type: ignore[misc]


def test_studio_shows_every_choice_at_a_node_that_exists() -> None:
    properties = CONTEXT.json_schema()["properties"]
    hints = {name: set(shown.get("langgraph_nodes", ())) for name, shown in properties.items()}
    assert hints.pop("door") == set()
    assert all(nodes and nodes <= NODES for nodes in hints.values())
    assert properties["model"]["langgraph_type"] == "model"
