"""Limits: which one is met, the question a person is asked at one, and that going on replays nothing."""

import math
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.limits import describe_end, describe_pause, met_limit, raised, stuck_pause
from lockstitch.graph.models.spent import stamp_reply
from lockstitch.state.errors import ContextOverflowError
from lockstitch.state.interrupts import GoOn, read_go_on
from lockstitch.state.run_state import RunState


def priced(reply: AIMessage, cost_usd: float) -> AIMessage:
    return stamp_reply(reply, model="fake-1", cost_usd=cost_usd)


def look(n: int) -> AIMessage:
    return says(f"look {n}", call("list_directory", id=f"c{n}", path=".", max_depth=n))


@pytest.mark.parametrize(
    ("state", "met"),
    [
        (RunState(step=3, max_steps=4), None),
        (RunState(step=4, max_steps=4), ("step_limit", "max_steps")),
        (RunState(step=1, max_steps=4, cost_usd=0.5, cost_limit_usd=0.6), None),
        (RunState(step=1, max_steps=4, cost_usd=0.6, cost_limit_usd=0.6), ("cost_limit", "cost_limit_usd")),
        (RunState(step=1, max_steps=4, cost_usd=None, cost_limit_usd=0.6), None),
        (RunState(step=1, max_steps=4, cost_usd=0.6, cost_limit_usd=None), None),
        (
            RunState(step=1, max_steps=4, input_tokens=60, output_tokens=40, token_limit=100),
            ("cost_limit", "token_limit"),
        ),
        (RunState(step=1, max_steps=4, input_tokens=59, output_tokens=40, token_limit=100), None),
        (RunState(step=1, max_steps=4, worked_s=30.0, time_limit_s=30.0), ("time_limit", "time_limit_s")),
        (RunState(step=4, max_steps=4, worked_s=99.0, time_limit_s=30.0), ("step_limit", "max_steps")),
    ],
    ids=str,
)
def test_the_limit_that_is_met(state: RunState, met: tuple[str, str] | None) -> None:
    pause = met_limit(state)
    assert (pause and (pause["reason"], pause["limit"])) == met


@pytest.mark.parametrize("more", [None, 1, 7.5, 10_000, -3, 0])
@pytest.mark.parametrize(
    "state",
    [
        RunState(step=4, max_steps=4),
        RunState(step=1, max_steps=4, cost_usd=0.9, cost_limit_usd=0.6),
        RunState(step=1, max_steps=4, input_tokens=900, output_tokens=1, token_limit=100),
        RunState(step=1, max_steps=4, worked_s=70.0, time_limit_s=30.0),
    ],
    ids=["steps", "cost", "tokens", "time"],
)
def test_a_raised_limit_is_not_met_at_once_however_far_it_was_passed(
    state: RunState, more: float | None
) -> None:
    pause = met_limit(state)
    assert pause is not None
    assert met_limit(RunState(**{**state, **raised(state, pause, more)})) is None  # type: ignore[typeddict-item]
    assert describe_pause(pause)
    assert describe_end(pause)


def test_a_stuck_run_that_goes_on_begins_its_count_again() -> None:
    assert raised(RunState(traces=[{}]), stuck_pause(), None) == RunState(traces=[])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (True, GoOn(go_on=True)),
        ("yes", GoOn(go_on=True)),
        ("no", GoOn(go_on=False)),
        ("", GoOn(go_on=False)),
        ("25", GoOn(go_on=True, more=25)),
        ("0.5", GoOn(go_on=True, more=0.5)),
        ("compact", GoOn(go_on=True, compact=True)),
        ("try the other file", GoOn(go_on=True, message="try the other file")),
        ({"type": "approve"}, GoOn(go_on=True)),
        ([{"type": "accept"}], GoOn(go_on=True)),
        ({"decisions": [{"type": "reject", "message": "enough"}]}, GoOn(go_on=False)),
        ({"type": "ignore"}, GoOn(go_on=False)),
        ({"type": "edit", "edited_action": {"name": "go_on", "args": {"more": 9}}}, GoOn(go_on=True, more=9)),
        (
            {"type": "edit", "args": {"action": "go_on", "args": {"more": 2, "compact": True}}},
            GoOn(go_on=True, more=2, compact=True),
        ),
        ({"type": "edit", "args": {"more": "much"}}, GoOn(go_on=True)),
        ({"type": "edit", "args": {"more": math.nan}}, GoOn(go_on=True)),
        ({"type": "edit", "args": {"more": True}}, GoOn(go_on=True)),
        ({"type": "respond", "message": "look at b.py"}, GoOn(go_on=True, message="look at b.py")),
        ({"type": "nonsense"}, GoOn(go_on=False)),
        (None, GoOn(go_on=False)),
        (7, GoOn(go_on=False)),
        ([], GoOn(go_on=False)),
    ],
    ids=str,
)
def test_a_word_on_a_limit_is_read(reply: Any, word: GoOn) -> None:
    assert read_go_on(reply) == word


