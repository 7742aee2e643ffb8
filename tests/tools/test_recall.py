"""The search through a thread: what is found, in which order, and how much of it is shown."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.facts import FactStore
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.history import HistoryEntry, search_history
from lockstitch.tools.recall import HITS_MAX, recall
from lockstitch.tools.result import ToolResult
from lockstitch.tools.workspace import Workspace

Search = Callable[..., ToolResult]


def entry(number: int, text: str, who: str = "model") -> HistoryEntry:
    return HistoryEntry(number, who, text)


@pytest.fixture
def spill(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "spill", "t")


@pytest.fixture
def search(tmp_path: Path, spill: SpillStore) -> Iterator[Search]:
    with Workspace(tmp_path) as workspace:

        def run(query: str, *texts: str, offset: int = 0, **settings: Any) -> ToolResult:
            entries = [entry(number, text) for number, text in enumerate(texts, 1)]
            context = ToolContext(
                workspace=workspace, settings=load_settings(**settings), spill=spill, history=lambda: entries
            )
            result = recall.invoke({"query": query, "offset": offset, "call": context})
            assert isinstance(result, ToolResult)
            return result

        yield run


def texts_of(query: str, *texts: str, limit: int = 20, offset: int = 0) -> list[str]:
    entries = [entry(number, text) for number, text in enumerate(texts, 1)]
    return [hit.text for hit in search_history(entries, query, limit=limit, offset=offset).hits]


def test_a_hit_is_shown_with_its_place_and_its_neighbours(search: Search) -> None:
    result = search("Port", "x", "a\nbefore\nthe  PORT is 5433\nafter\nz")
    assert result.output == "[message 2, model, line 3]\n  before\n> the  PORT is 5433\n  after"
    assert result.data == {"total": 1}


def test_case_and_the_width_of_blanks_do_not_matter() -> None:
    assert texts_of("  the port\tIS ", "x THE\u00a0 PORT is 1") == ["x THE\u00a0 PORT is 1"]
    assert texts_of("STRASSE", "Straße") == ["Straße"]


def test_the_line_itself_comes_before_lines_that_hold_it_and_those_before_shared_words() -> None:
    lines = ("error two", "error one two", "one error", "an error one two here")
    assert texts_of("error one two", *lines)[:2] == ["error one two", "an error one two here"]


def test_of_equal_lines_the_newest_comes_first() -> None:
    hits = search_history([entry(1, "same"), entry(2, "same")], "same", limit=5).hits
    assert [hit.entry.number for hit in hits] == [2, 1]


def test_rarer_words_count_more() -> None:
    common = [f"the test {n}" for n in range(30)]
    assert texts_of("test of zanzibar", *common, "zanzibar")[0] == "zanzibar"


def test_lines_that_share_only_common_words_are_no_hits() -> None:
    lines = [*(f"of {n}" for n in range(50)), "zanzibar quota"]
    assert texts_of("quota of zanzibar", *lines) == ["zanzibar quota"]


@pytest.mark.parametrize("query", ["(", "[a-", "a.*b", ".+", "\\d", "(a+)+$"])
def test_a_query_is_never_a_regular_expression(query: str) -> None:
    assert texts_of(query, "aab 1", f"x {query} y") == [f"x {query} y"]


def test_more_hits_than_fit_are_had_by_their_offset(search: Search) -> None:
    texts = [f"hit {n}" for n in range(50)]
    first = search("hit", *texts)
    assert first.output.count("\n> ") == HITS_MAX
    assert first.output.endswith("[cut: 20 of 50 hits shown; recall with offset=20 gives the rest]")
    pages = [search("hit", *texts, offset=offset).output for offset in (0, 20, 40)]
    shown = [row for page in pages for row in page.split("\n") if row.startswith("> ")]
    assert shown == [f"> hit {n}" for n in reversed(range(50))]
    assert "No more hits" in search("hit", *texts, offset=50).output


def test_the_output_keeps_to_its_bound_and_says_so(search: Search) -> None:
    result = search("hit", *(f"hit {'x' * 250}{n}" for n in range(20)), output_chars=2_000)
    assert len(result.output) <= 2_000
    shown = result.output.count("\n> ")
    assert result.output.endswith(
        f"[cut: {shown} of 20 hits shown; recall with offset={shown} gives the rest]"
    )


def test_of_a_long_line_the_part_around_the_query_is_shown(search: Search) -> None:
    output = search("needle", "x" * 5_000 + "needle" + "y" * 5_000).output
    assert "needle" in output
    assert "[cut: 300 of 10006 characters shown;" in output
    assert len(output) < 500


def test_texts_kept_on_the_side_are_searched_and_named(search: Search, spill: SpillStore) -> None:
    spill_id = spill.keep("a\nthe needle\nb")
    assert search("needle").output == f"[spill:{spill_id}, line 2]\n  a\n> the needle\n  b"


def test_what_is_nowhere_is_said(search: Search) -> None:
    assert search("absent", "here").output.startswith("Nothing in this thread")
    assert search("absent").output.startswith("Nothing in this thread")


def test_a_blank_query_finds_nothing(search: Search) -> None:
    assert "blank" in search(" \n ", "x").output


def test_a_line_of_a_huge_thread_is_found(search: Search) -> None:
    texts = ["\n".join(f"line {n} of {m}" for n in range(200)) for m in range(50)]
    assert "> line 77 of 3\n" in search("line 77 of 3", *texts).output


def test_facts_of_the_workspace_that_fit_follow(tmp_path: Path, spill: SpillStore) -> None:
    (tmp_path / "ws").mkdir()
    with Workspace(tmp_path / "ws") as workspace, FactStore(tmp_path) as facts:
        facts.remember(str(workspace.root), "The tests need a database first.")
        facts.remember(str(workspace.root), "The person likes short answers.")
        context = ToolContext(
            workspace=workspace,
            settings=load_settings(embeddings="off"),
            spill=spill,
            history=lambda: [entry(1, "the database is down")],
            facts=facts,
        )
        for query, lines in (
            ("database", ["[message 1, model, line 1]", "> the database is down", ""]),
            ("answers", ["Nothing in this thread has these words. Try others."]),
        ):
            shown = recall.invoke({"query": query, "call": context}).output.splitlines()
            assert shown[: len(lines)] == lines
            assert shown[len(lines)].startswith("[facts kept of this workspace, by words alone")
            assert len(shown) == len(lines) + 2
        assert "facts kept" not in recall.invoke({"query": "database", "offset": 1, "call": context}).output
        assert "facts kept" not in recall.invoke({"query": "zebra", "call": context}).output
