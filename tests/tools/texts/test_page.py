"""Pages of numbered lines meet end to end."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.spill import SpillStore
from lockstitch.tools.texts.page import LINE_CHARS, build_page, fold_lines

KEPT = SpillStore(Path("nowhere"), "t")  # nothing here is long enough to be kept


def test_lines_are_numbered_from_the_offset() -> None:
    page = build_page(["a", "b", "c"], offset=2, limit=5, max_chars=1000, spill=KEPT)
    assert page.text == "     2\tb\n     3\tc"
    assert (page.first, page.last, page.total) == (2, 3, 3)


def test_rest_is_said_with_the_call_that_gives_it() -> None:
    page = build_page(["x"] * 12, offset=1, limit=5, max_chars=1000, spill=KEPT)
    assert page.text.endswith("[cut: 5 of 12 lines shown; read_file with offset=6 gives the rest]")


def test_long_line_is_cut_and_said(tmp_path: Path) -> None:
    spill = SpillStore(tmp_path, "t")
    page = build_page(["x" * 5000], offset=1, limit=1, max_chars=10, spill=spill)
    (kept,) = spill.ids()
    assert spill.read(kept) == "x" * 5000
    note = f'[cut: 2000 of 5000 characters shown; read_file(path="spill:{kept}") gives the whole]'
    assert page.text.endswith("x" * LINE_CHARS + f" {note}")


def test_offset_after_the_end_is_refused() -> None:
    with pytest.raises(ToolValidationError, match="2 lines, so there is no line 3"):
        build_page(["a", "b"], offset=3, limit=1, max_chars=100, spill=KEPT)


def test_empty_text_has_an_empty_page() -> None:
    page = build_page([], offset=1, limit=5, max_chars=100, spill=KEPT)
    assert (page.text, page.last, page.total) == ("[the text is empty]", 0, 0)


@given(st.lists(st.text(max_size=30), min_size=1, max_size=50), st.integers(1, 9), st.integers(1, 300))
def test_following_the_note_shows_every_line_once(lines: list[str], limit: int, max_chars: int) -> None:
    offset, seen = 1, 0
    while offset <= len(lines):
        page = build_page(lines, offset=offset, limit=limit, max_chars=max_chars, spill=KEPT)
        assert page.last >= offset
        assert ("gives the rest" in page.text) == (page.last < len(lines))
        seen += page.last - offset + 1
        offset = page.last + 1
    assert seen == len(lines)


@given(st.lists(st.sampled_from(["", "a", "b" * LINE_CHARS, "c" * (2 * LINE_CHARS + 1)])))
def test_folding_loses_nothing(lines: list[str]) -> None:
    folded = fold_lines(lines)
    assert "".join(folded) == "".join(lines)
    assert all(len(line) <= LINE_CHARS for line in folded)
    assert len(folded) >= len(lines)
