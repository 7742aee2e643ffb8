"""The tool `search_code`: what it answers, what it builds by itself, and that it says what is missing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.indexes import Indexes
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.search_code import TOKENS_MAX, search_code
from lockstitch.tools.workspace import Workspace

SOURCE = "def pay_invoice(total):\n    return total\n\n\ndef grow_tree():\n    return 'größe'\n"
Search = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def context(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolContext]:
    monkeypatch.setenv("LOCKSTITCH_EMBEDDINGS", "off")  # words alone: the model takes a second to load
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "shop.py").write_text(SOURCE)
    with Workspace(tmp_path / "ws", hidden=(home,)) as workspace:
        yield ToolContext(
            workspace=workspace, settings=load_settings(), spill=SpillStore(tmp_path / "spill", "t")
        )


async def search(context: ToolContext, query: str, **given: Any) -> ToolResult:
    result = await search_code.ainvoke({"query": query, "call": context, **given})
    assert isinstance(result, ToolResult)
    return result


async def test_first_search_builds_the_index_and_finds(context: ToolContext) -> None:
    result = await search(context, "paying an invoice", max_results=1)
    assert result.output.splitlines()[:2] == [
        "1. shop.py:1-2 pay_invoice (0.71: words)",
        "def pay_invoice(total):",
    ]
    assert "by words alone" in result.output
    assert result.data["result_count"] == 1
    assert result.data["top_scores"] == [pytest.approx(0.706, abs=0.001)]
    assert 0 < result.data["tokens_used"] < 200
    assert result.data["results"][0]["path"] == "shop.py"


async def test_change_is_found_by_the_next_search(context: ToolContext) -> None:
    await search(context, "invoice")
    (context.workspace.root / "new.py").write_text("def cancel_invoice():\n    return 0\n")
    result = await search(context, "cancel invoice", max_results=1)
    assert result.data["results"][0]["symbol"] == "cancel_invoice"


async def test_without_leave_to_build_the_word_is_clear(context: ToolContext) -> None:
    strict = replace(context, settings=load_settings(index_build=False))
    with pytest.raises(ToolExecutionError, match=r"no index 'default'.*lockstitch index build"):
        await search(strict, "invoice")


async def test_unknown_name_is_told_with_those_there_are(context: ToolContext) -> None:
    await search(context, "invoice")
    with pytest.raises(ToolExecutionError, match=r"no index 'docs'. There are: default"):
        await search(context, "invoice", context_name="docs")
    with pytest.raises(ToolValidationError, match="an index's name"):
        await search(context, "invoice", context_name="../x")


async def test_relevance_is_between_nought_and_one_and_can_be_asked_for(context: ToolContext) -> None:
    scores = [hit["relevance"] for hit in (await search(context, "invoice total tree")).data["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    few = await search(context, "invoice total tree", min_relevance=scores[0] - 0.001)
    assert few.data["result_count"] == 1
    assert (await search(context, "zebra", min_relevance=0.1)).output.startswith("Nothing fits")


async def test_answer_keeps_to_its_budget_and_says_what_it_cut(context: ToolContext) -> None:
    for number in range(60):
        body = "".join(f"    invoice_{line} = 'invoice of the month'\n" for line in range(50))
        (context.workspace.root / f"f{number}.py").write_text(f"def invoice_{number}():\n{body}")
    wide = replace(context, settings=load_settings(output_chars=1_000_000))
    result = await search(wide, "invoice", max_results=50)
    assert "[cut: " in result.output
    assert result.data["tokens_used"] <= TOKENS_MAX
    assert len((await search(context, "invoice", max_results=50)).output) <= context.settings.output_chars


async def test_denied_paths_are_not_shown(context: ToolContext) -> None:
    denied = replace(context, is_denied=lambda path: path == "shop.py")
    assert (await search(denied, "invoice")).data["result_count"] == 0


async def test_index_that_another_process_builds_is_searched_as_it_is(context: ToolContext) -> None:
    await search(context, "invoice")
    path = Indexes(context.settings.home, context.workspace.root).path(None)
    with hold_index(path):
        result = await search(context, "invoice", max_results=1)
    assert result.data["result_count"] == 1
    assert "another process refreshes" in result.output


async def test_blank_query_is_refused(context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="blank"):
        await search(context, "  \n")


async def test_unicode_is_found_and_shown(context: ToolContext) -> None:
    assert "größe" in (await search(context, "größe")).output


async def test_cancelled_search_ends_and_the_next_one_goes_on(context: ToolContext) -> None:
    task = asyncio.create_task(search(context, "invoice"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await search(context, "invoice")).data["result_count"] >= 1
