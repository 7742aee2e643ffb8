"""The thread as lines to search: nothing said, called or answered is missing, but the searches themselves."""

import random
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from lockstitch.graph.memory.history import history_of
from lockstitch.graph.note import note
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.recall import recall
from lockstitch.tools.workspace import Workspace

WORDS = ("the", "file", "test", "error", "Größe", "naïve", "数据", "def", "return", "17", "8080", "—", "ok")


def call(tool: str, id: str, **args: Any) -> Any:  # noqa: A002
    return {"name": tool, "args": args, "id": id}


def long_thread(steps: int) -> tuple[list[AnyMessage], list[str]]:
    """A thread, and every line in it that is not blank."""
    dice = random.Random(7)
    lines: list[str] = []

    def text(count: int) -> str:
        made = [
            f"{' ' * dice.randrange(5)}{' '.join(dice.choices(WORDS, k=dice.randrange(1, 9)))}"
            for _ in range(count)
        ]
        lines.extend(made)
        return "\n".join(made)

    messages: list[AnyMessage] = [HumanMessage(text(3))]
    for n in range(steps):
        asked = call("edit_file", f"c{n}", path=text(1), edits=[{"new_text": text(3)}], all=True)
        messages += [
            AIMessage(text(2), tool_calls=[asked]),
            ToolMessage(text(8), tool_call_id=f"c{n}", name="edit_file"),
            *([note(text(1))] if n % 10 == 0 else []),
        ]
    return messages, lines


MESSAGES, LINES = long_thread(300)
HISTORY = history_of(MESSAGES)


def search(tmp_path: Path, messages: list[AnyMessage], query: str) -> str:
    with Workspace(tmp_path) as workspace:
        context = ToolContext(
            workspace=workspace,
            settings=load_settings(),
            spill=SpillStore(tmp_path / "spill", "t"),
            history=lambda: HISTORY if messages is MESSAGES else history_of(messages),
        )
        return recall.func(query=query, call=context).output  # type: ignore[attr-defined, no-any-return]


@settings(max_examples=30, deadline=None)
@given(line=st.sampled_from(LINES))
def test_any_earlier_line_of_a_long_thread_is_found(tmp_path_factory: Any, line: str) -> None:
    rows = search(tmp_path_factory.getbasetemp(), MESSAGES, line).split("\n")
    hits = [" ".join(row[2:].split()) for row in rows if row.startswith("> ")]
    assert any(hit.endswith(" ".join(line.split())) for hit in hits)  # `path: ` may stand before an argument
    assert len(hits) <= 20


def test_each_text_has_its_place_and_its_speaker() -> None:
    messages = [
        HumanMessage("please"),
        note("work on item 1"),
        AIMessage("I look.", tool_calls=[call("grep_files", "a", pattern="x", max_results=5)]),
        ToolMessage("none", tool_call_id="a", name="grep_files"),
    ]
    assert [(e.number, e.who, e.text) for e in history_of(messages)] == [
        (1, "person", "please"),
        (2, "note", "work on item 1"),
        (3, "model", "I look."),
        (3, "call of grep_files", "pattern: x\nmax_results: 5"),
        (4, "result of grep_files", "none"),
    ]


def test_a_search_does_not_find_itself(tmp_path: Path) -> None:
    messages = [
        AIMessage("", tool_calls=[call("recall", "a", query="the lost word")]),
        ToolMessage("> the lost word", tool_call_id="a", name="recall"),
    ]
    assert "lost" not in search(tmp_path, messages, "the lost word").removeprefix("Nothing")
    assert history_of(messages) == []


def test_text_in_nested_arguments_is_found_as_it_was_written(tmp_path: Path) -> None:
    nested = call("t", "a", edits=[{"new": 'say "hi"\n\tthen \\n stop'}])
    found = search(tmp_path, [AIMessage("", tool_calls=[nested])], "\tthen \\n stop")
    assert found.split("\n")[-1] == "> \tthen \\n stop"
