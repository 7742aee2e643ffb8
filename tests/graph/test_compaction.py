"""What a compaction folds, what it keeps to the byte, and what it does when the model fails."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)

from lockstitch.graph.conversation import prompt_for, system_message
from lockstitch.graph.memory.compaction import DIGEST, SUMMARY, Ask, Compacted, compact
from lockstitch.graph.memory.pins import CONTEXT
from lockstitch.graph.memory.turns import split_turns
from lockstitch.graph.memory.view import shown
from lockstitch.graph.note import note, notice
from lockstitch.state.errors import ModelError, NoModelError
from lockstitch.state.run_state import RunState, StepRecord
from lockstitch.tools.todo import render_todos

SYSTEM = system_message("/w")
ROOM = 100_000  # tokens
TEXT = st.text(min_size=1, max_size=80)


def person(text: str, id: str) -> HumanMessage:  # noqa: A002
    return HumanMessage(text, id=id)


def step(number: int, *, calls: int = 1, size: int = 10) -> list[AnyMessage]:
    """A reply with that many calls, and its results."""
    ids = [f"c{number}.{n}" for n in range(calls)]
    asked = [{"name": "read_file", "args": {"path": f"f{number}.py"}, "id": one} for one in ids]
    said = AIMessage(f"I look at {number}.", id=f"a{number}", tool_calls=asked)
    return [said, *(ToolMessage("x" * size, tool_call_id=one, id=f"t{one}") for one in ids)]


def record(number: int, *calls: dict[str, Any], thought: str = "") -> StepRecord:
    return {"number": number, "thought": thought, "calls": list(calls)}  # type: ignore[typeddict-item]


def made(tool: str, *, success: bool = True, output: str = "", **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args, "success": success, "time_ms": 1.0, "output": output}


def thread(steps: int, *, size: int = 10, **more: Any) -> RunState:
    messages = [person("Fix it.", "h0"), *(m for n in range(1, steps + 1) for m in step(n, size=size))]
    records = [record(n, made("read_file", path=f"f{n}.py", output="x")) for n in range(1, steps + 1)]
    return RunState(messages=messages, steps=records, **more)


class Model:
    """Writes the summaries given, and keeps the prompts."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.prompts: list[list[BaseMessage]] = []

    async def __call__(self, messages: Sequence[BaseMessage]) -> AIMessage:
        self.prompts.append(list(messages))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply)


async def folded(
    state: RunState, ask: Ask, *, keep: int = 2, room: int = ROOM, window: int | None = None
) -> Compacted:
    done = await compact(
        state, ask=ask, system=SYSTEM, keep_turns=keep, room_tokens=room, window_tokens=window
    )
    assert done is not None
    return done


def with_head(state: RunState, done: Compacted, *more: AnyMessage) -> RunState:
    return RunState(
        **{**state, "messages": [*state["messages"], *more], "compaction": done.compaction}  # type: ignore[typeddict-item]
    )


def ids(messages: Sequence[BaseMessage]) -> list[str | None]:
    return [message.id for message in messages]


async def test_the_last_turns_stay_as_they_are_behind_the_head() -> None:
    state = thread(5)
    done = await folded(state, Model("All is well."))
    seen = shown(state["messages"], done.compaction)
    assert ids(seen) == [None, "a4", "tc4.0", "a5", "tc5.0"]
    assert seen[0].text.endswith(f"{SUMMARY}\nAll is well.")
    assert "stands for 7 earlier messages" in seen[0].text
    assert "3 folded, 2 kept" in done.told


async def test_the_summary_is_asked_for_at_the_end_of_the_prompt_that_the_model_knows() -> None:
    state = thread(5)
    model = Model("Fine.")
    await folded(state, model)
    (prompt,) = model.prompts
    assert prompt[:-1] == prompt_for(state["messages"], workspace="/w")
    assert prompt[0] is SYSTEM
    assert "Write the summary" in prompt[-1].text


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_what_fits_into_the_turns_to_keep_is_not_folded(steps: int) -> None:
    assert (await compact(thread(steps), ask=Model(), system=SYSTEM, keep_turns=2, room_tokens=ROOM)) is None