async def test_without_anybody_to_ask_a_limit_ends_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(look(1), look(2), says("Half of it is done.")))
    state = await bench.run("go", max_steps=2)
    assert (state["reason"], await bench.waits_for()) == ("step_limit", None)
    assert state["final_answer"] == "Reached maximum iterations (2).\n\nHalf of it is done."


@pytest.mark.parametrize(
    ("limit", "reason", "first_line"),
    [
        ({"cost_limit_usd": 0.02}, "cost_limit", "Reached the limit of $0.02."),
        ({"token_limit": 24}, "cost_limit", "Reached the limit of 24 tokens."),
    ],
)
async def test_at_a_cost_limit_no_further_call_is_paid_for(
    tmp_path: Path, limit: dict[str, Any], reason: str, first_line: str
) -> None:
    model = FakeModel(priced(look(1), 0.01), priced(look(2), 0.01), says("never asked for"))
    bench = Bench(tmp_path, model)
    state = await bench.run("go", **limit)
    assert (state["reason"], len(model.prompts)) == (reason, 2)
    assert state["final_answer"].splitlines()[0] == first_line
    assert "2. list_directory ok" in state["final_answer"]


async def test_time_counts_the_work_and_ends_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(look(1), says("never asked for")))
    bench.parts.__dict__["monotonic"] = iter(range(0, 10_000, 100)).__next__
    state = await bench.run("go", time_limit_s=50)
    assert (state["reason"], state["step"]) == ("time_limit", 1)
    assert state["worked_s"] >= 100


async def paused(bench: Bench, **context: Any) -> Any:
    await bench.run("go", **context)
    request = await bench.waits_for()
    assert request is not None
    return request


async def test_where_somebody_can_be_asked_a_limit_pauses_and_going_on_replays_nothing(
    tmp_path: Path,
) -> None:
    model = FakeModel(look(1), look(2), look(3), says("Done."))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    request = await paused(bench, max_steps=2)
    action = request["action_requests"][0]
    assert action["name"] == "go_on"
    assert (
        action["args"] == action["arguments"] == {"limit": "max_steps", "at": 2, "more": 2, "compact": False}
    )
    assert (bench.types()[-1], bench.events[-1]["reason"]) == ("agent_completion", "waiting")
    asked = bench.of_type("agent_approval_request")
    assert [(e["tool"], e["action_id"]) for e in asked] == [("go_on", request["action_id"])]

    before = len(bench.events)
    state = await bench.run(Command(resume={"type": "approve"}))
    assert (state["reason"], state["final_answer"], state["max_steps"]) == ("answered", "Done.", 4)
    assert [record["number"] for record in state["steps"]] == [1, 2, 3, 4]
    assert len(model.prompts) == 4
    assert "agent_start" not in [event["type"] for event in bench.events[before:]]
    assert model.prompts[2][: len(model.prompts[1])] == model.prompts[1]


async def test_a_limit_is_raised_by_the_amount_a_person_names(tmp_path: Path) -> None:
    model = FakeModel(*(look(n) for n in range(1, 5)), says("Summed up."))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    await paused(bench, max_steps=1)
    await bench.run(Command(resume={"type": "edit", "args": {"more": 2}}))
    request = await bench.waits_for()
    assert request["action_requests"][0]["args"]["at"] == 3
    state = await bench.run(Command(resume={"type": "reject"}))
    assert (state["reason"], state["step"]) == ("step_limit", 3)
    assert "Summed up." not in state["final_answer"]  # the fourth look was still to be said
    assert state["final_answer"].startswith("Reached maximum iterations (3).")


async def test_a_person_who_stops_at_the_cost_limit_gets_a_summary(tmp_path: Path) -> None:
    model = FakeModel(priced(look(1), 0.05), priced(says("It is half done."), 0.01))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    await paused(bench, cost_limit_usd=0.05)
    state = await bench.run(Command(resume="no"))
    assert state["reason"] == "cost_limit"
    assert state["final_answer"] == "Reached the limit of $0.05.\n\nIt is half done."
    assert state["cost_usd"] == pytest.approx(0.06)
    assert model.tools[-1] == []


