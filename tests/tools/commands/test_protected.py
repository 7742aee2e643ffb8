"""Which places of a workspace are kept from a command, and that nothing of ours stays there."""

import subprocess
from pathlib import Path

import pytest

from lockstitch.tools.commands.protected import Protected, find_protected, open_protected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    return root


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_missing_repository_and_settings_are_masked(root: Path) -> None:
    assert find_protected(root) == Protected(masked=(root / ".git", root / ".lockstitch"))


def test_repository_is_writable_but_for_what_git_runs(root: Path) -> None:
    git(root, "init", "-q")
    found = find_protected(root)
    assert found.writable == (root / ".git",)
    assert found.kept == (root / ".git" / "hooks", root / ".git" / "config")
    assert found.masked == (root / ".git" / "modules", root / ".lockstitch")
    assert found.unwanted == (root / ".git" / "commondir", root / ".git" / "config.worktree")


def test_linked_worktree_opens_its_repository(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", str(linked))
    own = root / ".git" / "worktrees" / "linked"
    found = find_protected(linked)
    assert found.writable == (root / ".git", own.parent, own)
    assert {linked / ".git", root / ".git" / "config", own / "commondir", own / "gitdir"} <= set(found.kept)
    assert own / "config.worktree" in found.unwanted


def test_other_worktrees_keep_what_names_their_repository(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"))
    own = root / ".git" / "worktrees" / "linked"
    found = find_protected(root)
    assert found.writable == (root / ".git", own.parent, own)
    assert {own / "commondir", own / "gitdir"} <= set(found.kept)
    assert own / "config.worktree" in found.unwanted


def test_worktree_within_the_workspace_is_like_any_other_folder(root: Path) -> None:
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "worktree", "add", "-q", "linked")
    assert find_protected(root).writable == (root / ".git",)


@pytest.mark.parametrize("target", ["/", "../elsewhere/.git/worktrees/x", "../elsewhere/.git", "", "\0"])
def test_pointer_that_nobody_answers_opens_nothing(target: str, root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    (elsewhere / ".git" / "worktrees" / "x").mkdir(parents=True)
    (elsewhere / ".git" / "worktrees" / "x" / "gitdir").write_text("/other/.git\n")
    (root / ".git").write_text(f"gitdir: {target}\n")
    found = find_protected(root)
    assert (found.writable, found.kept) == ((), (root / ".git",))


def test_repository_beside_its_pointer_is_kept_like_one_in_place(root: Path) -> None:
    git(root, "init", "-q", "--separate-git-dir", "repository", ".")
    found = find_protected(root)
    assert found.writable == (root / "repository",)
    assert {root / ".git", root / "repository" / "config"} <= set(found.kept)


def test_link_is_neither_followed_nor_masked(root: Path, tmp_path: Path) -> None:
    (root / ".git").symlink_to(tmp_path)
    (root / ".lockstitch").symlink_to(tmp_path)
    assert find_protected(root) == Protected()


def test_masks_are_there_while_they_are_needed_and_gone_afterwards(root: Path) -> None:
    with open_protected(root):
        with open_protected(root):
            assert (root / ".git").is_dir()
        assert (root / ".git").is_dir()  # the first one still needs it
    assert list(root.iterdir()) == []


def test_what_a_person_put_there_meanwhile_stays(root: Path) -> None:
    with open_protected(root):
        (root / ".lockstitch" / "policy.toml").touch()
    assert (root / ".lockstitch" / "policy.toml").exists()


def test_settings_of_git_that_a_command_made_are_deleted(root: Path) -> None:
    git(root, "init", "-q")
    with open_protected(root):
        (root / ".git" / "commondir").write_text("../evil")
    assert not (root / ".git" / "commondir").exists()


def test_link_that_a_command_replaced_leads_where_it_did(root: Path, tmp_path: Path) -> None:
    git(root, "init", "-q", "--template=")
    hooks = root / ".git" / "hooks"
    hooks.symlink_to(tmp_path / "shared")
    with open_protected(root):
        hooks.unlink()
        hooks.mkdir()
        (hooks / "pre-commit").write_text("evil")
    assert hooks.readlink() == tmp_path / "shared"
