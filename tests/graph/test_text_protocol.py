"""The text protocol: a contract of real-looking replies, and what holds for every text."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockstitch.graph.strategies.text_protocol import ParsedReply, parse_reply
from lockstitch.graph.strategies.text_values import DEPTH_MAX, ValueReader, render_call, render_value
from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.catalog import BUILT_IN
from lockstitch.tools.registry import Registry

CONTRACT = Path(__file__).parents[1] / "contracts" / "text_protocol.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CONTRACT.read_text(encoding="utf-8"))
OBJECT = {"anyOf": [{"type": "object"}, {"type": "array"}]}
STORE = {
    "function": {"name": "store", "parameters": {"properties": {"data": OBJECT, "key": {"type": "string"}}}}
}
TOOLS = [*(tool.schema for tool in Registry(BUILT_IN).list()), STORE]

names = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
arguments = st.dictionaries(names, values, max_size=5)
pieces = st.sampled_from(
    [
        *(
            "Thought:",
            "Action:",
            "Action: ",
            "Action Input:",
            "Answer:",
            "Observation:",
            "**Action:**",
            "None",
        ),
        *(
            "read_file",
            "get_tasks",
            "store",
            "path",
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
            "=",
            ":",
            ",",
            "\n",
            "\r\n",
        ),
        *(
            '"',
            "'",
            '"""',
            "'''",
            "`",
            "```",
            "```python\n",
            "\\",
            "\\u12",
            "r",
            "<think>",
            "</think>",
            "1e9",
            " ",
        ),
    ]
)


def parse(text: str) -> ParsedReply:
    return parse_reply(text, TOOLS)


def test_the_contract_is_large_and_its_names_are_unique() -> None:
    assert len(CASES) >= 100
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_reply_is_read_as_the_contract_says(case: dict[str, Any]) -> None:
    parsed = parse(case["reply"])
    wanted = [(call[0], call[1], call[2] if len(call) > 2 else "") for call in case.get("calls", [])]
    assert [(call.tool, call.args) for call in parsed.calls] == [(tool, args) for tool, args, _ in wanted]
    for call, (_, _, fault) in zip(parsed.calls, wanted, strict=True):
        assert (fault in call.fault) if fault else call.fault == ""
    assert parsed.answer == case.get("answer")
    assert (case["fault"] in parsed.fault) if "fault" in case else parsed.fault == ""
    assert parsed.thought == case.get("thought", parsed.thought)
    assert parsed.kept == case.get("kept", parsed.kept)


def test_every_fault_shows_the_form() -> None:
    faults = [parse(case["reply"]).fault for case in CASES if "fault" in case]
    assert faults
    assert all("Action: tool(" in fault and "Answer:" in fault for fault in faults)


def test_each_call_has_an_id_of_its_own() -> None:
    reply = 'Action: read_file("a")\nAction: read_file("a")'
    ids = [call.id for call in (*parse(reply).calls, *parse(reply).calls)]
    assert len(set(ids)) == 4


def test_a_value_may_be_so_deep_and_no_deeper() -> None:
    def call(depth: int) -> str:
        return f"Action: store(key='a', data={'[' * depth}'x'{']' * depth})"  # no JSON: single quotes

    assert parse(call(DEPTH_MAX)).calls
    assert "deep" in parse(call(DEPTH_MAX + 1)).fault
    assert "deep" in parse(call(100_000)).fault


@settings(deadline=None)
@given(tool=names, args=arguments)
@example(tool="t", args={"a": "\\\"'\b\x00\u2028\n\r\t", "b": {"": ['"""', {}]}, "c": -0.5})
def test_a_rendered_call_is_read_back(tool: str, args: dict[str, Any]) -> None:
    schema = {"function": {"name": tool, "parameters": {"properties": {name: {} for name in args}}}}
    parsed = parse_reply(f"Thought: go\nAction: {render_call(tool, args)}\n", [schema])
    assert (parsed.fault, parsed.answer, parsed.thought) == ("", None, "go")
    assert [(call.tool, call.args, call.fault) for call in parsed.calls] == [(tool, args, "")]
    assert repr(parsed.calls[0].args) == repr(args)  # 1 is not True and not 1.0


@settings(deadline=None)
@given(args=st.lists(values, min_size=2, max_size=4))
def test_a_call_by_place_is_read_back(args: list[Any]) -> None:
    schema = {"function": {"name": "t", "parameters": {"properties": {f"p{n}": {} for n in range(4)}}}}
    parsed = parse_reply(f"Action: t({', '.join(map(render_value, args))})", [schema])
    assert list(parsed.calls[0].args.values()) == args


@settings(deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "'''" not in text))
def test_between_triple_quotes_every_character_counts(text: str) -> None:
    if "\\" in text or text.endswith("'"):  # may escape the closing quotes
        text = text.rstrip("\\'") + "."
    assert ValueReader(f"'''{text}'''").value() == text


@settings(deadline=None)
@given(text=st.text() | st.lists(pieces, max_size=40).map("".join))
def test_no_text_raises_and_each_is_one_of_four_things(text: str) -> None:
    parsed = parse(text)
    assert parsed.answer is None or not (parsed.calls or parsed.fault)
    assert bool(parsed.calls or parsed.fault or parsed.answer) == bool(text.strip())
    assert text.replace("\r\n", "\n").startswith(parsed.kept)
    assert all(isinstance(call.args, dict) and call.id for call in parsed.calls)


@settings(deadline=None)
@given(text=st.lists(pieces, max_size=30).map("".join))
def test_a_value_is_read_or_refused(text: str) -> None:
    reader = ValueReader(text)
    try:
        reader.value()
    except ToolValidationError:
        return
    assert 0 < reader.at <= len(text)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            " ",
            "\t",
            "\n",
            "`",
            "'",
            '"',
            "\\",
            "(",
            "[",
            "{",
            "*",
            "#",
            "-",
            "<think>",
            "</think>",
            "1. ",
            "0",
        ),
        *("Action:", "Action: \n", "Answer: ", "Action: read_file(", 'Action: read_file("', "Observation: "),
        *(
            "Action: get_tasks\n",
            "Action: get_tasks\n\n   ",
            "Answer: x\n```\n",
            '"name"',
            "action ",
            "read_file (",
        ),
        *("Action: store(data=[", "Action: store(data={'': ", "{'': 1}, ", "Thought: \U0001f914"),
    ],
)
@pytest.mark.parametrize("before", ["", "Action: store(", "Answer: ", "Action: store(data=['x', "])
def test_time_grows_with_the_length_and_not_faster(before: str, piece: str) -> None:
    def seconds(chars: int) -> float:
        text = before + piece * (chars // len(piece)) + "x"
        began = time.process_time()
        parse(text)
        return time.process_time() - began

    few = max(seconds(10_000), 0.001)  # ten times the text: ten times the time, a hundred if it were squared
    assert min(seconds(100_000) / few for _ in range(3)) < 50
