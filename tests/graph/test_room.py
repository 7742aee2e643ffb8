"""Room in the window: long runs fold their older turns, and what was asked for stays to the byte."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.state.errors import ContextOverflowError

TASK = "Fix the parser.\n\n- keep  the API \u2014 \u00fcber alles\n"


class Counting(FakeModel):
    """A model that reads every step and counts its tokens, at three characters each."""

    def __init__(self, *, steps: int, window: int, refuses_above: int | None = None) -> None:
        super().__init__()
        self.window = window
        self.summaries = 0
        self._left, self._refuses_above = steps, refuses_above

    async def ask(self, messages: Sequence[BaseMessage], **options: Any) -> AIMessage:
        tokens = sum(len(m.text) for m in messages) // 3
        if self._refuses_above and tokens > self._refuses_above:
            self._refuses_above = None
            raise ContextOverflowError("too long")
        if not options.get("tools"):
            self.summaries += 1
            reply = says("SUMMARY of what was done.")
        else:
            self.prompts.append(list(messages))
            self._left -= 1
            n = self._left
            reply = (
                says("Done.") if n == 0 else says(f"read {n}", call("read_file", id=f"c{n}", path=f"{n}.txt"))
            )
        usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
        return reply.model_copy(update={"usage_metadata": usage})


def bench_of(tmp_path: Path, model: FakeModel, **settings: Any) -> Bench:
    bench = Bench(tmp_path, model, **settings)
    for n in range(200):
        (bench.workspace / f"{n}.txt").write_text(f"line of {n}\n" * 60)
    return bench


def texts(prompt: Sequence[BaseMessage]) -> list[str]:
    return [f"{m.type}:{m.text}" for m in prompt]


async def test_a_long_run_folds_its_older_turns_and_the_thread_keeps_them(tmp_path: Path) -> None:
    model = Counting(steps=60, window=12_000)
    bench = bench_of(tmp_path, model, keep_turns=4)
    state = await bench.run(TASK, max_steps=100)
    assert state["final_answer"] == "Done."
    assert model.summaries >= 2
    assert len([m for m in state["messages"] if isinstance(m, ToolMessage)]) == 59
    assert all(sum(len(m.text) for m in p) // 3 < 12_000 for p in model.prompts)
    last = model.prompts[-1]
    assert TASK in last[1].text
    assert "SUMMARY of what was done." in last[1].text
    told = [e["content"] for e in bench.of_type("agent_notice")]
    assert len(told) == model.summaries
    assert all("folded" in words for words in told)


async def test_between_two_compactions_each_prompt_is_the_one_before_plus_an_ending(tmp_path: Path) -> None:
    model = Counting(steps=40, window=12_000)
    bench = bench_of(tmp_path, model, keep_turns=4)
    await bench.run(TASK, max_steps=100)
    breaks = 0
    for before, after in zip(model.prompts, model.prompts[1:], strict=False):
        if texts(after)[: len(before)] != texts(before):
            breaks += 1
            assert not isinstance(after[2], ToolMessage)  # no result without its call
    assert breaks == model.summaries > 0


async def test_what_was_compacted_goes_on_in_the_next_run(tmp_path: Path) -> None:
    model = Counting(steps=30, window=12_000)
    bench = bench_of(tmp_path, model, keep_turns=4)
    await bench.run(TASK, max_steps=100)
    model._left = 1
    state = await bench.run("And now?")
    assert state["final_answer"] == "Done."
    assert isinstance(model.prompts[-1][-1], HumanMessage)
    assert "SUMMARY" in model.prompts[-1][1].text
    assert len(model.prompts[-1]) < len(state["messages"])


async def test_a_prompt_that_the_model_refuses_as_too_long_is_folded_and_sent_again(tmp_path: Path) -> None:
    model = Counting(steps=20, window=1_000_000, refuses_above=6_000)
    bench = bench_of(tmp_path, model)
    state = await bench.run(TASK, max_steps=100)
    assert (state["reason"], state["final_answer"]) == ("answered", "Done.")
    assert state["compaction"] is not None
    assert TASK in model.prompts[-1][1].text


async def test_a_prompt_that_is_too_long_by_itself_ends_the_run_with_what_to_do(tmp_path: Path) -> None:
    model = Counting(steps=20, window=1_000_000, refuses_above=10)
    bench = bench_of(tmp_path, model)
    state = await bench.run("x" * 500)
    assert (state["reason"], state.get("compaction")) == ("model_error", None)


async def test_a_person_who_asks_for_room_gets_it_before_the_next_call(tmp_path: Path) -> None:
    from langgraph.types import Command

    model = Counting(steps=9, window=1_000_000)
    bench = bench_of(tmp_path, model)
    bench.attach(answers=True)
    await bench.run(TASK, max_steps=6)
    state = await bench.run(Command(resume="compact"))
    assert (state["final_answer"], model.summaries, state["compact_asked"]) == ("Done.", 1, False)
    assert TASK in model.prompts[6][1].text


async def test_a_window_smaller_than_believed_is_learned_and_the_summary_is_still_had(tmp_path: Path) -> None:
    class Small(Counting):
        async def ask(self, messages: Sequence[BaseMessage], **options: Any) -> AIMessage:
            if sum(len(m.text) for m in messages) // 3 > 3_000:
                raise ContextOverflowError("too long")
            return await super().ask(messages, **options)

    model = Small(steps=60, window=1_000_000)
    state = await bench_of(tmp_path, model).run(TASK, max_steps=100)
    assert (state["reason"], model.summaries > 1) == ("answered", True)
    assert "SUMMARY of what was done." in model.prompts[-1][1].text


async def test_who_asks_for_room_where_there_is_none_to_make_is_told(tmp_path: Path) -> None:
    from langgraph.types import Command

    bench = bench_of(tmp_path, Counting(steps=4, window=1_000_000))
    bench.attach(answers=True)
    await bench.run(TASK, max_steps=2)
    await bench.run(Command(resume="compact"))
    assert ["nothing to fold" in e["content"] for e in bench.of_type("agent_notice")] == [True]


async def test_summaries_count_in_the_totals_of_the_thread(tmp_path: Path) -> None:
    model = Counting(steps=60, window=12_000)
    bench = bench_of(tmp_path, model, keep_turns=4)
    state = await bench.run(TASK, max_steps=100)
    assert model.summaries > 0
    assert state["thread_tokens"] == state["input_tokens"] + state["output_tokens"]
    before = state["thread_tokens"]
    model._left = 1
    state = await bench.run("And now?")
    assert state["thread_tokens"] == before + state["input_tokens"] + state["output_tokens"]