async def test_fewer_turns_stay_when_they_would_fill_half_of_the_room() -> None:
    state = thread(6, size=3_000)  # 1,000 tokens a turn and a few
    done = await folded(state, Model("Short."), keep=5, room=7_000)
    assert ids(shown(state["messages"], done.compaction))[1::2] == ["a4", "a5", "a6"]


async def test_one_turn_stays_however_long_it_is() -> None:
    state = thread(3, size=90_000)
    done = await folded(state, Model("s"), keep=5, room=3_000)
    assert ids(shown(state["messages"], done.compaction))[1:] == ["a3", "tc3.0"]


async def test_a_new_question_stays_with_nothing_before_it() -> None:
    state = thread(3)
    state["messages"].append(person("And now this.", "h1"))
    done = await folded(state, Model("Done so far."), keep=1)
    assert ids(shown(state["messages"], done.compaction))[1:] == ["h1"]


@st.composite
def conversations(draw: st.DrawFn) -> list[AnyMessage]:
    """Whole turns of every kind, with notes and notices among them."""
    messages: list[AnyMessage] = []
    for number in range(draw(st.integers(1, 8))):
        if not messages or draw(st.booleans()):
            messages.append(person(draw(TEXT), f"h{number}"))
        if draw(st.booleans()):
            messages.append(note("told").model_copy(update={"id": f"n{number}"}))
        messages += step(number, calls=draw(st.integers(0, 3)), size=draw(st.integers(0, 400)))
        if draw(st.booleans()):
            messages.append(notice("ended").model_copy(update={"id": f"e{number}"}))
    return messages


def assert_no_call_is_parted(messages: Sequence[BaseMessage]) -> None:
    asked = [call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    assert [m.tool_call_id for m in messages if isinstance(m, ToolMessage)] == asked


@settings(max_examples=60, deadline=None)
@given(conversations(), st.integers(1, 4), st.integers(10, 2_000))
async def test_no_call_is_ever_parted_from_its_results(
    messages: list[AnyMessage], keep: int, room: int
) -> None:
    assert [m for turn in split_turns(messages) for m in turn] == messages
    state = RunState(messages=messages)
    done = await compact(state, ask=Model("s"), system=SYSTEM, keep_turns=keep, room_tokens=room)
    if done:
        assert_no_call_is_parted(shown(messages, done.compaction))


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), TEXT, st.lists(TEXT, min_size=1, max_size=4), TEXT)
async def test_task_context_and_todos_stay_to_the_byte(
    tasks: list[str], rules: str, contents: list[str], summary: str
) -> None:
    told = note(rules).model_copy(update={"id": "ctx", "additional_kwargs": {CONTEXT: True}})
    asked = [m for n, task in enumerate(tasks) for m in (person(task, f"h{n}"), *step(n))]
    todos: Any = [{"id": str(n), "content": c, "status": "todo"} for n, c in enumerate(contents)]
    state = RunState(messages=[asked[0], told, *asked[1:], *step(90), *step(91)], todos=todos)
    head = (await folded(state, Model(summary))).compaction["head"]
    pinned = head.rpartition(SUMMARY)[0] or head  # a blank summary of no steps has no section
    assert all(task in pinned for task in tasks)
    assert rules in pinned
    assert render_todos(todos) in pinned


async def test_the_pinned_part_does_not_depend_on_the_model() -> None:
    state = thread(5, todos=[{"id": "1", "content": "a", "status": "todo"}])
    heads = [(await folded(state, Model(s))).compaction["head"] for s in ("One.", "Two.", "")]
    assert len({head.rpartition(SUMMARY)[0] for head in heads}) == 1


async def test_the_same_reply_gives_the_same_head() -> None:
    state = thread(5)
    assert await folded(state, Model("Same.")) == await folded(state, Model("Same."))


async def test_a_second_compaction_replaces_the_first_and_is_told_its_summary() -> None:
    state = thread(5)
    first = await folded(state, Model("First summary."))
    later = with_head(state, first, *(m for n in range(6, 10) for m in step(n)))
    model = Model("Second summary.")
    second = await folded(later, model)
    assert "First summary." in model.prompts[0][1].text
    seen = shown(later["messages"], second.compaction)
    assert "First summary." not in seen[0].text
    assert seen[0].text.endswith("Second summary.")
    assert seen[0].text.count("Fix it.") == 1
    assert ids(seen)[1::2] == ["a8", "a9"]


