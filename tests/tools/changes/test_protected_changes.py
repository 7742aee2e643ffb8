"""Which changes of a command are left out of its commit."""

import pytest

from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes.protected_changes import take_out_protected

FILE, FOLDER = Node("file", 0o644, "1" * 64, 1), Node("folder", 0o755)


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/modules/x/config",
        ".git/commondir",
        ".LockStitch/policy.toml",
        ".Git/Hooks",
    ],
)
def test_what_would_be_run_or_obeyed_is_left_out_and_said(path: str) -> None:
    kept, words = take_out_protected([Change(path, None, FILE), Change("src/app.py", FILE, None)])
    assert kept == [Change("src/app.py", FILE, None)]
    assert words == [f"{path} was not kept: git or Lockstitch would run or obey it"]


def test_commit_in_the_repository_is_kept() -> None:
    names = (".git/index", ".git/refs/heads/main", ".git/HEAD", "sub/.git/config", ".github/hooks/x", ".")
    changes = [Change(path, None, FILE) for path in names]
    assert take_out_protected(changes) == (changes, [])


@pytest.mark.parametrize(("before", "after"), [(None, FOLDER), (FOLDER, None), (FOLDER, FILE), (FILE, None)])
def test_repository_cannot_be_made_or_removed(before: Node | None, after: Node | None) -> None:
    changes = [Change(".git", before, after), *(Change(f".git/{name}", before, after) for name in "abcdef")]
    kept, words = take_out_protected(changes)
    assert kept == []
    assert len(words) == 6
    assert words[-1] == "nor were 2 more such files"


def test_mode_of_the_repository_may_change() -> None:
    changes = [Change(".git", FOLDER, Node("folder", 0o700)), Change(".git/index", FILE, FILE)]
    assert take_out_protected(changes) == (changes, [])
