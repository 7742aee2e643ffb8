"""A node's view of its run: what was chosen, what a client may send, and runs without a thread."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.builder import build_graph
from lockstitch.graph.parts import utc_now
from lockstitch.graph.record import thread_row, title_of
from lockstitch.graph.run import Run, check_context
from lockstitch.state.errors import SettingsError
from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import AgentTurnStart
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState


def opened(tmp_path: Path, context: RunContext, **settings: Any) -> Run:
    parts = Bench(tmp_path, FakeModel(), **settings).parts
    stamp = EventStamp(thread_id="t", run_id="r", last_seq=7, now=lambda: "now")
    return Run(parts, context, stamp, lambda body: None)


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({"mode": "yolo"}, "mode"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 501}, "max_steps"),
        ({"max_steps": "many"}, "max_steps"),
        ({"temperature": 3}, "temperature"),
        ({"tools": "read_file"}, "tools"),
        ({"tools": [1]}, "tools.0"),
        ({"door": "window"}, "door"),
        ({"workspace": 7}, "workspace"),
        ({"mode": "yolo", "max_steps": 0}, "max_steps: .*mode: |mode: .*max_steps: "),
    ],
)
def test_a_choice_that_cannot_be_is_named(sent: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        check_context(RunContext(**sent))


def test_choices_that_fit_come_back_as_they_are() -> None:
    context = RunContext(mode="plan", max_steps=500, temperature=0, tools=[], door="http", model="m")
    assert check_context(context) == context
    assert check_context(RunContext()) == RunContext()


@pytest.mark.parametrize(
    ("context", "settings", "steps"),
    [
        (RunContext(door="cli"), {}, 50),
        (RunContext(door="http"), {}, 10),
        (RunContext(), {}, 10),
        (RunContext(door="cli"), {"max_steps": 7}, 7),
        (RunContext(door="http", max_steps=3), {"max_steps": 7}, 3),
    ],
)
def test_steps_are_the_runs_the_settings_or_the_doors(
    tmp_path: Path, context: RunContext, settings: dict[str, Any], steps: int
) -> None:
    assert opened(tmp_path, context, **settings).max_steps == steps


def test_the_workspace_is_the_runs_the_threads_or_the_process(tmp_path: Path) -> None:
    asked = opened(tmp_path, RunContext(workspace="/asked"))
    assert asked.workspace(RunState(workspace="/threads")) == Path("/asked")
    open_run = opened(tmp_path, RunContext())
    assert open_run.workspace(RunState(workspace="/threads")) == Path("/threads")
    assert open_run.workspace(RunState()) == tmp_path / "work"


def test_events_get_the_next_places_of_the_thread(tmp_path: Path) -> None:
    told: list[Any] = []
    run = opened(tmp_path, RunContext())
    run.report, run.step = told.append, 2
    for _ in range(2):
        run.emit(AgentTurnStart())
    assert [(event.seq, event.step, event.thread_id) for event in told] == [(8, 2, "t"), (9, 2, "t")]


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ([], ""),
        ([("user", "fix it")], "fix it"),
        ([("user", "\n  fix it\nplease")], "fix it"),
        ([("ai", "hello"), ("user", "first"), ("user", "second")], "first"),
        ([("user", "x" * 100)], "x" * 80),
        ([("user", [{"type": "text", "text": "in a block"}])], "in a block"),
    ],
)
def test_the_title_is_the_first_line_that_was_said(said: list[Any], title: str) -> None:
    from langchain_core.messages import convert_to_messages

    assert title_of(RunState(messages=convert_to_messages(said))) == title  # type: ignore[typeddict-item]


def test_the_row_shows_what_was_chosen(tmp_path: Path) -> None:
    run = opened(tmp_path, RunContext(mode="plan", model="m", door="http"))
    row = thread_row(RunState(workspace="/w", phase="waiting", reason=None), run)
    assert (row.thread_id, row.mode, row.model, row.door, row.strategy) == ("t", "plan", "m", "http", "react")
    assert (row.phase, row.reason, row.steps, row.title) == ("waiting", None, 0, "")


async def test_a_run_without_a_thread_works_and_keeps_long_results(tmp_path: Path) -> None:
    model = FakeModel(
        says("", call("list_directory"), call("read_file", id="c2", path="long.txt")), says("Done.")
    )
    bench = Bench(tmp_path, model, output_chars=1000)
    (bench.workspace / "long.txt").write_text("x" * 5000)
    graph = build_graph(bench.parts).compile()
    state = await graph.ainvoke({"messages": [("user", "look")]}, context=RunContext())  # type: ignore[list-item]
    assert (state["reason"], state["final_answer"]) == ("answered", "Done.")
    assert all(m.status == "success" for m in state["messages"] if isinstance(m, ToolMessage))
    assert len(state["steps"]) == 2


async def test_a_step_is_planned_by_a_model_chosen_after_the_tools_it_reads(tmp_path: Path) -> None:
    both = says("", call("list_directory", id="a"), call("get_tasks", id="b"))
    model = FakeModel(both, says("Done."), says("Done again."))
    bench = Bench(tmp_path, model)
    await bench.run("go")
    assert opened_for(model, "plan") == {(), ("list_directory", "get_tasks")}
    assert opened_for(model, "observe") == set()  # react asks no model what results mean
    model.after.clear(), model.kinds.clear()
    await bench.run("and now?")
    assert opened_for(model, "plan") == {()}


async def test_results_are_judged_by_a_model_chosen_after_their_tools(tmp_path: Path) -> None:
    ends = says('{"observation": "seen", "should_continue": false, "final_answer": "Done."}')
    model = FakeModel(says("I look."), says("", call("list_directory", id="a")), ends)
    await Bench(tmp_path, model).run("go", strategy="reason-act-observe")
    assert opened_for(model, "observe") == {("list_directory",)}


def opened_for(model: FakeModel, phase: str) -> set[tuple[str, ...]]:
    return {tuple(after) for kind, after in zip(model.kinds, model.after, strict=True) if kind == phase}


def test_the_time_is_iso_8601_in_utc_to_the_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    for ns in (1_700_000_000_000_000_000, 1_700_000_000_999_999_999, 1_700_000_001_004_000_001):
        monkeypatch.setattr("time.time_ns", lambda ns=ns: ns)
        exact = datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC)
        assert utc_now() == exact.isoformat(timespec="milliseconds")