@pytest.mark.parametrize("fault", [ModelError("the endpoint is gone."), NoModelError("none."), ""])
async def test_without_a_summary_the_steps_are_listed(fault: Any) -> None:
    state = thread(5)
    state["steps"][1] = record(
        2, made("run_command", success=False, command="make"), thought="I build.\nYes."
    )
    done = await folded(state, Model(fault))
    lines = done.compaction["head"].rpartition(DIGEST + "\n")[2].split("\n")
    assert lines[1] == '2. I build.: run_command({"command": "make"}) failed'
    assert len(lines) == 3
    assert "without a summary" in done.told
    assert done == await folded(state, Model(fault))


async def test_a_failing_model_loses_no_summary_of_before_and_lists_no_step_twice() -> None:
    state = thread(5)
    first = await folded(state, Model("What was found."))
    later = with_head(state, first, *step(6), *step(7))
    later["steps"] = [*state["steps"], record(6), record(7)]
    second = await folded(later, Model(ModelError("gone.")))
    assert f"{SUMMARY}\nWhat was found.\n\n{DIGEST}" in second.compaction["head"]
    third = await folded(with_head(later, second, *step(8)), Model(ModelError("gone.")))
    assert third.compaction["head"].count(DIGEST) == 1
    assert third.compaction["head"].count("What was found.") == 1


async def test_a_prompt_that_does_not_fit_is_not_sent() -> None:
    model = Model()
    done = await folded(thread(5, size=4_000), model, room=3_000, window=4_000)
    assert model.prompts == []
    assert DIGEST in done.compaction["head"]
    assert "did not fit" in done.told


@pytest.mark.parametrize(("counted", "asked"), [(80_000, 1), (97_000, 0)])
async def test_what_the_model_counted_decides_whether_the_summary_still_fits(
    counted: int, asked: int
) -> None:
    model = Model("s")
    await folded(thread(5, context_tokens=counted), model, window=100_000)
    assert len(model.prompts) == asked


async def test_a_conversation_that_fills_its_room_is_still_summarised_in_the_rest_of_the_window() -> None:
    done = await folded(thread(5, context_tokens=90_000), Model("Fine."), room=85_000, window=100_000)
    assert done.compaction["head"].endswith("Fine.")


async def test_a_summary_without_end_is_cut() -> None:
    done = await folded(thread(5), Model("word " * 100_000), room=3_000)
    assert len(done.compaction["head"]) < 3_000
    assert "[cut: " in done.compaction["head"]


async def test_a_summary_cannot_pass_for_a_new_head() -> None:
    state = thread(5)
    first = await folded(state, Model(f"Real.\n{SUMMARY}\nFake."))
    second = await folded(with_head(state, first, *step(6)), Model(ModelError("gone.")))
    assert "Real." in second.compaction["head"]


async def test_a_notice_to_people_is_never_sent_to_the_summarising_model() -> None:
    state = thread(4)
    state["messages"].insert(3, notice("Stopped.").model_copy(update={"id": "e"}))
    model = Model("s")
    await folded(state, model)
    assert "e" not in ids(model.prompts[0])


async def test_between_two_compactions_each_prompt_is_the_one_before_plus_an_ending() -> None:
    state = thread(5)
    done = await folded(state, Model("s"))
    later = with_head(state, done)
    before = prompt_for(later["messages"], workspace="/w", compaction=later["compaction"])
    for number in range(6, 30):
        later["messages"] = [*later["messages"], *step(number)]
        now = prompt_for(later["messages"], workspace="/w", compaction=later["compaction"])
        assert all(a is b for a, b in zip(before, now, strict=False))
        assert len(now) > len(before)
        before = now


async def test_an_unknown_end_shows_everything() -> None:
    state = thread(5)
    done = await folded(state, Model("s"))
    assert shown(state["messages"][:3], done.compaction) == state["messages"][:3]
    assert shown(state["messages"], None) == state["messages"]


async def test_the_estimate_is_of_what_is_sent_from_now_on() -> None:
    state = thread(9, size=3_000)
    done = await folded(state, Model("s"), keep=2)
    assert 2_000 < done.tokens < 3_500
    assert f"became {done.tokens:,}" in done.told
