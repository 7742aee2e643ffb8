"""Retrieval at a run's beginning: what the index finds is told as data within a budget, or why not."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import Bench, FakeModel, says

from lockstitch.graph.context import retrieval
from lockstitch.tools.code_index import telling
from lockstitch.tools.code_index.build import Watch
from lockstitch.tools.code_index.indexes import Indexes

SOURCE = "def pay_invoice(total):\n    return total\n\n\ndef grow_tree():\n    return 1\n"
PROMPT = "Why is paying an invoice slow?"


@pytest.fixture(autouse=True)
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTITCH_EMBEDDINGS", "off")  # the model takes a second to load


def bench(tmp_path: Path, **settings: Any) -> tuple[Bench, FakeModel]:
    model = FakeModel(says("It is."), says("It was."))
    made = Bench(tmp_path, model, **settings)
    (made.workspace / "shop.py").write_text(SOURCE)
    return made, model


def prompt_of(model: FakeModel) -> str:
    return "\n".join(message.text for message in model.prompts[0])


def context_of(made: Bench) -> str:
    return "\n".join(event["content"] for event in made.of_type("agent_context"))


async def test_what_is_found_is_told_as_data_with_lines_and_score(tmp_path: Path) -> None:
    made, model = bench(tmp_path)
    await made.run(PROMPT, use_cgrag=True)
    found = re.search(
        r"<(context-\d+): found by search: shop.py, lines 1 to 2, score (0\.\d\d)>\n(.*?)\n</\1>",
        prompt_of(model),
        re.DOTALL,
    )
    assert found is not None
    assert "def pay_invoice(total):" in found[3]
    assert f"search result shop.py, lines 1 to 2, score {found[2]}" in context_of(made)
    assert "grow_tree" not in prompt_of(model)  # it does not fit
    assert "by words alone" in context_of(made)


async def test_nothing_is_searched_unasked_and_the_setting_asks(tmp_path: Path) -> None:
    made, model = bench(tmp_path)
    await made.run(PROMPT)
    assert "pay_invoice" not in prompt_of(model)
    assert not Indexes(made.parts.home.path, made.workspace.resolve()).exists(None)
    (tmp_path / "other").mkdir()
    made, model = bench(tmp_path / "other", use_cgrag=True)
    await made.run(PROMPT)
    assert "def pay_invoice" in prompt_of(model)
    await made.run(PROMPT, use_cgrag=False)
    assert "def pay_invoice" not in model.prompts[1][-1].text


async def test_index_that_is_not_there_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    made, _ = bench(tmp_path)
    state = await made.run(PROMPT, use_cgrag=True, indexes=["docs"])
    assert state["reason"] == "answered"
    assert "retrieval, left out: the workspace has no index 'docs'" in context_of(made)


async def test_run_that_may_search_no_index_is_told_so(tmp_path: Path) -> None:
    made, _ = bench(tmp_path)
    await made.run(PROMPT, use_cgrag=True, indexes=[])
    assert "this run may search no index" in context_of(made)


async def test_prompt_that_fits_nothing_is_said(tmp_path: Path) -> None:
    made, _ = bench(tmp_path)
    await made.run("zebra", use_cgrag=True)
    assert "nothing in the index fits" in context_of(made)


@pytest.mark.parametrize("tool", ["search_code", "read_file"])
async def test_what_a_rule_keeps_from_tools_is_not_retrieved(tmp_path: Path, tool: str) -> None:
    made, model = bench(tmp_path)
    rule = f'[[rule]]\ndecision = "deny"\ntool = "{tool}"\npath = "shop.py"\n'
    (made.parts.home.path / "policy.toml").write_text(rule)
    await made.run(PROMPT, use_cgrag=True)
    assert "pay_invoice" not in prompt_of(model)


async def test_five_places_at_most_within_the_budget(tmp_path: Path) -> None:
    made, model = bench(tmp_path)
    for number in range(9):
        body = "".join(f"    invoice_{line} = 'invoice of the month, paid slowly'\n" for line in range(58))
        (made.workspace / f"f{number}.py").write_text(f"def pay_invoice_{number}():\n{body}")
    (made.workspace / "wood.py").write_text("".join(f"def tree_{n}():\n    grow()\n\n\n" for n in range(90)))
    await made.run(PROMPT, use_cgrag=True)
    sections = re.findall(r"<(context-\d+): found by search.*?</\1>", prompt_of(model), re.DOTALL)
    assert 1 <= len(sections) <= retrieval.RESULTS
    text = prompt_of(model)
    told = text[text.index("found by search") :]
    assert len(told) <= 4_000 * 4 + 2_000


async def test_build_at_the_beginning_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "FIRST_S", 0.0)
    made, _ = bench(tmp_path)
    await made.run(PROMPT, use_cgrag=True)
    assert "index: reading files, 0 of 1" in [event["content"] for event in made.of_type("agent_notice")]


async def test_stop_ends_a_build_at_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, heard = threading.Event(), threading.Event()

    def build(*given: Any) -> None:
        watch: Watch = given[3]
        began.set()
        while not watch.is_stopped():
            heard.wait(0.01)
        heard.set()
        raise ValueError

    monkeypatch.setattr(retrieval, "look_up", build)
    made, _ = bench(tmp_path)
    running = asyncio.create_task(made.run(PROMPT, use_cgrag=True))
    assert await asyncio.to_thread(began.wait, 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert heard.is_set()


async def test_fault_of_the_search_leaves_the_run_its_minimum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr(retrieval, "look_up", fail)
    made, _ = bench(tmp_path)
    state = await made.run(PROMPT, use_cgrag=True)
    assert state["reason"] == "answered"
    assert "retrieval, left out: it failed (OSError)" in context_of(made)
