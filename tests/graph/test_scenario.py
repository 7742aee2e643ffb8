"""The next turn follows from the conversation; captures fill it; a wrong file is explained."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstitch.graph.demo import SCENARIO
from lockstitch.graph.models.scenario import (
    FailureLedger,
    Heard,
    Scenario,
    Turn,
    load_scenario,
    new_call_id,
    turn_for,
)
from lockstitch.state.errors import ModelError, SettingsError

ALL_TOOLS = Path(__file__).parents[2] / "bench" / "scenarios" / "all_tools.yaml"
TOOLS = {
    "read_file", "write_file", "edit_file", "list_directory", "move_file", "delete_file", "grep_files",
    "run_command", "create_tasks", "update_task_status", "get_tasks", "request_input",
}  # fmt: skip


def scenario(*turns: dict[str, object], **rest: object) -> Scenario:
    return Scenario.model_validate({"name": "test", "turns": turns, **rest})


def replied(turn: Turn) -> Heard:
    return Heard("assistant", turn.say, tuple(call.id or "" for call in turn.calls))


def played(script: Scenario, result: str = "done") -> list[Turn]:
    """Every turn, each asked for with the whole conversation before it and each call answered."""
    heard, turns = [Heard("user", "go")], list[Turn]()
    for _ in script.turns:
        turn = turn_for(script, heard)
        turns.append(turn)
        heard += [replied(turn), *(Heard("tool", result) for _ in turn.calls)]
    return turns


def test_turns_come_in_order_and_then_the_last_word() -> None:
    script = scenario({"say": "one"}, {"say": "two"}, afterwards="over")
    heard = [Heard("user", "go")]
    said = []
    for _ in range(4):
        turn = turn_for(script, heard)
        said.append(turn.say)
        heard.append(replied(turn))
    assert said == ["one", "two", "over", "over"]


def test_the_place_survives_the_loss_of_the_beginning() -> None:
    script = scenario(*({"calls": [{"tool": "get_tasks"}]} for _ in range(9)), {"say": "end"})
    last = played(script)[8]
    shortened = [Heard("system", "summary of what was before"), replied(last), Heard("tool", "done")]
    assert turn_for(script, shortened).say == "end"


def test_each_call_gets_its_own_id_and_a_given_one_is_kept() -> None:
    turn = turn_for(scenario({"calls": [{"tool": "a"}, {"tool": "b"}, {"tool": "c", "id": "mine"}]}), [])
    assert len({call.id for call in turn.calls}) == 3
    assert turn.calls[2].id == "mine"


def test_a_turn_asked_for_twice_makes_new_ids() -> None:
    assert new_call_id(3) != new_call_id(3)


def test_captured_names_are_filled_deep_inside_arguments_and_stay_for_later_turns() -> None:
    script = scenario(
        {"calls": [{"tool": "run"}]},
        {
            "capture": {"port": r"port (\d+)"},
            "calls": [{"tool": "t", "args": {"a": [{"b": "at ${port}"}], "n": 1}}],
        },
        {"say": "it was ${port}"},
    )
    turns = played(script, result="listening on port 8080")
    assert json.loads(turns[1].calls[0].arguments) == {"a": [{"b": "at 8080"}], "n": 1}
    assert turns[2].say == "it was 8080"


def test_a_capture_sees_only_what_came_since_the_turn_before() -> None:
    script = scenario({"say": "one"}, {"capture": {"x": r"\d"}, "say": "${x}"})
    heard = [Heard("tool", "1"), Heard("assistant", "one"), Heard("tool", "2")]
    assert turn_for(script, heard).say == "2"


def test_a_capture_without_a_group_is_the_whole_match() -> None:
    assert turn_for(scenario({"capture": {"x": "a+"}, "say": "${x}"}), [Heard("tool", "baaa")]).say == "aaa"


def test_a_captured_value_is_never_expanded_again() -> None:
    script = scenario({"capture": {"x": ".+"}, "say": "${x}"})
    assert turn_for(script, [Heard("tool", "${x}\\1")]).say == "${x}\\1"


def test_a_name_that_no_turn_captures_is_left_to_the_shell() -> None:
    turn = turn_for(scenario({"calls": [{"tool": "run", "args": {"command": "echo ${HOME}"}}]}), [])
    assert "${HOME}" in turn.calls[0].arguments


def test_a_capture_that_met_nothing_ends_the_replay_where_it_is_used() -> None:
    script = scenario({"capture": {"x": "needle"}, "say": "unused"}, {"say": "${x}"})
    assert turn_for(script, [Heard("tool", "hay")]).say == "unused"
    with pytest.raises(ModelError, match=r"turn 2: .*'x'"):
        turn_for(script, [Heard("tool", "hay"), Heard("assistant", "unused")])


def test_a_request_without_tools_gets_the_summary_and_costs_no_turn() -> None:
    script = scenario({"say": "one"}, {"say": "two"}, summary="so far")
    heard = [Heard("assistant", "one")]
    assert turn_for(script, heard, has_tools=False).say == "so far"
    after = [*heard, Heard("assistant", "Reached maximum iterations (1). so far"), Heard("user", "go on")]
    assert turn_for(script, after).say == "two"


def test_strategies_without_tools_get_text_turns_but_never_calls() -> None:
    script = scenario(
        {"say": "Thought: hm"}, {"calls": [{"tool": "t"}]}, without_tools="turns", summary="so far"
    )
    assert turn_for(script, [], has_tools=False).say == "Thought: hm"
    assert turn_for(script, [Heard("assistant", "Thought: hm")], has_tools=False) == Turn(1, "so far")


def test_malformed_calls_go_out_as_they_are() -> None:
    raw = [{"name": "nosuch", "arguments": "{bad"}, {"id": "a", "name": "t", "arguments": "{}"}]
    turn = turn_for(scenario({"raw_tool_calls": raw}), [])
    assert [(call.id, call.name, call.arguments) for call in turn.calls] == [
        (None, "nosuch", "{bad"),
        ("a", "t", "{}"),
    ]


def test_a_failure_is_met_as_often_as_asked_and_for_its_turn_alone() -> None:
    script = scenario(
        {"say": "x", "fail": {"status": 500, "times": 2}}, {"say": "y", "fail": {"status": 429}}
    )
    ledger, first, second = FailureLedger(), turn_for(script, []), turn_for(script, [Heard("assistant", "x")])
    assert [ledger.due(turn) is not None for turn in (first, second, first, first, second)] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: [", "no valid YAML"),
        ("", "file: "),
        ("turns: []", "name: field required"),
        ("name: a\nturns: [{sey: hi}]", "turns.0.sey: there is no such field"),
        ("name: a\nturns: [{capture: {x: '('}}]", "the pattern of x is no regex"),
        ("name: a\nturns: [{fail: {status: 200}}]", "turns.0.fail.status"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_scenario(file)
    assert "wrong.yaml" in caught.value.message
    assert complaint in caught.value.message


def test_a_missing_file_and_one_that_is_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent.yaml cannot be read: No such file"):
        load_scenario(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="no valid YAML"):
        load_scenario(tmp_path / "binary.yaml")


def test_the_bench_scenario_calls_every_tool_in_thirty_turns() -> None:
    script = load_scenario(ALL_TOOLS)
    assert len(script.turns) == 30
    assert {call.tool for turn in script.turns for call in turn.calls} == TOOLS
    assert any([call.tool for call in turn.calls] == ["read_file", "read_file"] for turn in script.turns)


def test_the_demo_fits_a_servers_ten_steps() -> None:
    assert len(load_scenario(SCENARIO).turns) <= 10


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=6), st.text(max_size=40))
def test_any_result_is_captured_and_filled_unchanged(before: list[str], result: str) -> None:
    script = scenario(
        {"say": "one"}, {"capture": {"all": r"[\s\S]*"}, "calls": [{"tool": "t", "args": {"x": "${all}"}}]}
    )
    heard = [*(Heard("tool", text) for text in before), Heard("assistant", "one"), Heard("tool", result)]
    assert json.loads(turn_for(script, heard).calls[0].arguments) == {"x": result}
