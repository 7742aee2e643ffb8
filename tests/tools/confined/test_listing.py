"""Listings: order, depth, globs, limits."""

import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.spill import SpillStore
from lockstitch.tools.confined.entry import Entry, Kind
from lockstitch.tools.confined.listing import SEEN_MAX, list_entries, matches_glob, render_listing
from lockstitch.tools.workspace import Workspace

TREE = {
    ".": ["a/", "b.py", "node_modules/", "z@"],
    "a": ["deep/", "x.py", "y.txt"],
    "a/deep": ["w.py"],
    "node_modules": ["lots.js"],
}


def entries_of(path: str) -> list[Entry]:
    if path not in TREE:
        raise ToolExecutionError(f"no {path}")
    kinds: dict[str, Kind] = {"/": "folder", "@": "link"}
    prefix = "" if path == "." else f"{path}/"
    return [
        Entry(name.rstrip("/@"), prefix + name.rstrip("/@"), kinds.get(name[-1], "file"), 7, 0)
        for name in TREE[path]
    ]


def paths(pattern: str | None = None, depth: int = 1, path: str = ".") -> list[str]:
    listing = list_entries(entries_of, path, pattern=pattern, depth=depth, limit=100)
    return [entry.path for entry in listing.entries]


def test_depth_one_is_the_folder_alone() -> None:
    assert paths() == ["a", "b.py", "node_modules", "z"]


def test_folder_stands_before_its_content_and_closed_ones_are_not_entered() -> None:
    everything = ["a", "a/deep", "a/deep/w.py", "a/x.py", "a/y.txt", "b.py", "node_modules", "z"]
    assert paths(depth=3) == everything
    assert paths(depth=2) == [path for path in everything if path != "a/deep/w.py"]
    assert paths(path="node_modules") == ["node_modules/lots.js"]


def test_pattern_chooses_by_name_or_by_path_below_the_folder() -> None:
    assert paths("*.py", depth=3) == ["a/deep/w.py", "a/x.py", "b.py"]
    assert paths("deep/*.py", depth=3, path="a") == ["a/deep/w.py"]
    assert paths("a/*.py", depth=3) == ["a/x.py"]


def test_missing_folder_is_an_error_but_one_below_is_left_out() -> None:
    with pytest.raises(ToolExecutionError):
        paths(path="none")
    TREE["a"].append("locked/")
    try:
        assert "a/locked" in paths(depth=3)
    finally:
        TREE["a"].pop()


def test_limit_counts_the_rest_and_says_so() -> None:
    listing = list_entries(entries_of, ".", pattern=None, depth=3, limit=2)
    assert listing.total == 8
    assert render_listing(listing).splitlines() == [
        "folder          -  a/",
        "folder          -  a/deep/",
        "[cut: 2 of 8 entries shown; a subfolder as path, a pattern or a smaller max_depth gives less]",
    ]


def test_entries_that_are_not_shown_can_be_read(tmp_path: Path) -> None:
    spill = SpillStore(tmp_path, "t")
    note = render_listing(list_entries(entries_of, ".", pattern=None, depth=3, limit=2), spill=spill)
    *_, spill_id = re.findall(r'read_file\(path="spill:(\w+)"\) gives the whole', note)
    whole = render_listing(list_entries(entries_of, ".", pattern=None, depth=3, limit=8), spill=spill)
    assert spill.read(spill_id) == whole
    assert len(spill.ids()) == 1


def test_counting_ends_somewhere() -> None:
    many = [Entry(str(n), str(n), "file", 0, 0) for n in range(SEEN_MAX + 1)]
    listing = list_entries(lambda _: many, ".", pattern="none", depth=1, limit=1)
    assert "given up" in render_listing(listing)


def test_row_tells_kind_size_and_what_is_closed() -> None:
    rows = render_listing(list_entries(entries_of, ".", pattern=None, depth=1, limit=9)).splitlines()
    assert rows[1:] == [
        "file            7  b.py",
        "folder          -  node_modules/ [not entered]",
        "link            -  z",
    ]
    assert render_listing(list_entries(entries_of, ".", pattern="q", depth=1, limit=9)) == "[no entries]"


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("a/b/c.py", "*.py", True),
        ("a/b/c.py", "**/*.py", True),
        ("c.py", "**/*.py", True),
        ("a/b/c.py", "a/**", True),
        ("a/b/c.py", "a/**/c.py", True),
        ("a/c.py", "a/**/c.py", True),
        ("a/b/c.py", "*/c.py", False),
        ("a/b/c.py", "a/*/[a-c].p?", True),
        ("A/c.py", "a/*.py", False),
        ("a/b", "/a/b/", True),
        ("a/b", "**", True),
        ("a/b", "**/**", True),
        ("a/b", "**/b", True),
        ("a/b", "**/a", False),
        ("b", "**/b", True),
        ("a/b", "/", False),
        ("a\nb", "a?b", True),
        ("a/[b", "a/[b", True),
    ],
)
def test_glob(path: str, pattern: str, fits: bool) -> None:
    assert matches_glob(path, pattern) is fits


def test_hostile_glob_is_quick() -> None:
    began = time.perf_counter()
    assert not matches_glob("/".join("a" * 40), "/".join(["**"] * 60) + "/b")
    assert not matches_glob("a" * 200, "*a" * 90 + "b")
    assert time.perf_counter() - began < 20  # one that tries every way needs years


NAMES = st.sampled_from(["a", "b.py", "ü", "c d", "-x", "new\nline", ".hidden", "node_modules"])


@settings(max_examples=40, deadline=None)
@given(st.sets(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=12), st.integers(1, 5))
def test_listing_shows_each_name_that_is_there_once(paths: set[str], limit: int) -> None:
    with tempfile.TemporaryDirectory() as base:
        for path in paths:
            (Path(base) / path).mkdir(parents=True, exist_ok=True)
        with Workspace(Path(base)) as workspace:
            listing = list_entries(workspace.entries, ".", pattern=None, depth=9, limit=limit)
        there = [path.relative_to(base) for path in Path(base).rglob("*")]
    open_ones = {str(path) for path in there if "node_modules" not in path.parts[:-1]}
    assert {entry.path for entry in listing.chosen} == open_ones
    assert (listing.total, len(listing.entries)) == (len(open_ones), min(limit, len(open_ones)))
