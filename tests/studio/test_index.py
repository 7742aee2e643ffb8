"""`lockstitch index` and `lockstitch search` at the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.indexes import Indexes

Lockstitch = Callable[..., Any]


@pytest.fixture
def project(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the workspace, and no encoder: the model takes a second to load."""
    monkeypatch.setenv("LOCKSTITCH_EMBEDDINGS", "off")
    (workspace / "shop.py").write_text("def pay_invoice():\n    return '\x1b[2J'\n")
    return workspace


def test_index_is_built_shown_listed_and_dropped(lockstitch: Lockstitch, project: Path) -> None:
    built = lockstitch("index", "build")
    assert "1 files, 1 places" in built.out
    assert "by words alone" in built.out
    assert json.loads(lockstitch("index", "status", "--json").out)["chunks"] == 1
    assert "default" in lockstitch("index", "list").out
    assert lockstitch("index", "refresh").code == 0
    assert "Dropped" in lockstitch("index", "drop").out
    assert "No index" in lockstitch("index", "list").out


def test_a_file_that_a_rule_denies_is_in_no_index(lockstitch: Lockstitch, project: Path, home: Path) -> None:
    (project / "other.py").write_text("def sell():\n    return 1\n")
    (home / "policy.toml").write_text('[[rule]]\ndecision = "deny"\npath = "shop.py"\n')
    assert "1 files, 1 places" in lockstitch("index", "build").out
    assert "Nothing fits" in lockstitch("search", "paying invoices").err


@pytest.mark.parametrize("verb", ["status", "refresh", "drop"])
def test_index_that_is_not_there_is_told_with_those_that_are(
    verb: str, lockstitch: Lockstitch, project: Path
) -> None:
    lockstitch("index", "build", "docs")
    done = lockstitch("index", verb)
    assert done.code == 2
    assert "there are: docs" in done.err


def test_index_that_another_process_builds_is_refused(
    lockstitch: Lockstitch, project: Path, home: Path
) -> None:
    lockstitch("index", "build")
    with hold_index(Indexes(home, project.resolve()).path(None)):
        done = lockstitch("index", "build")
    assert done.code == 2
    assert "another process builds this index" in done.err


def test_search_builds_what_it_needs_and_shows_places(lockstitch: Lockstitch, project: Path) -> None:
    done = lockstitch("search", "paying invoices")
    assert done.code == 0
    assert "shop.py:1-2 pay_invoice" in done.out
    assert "\x1b" not in done.out
    found = json.loads(lockstitch("search", "paying invoices", "--json").out)
    assert (found["path"], found["first_line"], found["why"]) == ("shop.py", 1, ["words"])


def test_search_that_finds_nothing_ends_with_1(lockstitch: Lockstitch, project: Path) -> None:
    done = lockstitch("search", "zebra")
    assert (done.code, done.out) == (1, "")
    assert "Nothing fits" in done.err
