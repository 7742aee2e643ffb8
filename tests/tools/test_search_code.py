"""The tool `search_code`: what it answers, what it builds by itself, and that it says what is missing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from lockstitch.state.errors import SystemFaultError, ToolExecutionError, ToolValidationError
from lockstitch.state.events import AgentToolProgress, Event
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.code_index import look_up, telling
from lockstitch.tools.code_index.build import Progress
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.encoder import Encoder
from lockstitch.tools.code_index.index_file import IndexFile
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


async def test_run_that_is_held_to_some_indexes_searches_no_other(context: ToolContext) -> None:
    await search(context, "invoice")
    docs = replace(context, indexes=("docs", "default"))
    assert (await search(docs, "invoice", context_name="default")).data["result_count"] == 1
    with pytest.raises(ToolExecutionError, match="no index 'docs'"):
        await search(docs, "invoice")
    with pytest.raises(ToolValidationError, match="may not search 'other', but: docs, default"):
        await search(docs, "invoice", context_name="other")
    with pytest.raises(ToolValidationError, match="no index: use grep_files"):
        await search(replace(context, indexes=()), "invoice")


async def test_full_disk_leaves_the_old_index_searched_and_is_said(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    await search(context, "invoice")
    (context.workspace.root / "new.py").write_text("def cancel_invoice():\n    return 0\n")

    def fail(*_: Any, **__: Any) -> None:
        raise SystemFaultError("the disk is full: free some space.")

    monkeypatch.setattr(IndexFile, "put_file", fail)
    result = await search(context, "invoice")
    assert result.data["results"][0]["path"] == "shop.py"
    assert "[the index is not up to date: the disk is full: free some space.]" in result.output


async def test_long_build_tells_how_far_it_is(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "FIRST_S", 0.0)
    events: list[Event] = []
    await search(replace(context, emit=events.append, call_id="c7"), "invoice")
    assert [(e.type, e.call_id, e.content) for e in events if isinstance(e, AgentToolProgress)] == [
        ("agent_tool_progress", "c7", "index: reading files, 0 of 1")
    ]


def test_progress_is_told_now_and_then() -> None:
    times = iter([0.0, 0.5, 1.0, 1.0, 2.0, 4.0, 4.0])
    told: list[str] = []
    tell = telling.Telling(told.append, monotonic=lambda: next(times))
    for done in range(4):
        tell(Progress("meaning", done, 4000))
    assert told == ["index: encoding, 1 of 4,000", "index: encoding, 3 of 4,000"]


class Hanging(Embeddings):
    """An endpoint that does not answer until it is told to."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.set()
        assert self.may.wait(60)
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0]


async def test_stop_does_not_wait_for_an_endpoint_that_hangs(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    monkeypatch.setattr(look_up, "find_encoder", lambda settings: Encoder("hanging", hanging))
    task = asyncio.create_task(search(context, "invoice"))
    assert await asyncio.to_thread(hanging.asked.wait, 20)
    task.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not hanging.may.is_set()
    hanging.may.set()


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