async def test_what_a_person_says_at_a_limit_reaches_the_model(tmp_path: Path) -> None:
    model = FakeModel(look(1), says("Done."))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    await paused(bench, max_steps=1)
    state = await bench.run(Command(resume={"type": "respond", "message": "only the tests"}))
    assert state["final_answer"] == "Done."
    assert model.prompts[-1][-1].text == "only the tests"


async def test_a_new_prompt_instead_of_a_word_begins_a_new_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(look(1), says("Something else.")))
    bench.attach(answers=True)
    await paused(bench, max_steps=1)
    state = await bench.run("something else", max_steps=1)
    assert (state["reason"], state["final_answer"], state["pause"]) == ("answered", "Something else.", None)


async def test_a_stuck_run_asks_where_somebody_can_be_asked(tmp_path: Path) -> None:
    same = [says("", call("list_directory", id=f"c{n}")) for n in range(5)]
    model = FakeModel(*same, says("I looked elsewhere."))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    request = await paused(bench)
    assert request["action_requests"][0]["args"]["limit"] == "stuck"
    state = await bench.run(Command(resume="look elsewhere"))
    assert (state["reason"], state["final_answer"]) == ("answered", "I looked elsewhere.")
    assert model.prompts[-1][-1].text == "look elsewhere"


async def test_a_stuck_run_that_is_refused_more_ends_as_stuck(tmp_path: Path) -> None:
    same = [says("", call("list_directory", id=f"c{n}")) for n in range(5)]
    bench = Bench(tmp_path, FakeModel(*same, says("It went in a circle.")))
    bench.attach(answers=True)
    await paused(bench)
    state = await bench.run(Command(resume="no"))
    assert (state["reason"], state["error"]) == ("stuck", "")
    assert "It went in a circle." in state["final_answer"]


async def test_totals_of_run_and_step_know_cost_and_cache(tmp_path: Path) -> None:
    first = priced(look(1), 0.25)
    first.usage_metadata = {  # type: ignore[assignment]
        "input_tokens": 100,
        "output_tokens": 5,
        "total_tokens": 105,
        "input_token_details": {"cache_read": 80},
    }
    bench = Bench(tmp_path, FakeModel(first, priced(says("Done."), 0.5)))
    state = await bench.run("go")
    assert state["cost_usd"] == pytest.approx(0.75)
    assert [(r["model"], r["tier"], r["cost_usd"]) for r in state["steps"]] == [
        ("fake-1", "balanced", 0.25),
        ("fake-1", "balanced", 0.5),
    ]
    told = bench.of_type("agent_usage")
    assert (told[0]["cached_tokens"], told[0]["context_tokens"], told[0]["context_window"]) == (
        80,
        105,
        128_000,
    )
    assert (told[1]["cost_usd"], told[1]["run_cost_usd"]) == (0.5, 0.75)


async def test_one_unknown_price_makes_the_total_unknown(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeModel(priced(look(1), 0.25), says("Done.")))
    state = await bench.run("go")
    assert state["cost_usd"] is None
    assert bench.of_type("agent_usage")[-1]["run_cost_usd"] is None


async def test_the_model_is_told_once_that_few_steps_are_left(tmp_path: Path) -> None:
    model = FakeModel(*(look(n) for n in range(1, 7)), says("Summed up."))
    bench = Bench(tmp_path, model)
    await bench.run("go", max_steps=6)
    told = [n for n, prompt in enumerate(model.prompts, 1) if prompt[-1].text.startswith("3 steps are left")]
    assert told == [4]
    assert sum("steps are left" in m.text for m in model.prompts[-1]) == 1


async def test_going_on_with_a_model_of_unknown_price_does_not_void_the_cost_limit(tmp_path: Path) -> None:
    model = FakeModel(priced(look(1), 0.01), says("never asked for"))
    bench = Bench(tmp_path, model)
    bench.attach(answers=True)
    await bench.run("go", cost_limit_usd=0.01)
    model.priced = False
    state = await bench.run(Command(resume="yes"))
    assert (len(model.prompts), "price of fake" in state["error"]) == (1, True)


async def test_results_too_long_to_be_judged_do_not_end_the_run(tmp_path: Path) -> None:
    model = FakeModel(says("I look."), look(1), ContextOverflowError("too long"), says("Now."), says("Done."))
    state = await Bench(tmp_path, model).run("go", strategy="reason-act-observe")
    assert (state["reason"], state["final_answer"]) == ("answered", "Done.")
    assert [call["success"] for call in state["steps"][0]["calls"]] == [True]
