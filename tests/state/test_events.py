"""Events are a public contract: names and fields are compared with a golden file that only ever grows."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import (
    AgentAnswer,
    AgentDiffPreview,
    AgentPhase,
    AgentTodos,
    AgentToolComplete,
    AgentTurnStart,
    DiffLine,
    Event,
    dump_event,
    parse_event,
)
from lockstitch.state.todos import Todo

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "contracts" / "events.json").read_text(encoding="utf-8")
)


def fields_by_name() -> dict[str, list[str]]:
    union = get_args(get_args(Event)[0])
    return {event.model_fields["type"].default: sorted(event.model_fields) for event in union}


def test_names_and_fields_are_those_of_the_contract() -> None:
    assert fields_by_name() == {name: sorted(fields) for name, fields in GOLDEN["fields"].items()}


def test_phases_are_those_of_the_contract() -> None:
    assert list(get_args(AgentPhase)) == GOLDEN["phases"]


def test_the_contract_has_one_complete_example_of_every_event() -> None:
    assert {e["type"]: list(e) for e in GOLDEN["examples"]} == GOLDEN["fields"]


@pytest.mark.parametrize("body", GOLDEN["examples"], ids=lambda body: str(body["type"]))
def test_example_survives_parse_and_dump(body: dict[str, Any]) -> None:
    event = parse_event(body)
    dumped = dump_event(event)
    assert dumped == body
    assert json.loads(json.dumps(dumped)) == body
    assert event.line == json.dumps(dumped)


@pytest.mark.parametrize(
    "change",
    [{"colour": "red"}, {"type": "agent_nonsense"}, {"content": None}],
    ids=["extra field", "unknown name", "wrong type"],
)
def test_object_that_is_no_event_is_refused(change: dict[str, Any]) -> None:
    body = dump_event(AgentAnswer(content="yes"))
    with pytest.raises(ValidationError):
        parse_event(body | change)


def test_event_is_frozen() -> None:
    with pytest.raises(ValidationError):
        AgentAnswer(content="yes").content = "no"  # type: ignore[misc]


def test_todos_of_the_state_fit_into_an_event() -> None:
    event = AgentTodos(tasks=[Todo(id="1", content="read", status="todo")])
    assert dump_event(event)["tasks"] == [{"id": "1", "content": "read", "status": "todo"}]


def test_json_schema_of_the_union_can_be_published() -> None:
    schema = TypeAdapter(Event).json_schema()
    assert set(schema["discriminator"]["mapping"]) == set(GOLDEN["fields"])


def test_a_line_is_made_once_and_holds_the_whole_event_in_ascii() -> None:
    event = AgentAnswer(content="\ud800 ö\n")
    assert event.line is event.line
    assert event.line.isascii()
    assert json.loads(event.line) == dump_event(event)
    assert (event, dump_event(event)) == (AgentAnswer(content="\ud800 ö\n"), json.loads(event.line))


def test_a_line_holds_what_is_no_json_of_itself() -> None:
    changed = DiffLine(line_number=1, type="add", content="\ud800 ö\n")
    preview = AgentDiffPreview(
        call_id="c", file_path="a", change_type="modify", diff_lines=[changed], original_hash="", new_hash=""
    )
    tool = AgentToolComplete(
        call_id="c", tool="t", result="", data={"at": Path("x"), "set": {1}, "part": changed}, time_ms=1
    )
    assert [event.line for event in (preview, tool)] == [json.dumps(dump_event(e)) for e in (preview, tool)]


def test_an_event_that_gets_another_place_gets_another_line() -> None:
    stamp = EventStamp(thread_id="t", run_id="r", last_seq=41, now=lambda: "now")
    told = stamp.stamp(AgentAnswer(content="x"), step=1)
    assert told.line
    assert json.loads(stamp.stamp(told, step=1).line)["seq"] == 43
    assert (told.seq, json.loads(told.line)["seq"]) == (42, 42)


def test_stamp_counts_on_from_the_threads_last_event() -> None:
    stamp = EventStamp(thread_id="t", run_id="r", last_seq=41, now=iter(["first", "second"]).__next__)
    one, two = stamp.stamp(AgentTurnStart(), step=1), stamp.stamp(AgentAnswer(content="yes"), step=2)
    assert (one.seq, one.step, one.timestamp) == (42, 1, "first")
    assert (two.seq, two.step, two.timestamp) == (43, 2, "second")
    assert (two.thread_id, two.run_id, stamp.seq) == ("t", "r", 43)
