"""Loop detection: the contract's cases through both functions, and what holds for any run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.graph.loops import KEPT_TRACES, Progress, StepTrace, judge_progress, trace_step
from lockstitch.graph.prompts import load_prompt
from lockstitch.state.run_state import CallOutcome, PlannedCall

CONTRACT = Path(__file__).parents[1] / "contracts" / "loops.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))

HASHES = st.sampled_from(["", "a", "b", "c"])  # few, so that steps are often the same
CALLS = st.fixed_dictionaries({"key": HASHES, "result": HASHES, "ok": st.booleans()})
TRACES = st.builds(StepTrace, calls=st.lists(CALLS, max_size=3), text=HASHES, files=HASHES)  # type: ignore[arg-type]


def spread(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        for _ in range(step.get("times", 1)):
            yield from step.get("of", [step])


def traced(step: dict[str, Any]) -> StepTrace:
    made = step.get("calls") or ([step] if "call" in step else [])
    calls, outcomes = [], []
    for n, one in enumerate(made):
        tool, _, rest = one["call"].partition(" ")
        calls.append(PlannedCall(id=f"c{n}", tool=tool, args={"rest": rest}, verdict="run", note=""))
        outcomes.append(outcome(f"c{n}", one["gives"], tool=tool, success=not one.get("fails", False)))
    return trace_step(calls, outcomes, text=step.get("says", ""), changed=step.get("changes", False))


def outcome(id: str, output: str, *, tool: str = "read_file", success: bool = True) -> CallOutcome:  # noqa: A002
    return CallOutcome(id=id, tool=tool, success=success, output=output, time_ms=1.0)


def planned(id: str, **args: Any) -> PlannedCall:  # noqa: A002
    return PlannedCall(id=id, tool="read_file", args=args, verdict="run", note="")


def read(output: str = "x", *, text: str = "", changed: bool = False, **args: Any) -> StepTrace:
    return trace_step([planned("c", **args)], [outcome("c", output)], text=text, changed=changed)


def verdicts(traces: list[StepTrace]) -> list[str]:
    """After each step, as the caller asks: with the newest traces alone."""
    return [judge_progress(traces[: n + 1][-KEPT_TRACES:]).verdict for n in range(len(traces))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_contract(case: dict[str, Any]) -> None:
    traces = [traced(step) for step in spread(case["steps"])]
    progress = judge_progress(traces[-KEPT_TRACES:])
    assert progress.verdict == case["verdict"]
    assert case.get("reason", "") in progress.reason
    assert bool(progress.reason) == (progress.verdict != "fine")


def test_contract_is_balanced_and_names_each_case_once() -> None:
    fine = [case for case in CASES if case["verdict"] == "fine"]
    assert len(CASES) >= 40
    assert len(fine) * 2 >= len(CASES)
    assert len({case["name"] for case in CASES}) == len(CASES)


def test_a_loop_is_told_once_and_then_ended() -> None:
    same = [read(path="a")] * 6
    assert verdicts(same) == ["fine", "fine", "nudge", "fine", "stuck", "stuck"]


def test_something_new_after_a_nudge_begins_the_count_again() -> None:
    run = [*[read(path="a")] * 4, read(path="b"), *[read(path="a")] * 4]
    assert verdicts(run)[4:] == ["fine", "fine", "fine", "nudge", "fine"]


def test_a_long_run_is_judged_by_its_newest_steps() -> None:
    work = [read(str(n), path=str(n)) for n in range(100)]
    assert verdicts([*work, *[read(path="a")] * 5])[-3:] == ["nudge", "fine", "stuck"]
    assert judge_progress([*[read(path="a")] * 5, *work]).verdict == "fine"


def test_traces_older_than_those_kept_change_nothing() -> None:
    circle = [read(str(n), path=str(n)) for n in range(7)] * 5
    assert judge_progress(circle) == judge_progress(circle[-KEPT_TRACES:]) == Progress(verdict="fine")


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_the_traces_kept_hold_five_rounds_of_a_circle(period: int) -> None:
    traces = [read(str(n), path=str(n)) for n in range(period)] * 5
    assert len(traces) <= KEPT_TRACES
    assert [v for v in verdicts(traces) if v != "fine"] == ["nudge", "stuck"]


def test_a_snapshot_that_is_new_each_time_is_progress() -> None:
    """The same command with the same words, that moves one file a time."""
    steps = [StepTrace({**read("moved", command="next"), "files": f"tree {n}"}) for n in range(8)]
    assert set(verdicts(steps)) == {"fine"}


def test_snapshots_that_come_back_are_no_progress() -> None:
    steps = [StepTrace({**read("moved", command=str(n % 2)), "files": f"tree {n % 2}"}) for n in range(10)]
    assert verdicts(steps)[5] == "nudge"
    assert verdicts(steps)[9] == "stuck"


def test_arguments_are_the_same_in_any_order() -> None:
    assert read(path="a", limit=3) == read(limit=3, path="a")
    assert read(path="a", limit=3) != read(path="a", limit=4)


def test_another_tool_is_another_call_and_another_result() -> None:
    ours = trace_step([], [outcome("c", "ok", tool="write_file")], text="", changed=False)
    theirs = trace_step([], [outcome("c", "ok", tool="edit_file")], text="", changed=False)
    assert ours["calls"][0]["key"] != theirs["calls"][0]["key"]
    assert ours["calls"][0]["result"] != theirs["calls"][0]["result"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ran 3 tests in 0.001s", "Ran 3 tests in 0.020s"),
        ("Time: 1.204 s", "Time: 2.310 s"),
        ("ok  130ms", "ok  7 ms"),
        ("took 1.25 seconds", "took 3.75 seconds"),
        ("<A at 0x7f3a10b2c0d0>", "<A at 0x7f9b55e1a2f0>"),
    ],
)
def test_chance_does_not_make_a_result_new(one: str, other: str) -> None:
    assert read(one) == read(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("10s", "20s"), ("12.5 s", "13.5 s"), ("3 failed", "2 failed"), ("v1.25", "v1.26"), ("0x10", "0x11")],
)
def test_what_may_be_progress_makes_a_result_new(one: str, other: str) -> None:
    assert read(one) != read(other)


def test_files_are_named_only_when_they_may_have_changed() -> None:
    assert read()["files"] == ""
    assert read(changed=True)["files"] != ""
    assert read("1", changed=True)["files"] != read("2", changed=True)["files"]


def test_equal_calls_of_a_step_are_traced_once() -> None:
    two = trace_step(
        [planned("a", path="x"), planned("b", path="x")],
        [outcome("a", "1"), outcome("b", "1")],
        text="",
        changed=False,
    )
    assert len(two["calls"]) == 1


def test_a_trace_holds_no_text_and_is_plain_json() -> None:
    secret = "password \ud800 \N{SNOWMAN}" * 50
    trace = read(secret, text=secret, path=secret, changed=True)
    assert json.loads(json.dumps(trace)) == trace
    assert "password" not in json.dumps(trace)


def test_twenty_traces_of_four_calls_stay_small() -> None:
    calls = [planned(str(n), path="p" * 1000 + str(n)) for n in range(4)]
    trace = trace_step(calls, [outcome(c["id"], "o" * 9000) for c in calls], text="t" * 900, changed=True)
    assert len(json.dumps([trace] * KEPT_TRACES)) < 10_000


def test_the_nudge_tells_the_reason() -> None:
    progress = judge_progress([read(path="a")] * 3)
    said = load_prompt("stuck_nudge").format(reason=progress.reason)
    assert "the same call gave the same result 3 times, and nothing new came in between." in said
    assert "{" not in said


@given(st.lists(TRACES, max_size=30))
def test_any_run_has_a_verdict(traces: list[StepTrace]) -> None:
    progress = judge_progress(traces)
    assert progress.verdict in ("fine", "nudge", "stuck")
    assert progress == judge_progress(traces[-KEPT_TRACES:])
    assert (progress == Progress(verdict="fine")) == (progress.verdict == "fine")


@given(st.lists(TRACES, max_size=KEPT_TRACES))
def test_no_run_is_ended_before_it_was_nudged(traces: list[StepTrace]) -> None:
    given_so_far = verdicts(traces)
    if "stuck" in given_so_far:
        assert "nudge" in given_so_far[: given_so_far.index("stuck")]


@given(st.lists(st.tuples(HASHES, st.booleans(), HASHES, HASHES), max_size=30))
def test_a_run_whose_every_result_is_new_is_fine(steps: list[tuple[str, bool, str, str]]) -> None:
    traces = [
        StepTrace(calls=[{"key": key, "result": f"new {n}", "ok": ok}], text=text, files=files)
        for n, (key, ok, text, files) in enumerate(steps)
    ]
    assert set(verdicts(traces)) <= {"fine"}


@given(st.lists(TRACES, max_size=KEPT_TRACES), CALLS)
def test_any_step_repeated_for_ever_ends_the_run(before: list[StepTrace], call: Any) -> None:
    again = StepTrace(calls=[call], text="", files="")
    assert "stuck" in verdicts([*before, *[again] * 6])
