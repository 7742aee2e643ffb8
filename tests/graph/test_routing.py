"""Where the graph goes next, as tables."""

import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from lockstitch.graph import routing
from lockstitch.graph.routing import (
    Crossing,
    route_after_approve,
    route_after_begin,
    route_after_execute,
    route_after_observe,
    route_after_plan,
    undecided,
)
from lockstitch.state.run_state import PlannedCall, RunState


def planned(id: str, verdict: Any, *, decided: bool = False) -> PlannedCall:  # noqa: A002
    call = PlannedCall(id=id, tool="t", args={}, verdict=verdict, note="")
    return {**call, "decision": {"type": "approve"}} if decided else call


RUNS, REFUSED = planned("r", "run"), planned("n", "refuse")
ASKS, ASKED = planned("a", "ask"), planned("d", "ask", decided=True)
QUESTION = planned("q", "question")


def test_routes_are_given_channels_of_the_state_and_not_the_conversation() -> None:
    read, there = get_type_hints(Crossing), get_type_hints(RunState)
    assert read == {name: there[name] for name in read}
    assert "messages" not in read


def test_routes_see_all_that_they_read() -> None:
    source = Path(routing.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'state\.get\("(\w+)"', source)) == set(get_type_hints(Crossing))


@pytest.mark.parametrize(
    ("calls", "first"),
    [
        ([], None),
        ([RUNS, REFUSED], None),
        ([RUNS, ASKED], None),
        ([RUNS, ASKED, QUESTION, ASKS], QUESTION),
        ([ASKS, QUESTION], ASKS),
    ],
)
def test_the_first_call_that_waits_is_found(calls: list[PlannedCall], first: PlannedCall | None) -> None:
    assert undecided(calls) == first


@pytest.mark.parametrize(
    ("calls", "after_plan", "after_approve"),
    [
        ([], "observe", "plan"),
        ([RUNS], "execute", "execute"),
        ([REFUSED], "execute", "execute"),
        ([RUNS, ASKS], "approve", "approve"),
        ([QUESTION], "approve", "approve"),
        ([ASKED, RUNS], "execute", "execute"),
    ],
)
def test_calls_are_approved_where_they_must_be(
    calls: list[PlannedCall], after_plan: str, after_approve: str
) -> None:
    assert route_after_plan(RunState(calls=calls, reason=None)) == after_plan
    assert route_after_approve(RunState(calls=calls, reason=None)) == after_approve


@pytest.mark.parametrize(
    ("route", "onward"),
    [(route_after_begin, "plan"), (route_after_execute, "observe"), (route_after_observe, "plan")],
)
def test_without_a_reason_to_end_it_goes_on(route: Any, onward: str) -> None:
    assert route(RunState()) == onward
    assert route(RunState(reason=None)) == onward


@pytest.mark.parametrize(
    "route",
    [route_after_begin, route_after_plan, route_after_approve, route_after_execute, route_after_observe],
)
def test_a_reason_ends_the_run_from_every_node_whatever_is_left(route: Any) -> None:
    assert route(RunState(reason="model_error", calls=[ASKS])) == "finish"
