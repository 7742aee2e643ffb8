import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from lockstitch.studio.chat.completion import TalkCompleter, mention_of
from lockstitch.studio.chat.history import TypedHistory
from lockstitch.studio.chat.paths import WorkspacePaths, rank_paths, with_folders

PATHS = ("a b.txt", "docs/", "docs/guide.md", "src/", "src/app/", "src/app/main.py", "src/main.py")


def completed(line: str, paths: Sequence[str] = PATHS) -> list[str]:
    """The lines that Tab offers."""
    completer = TalkCompleter(
        commands=[("mode", "m"), ("model", "n"), ("new", "o")],
        values=lambda name: [("plan", ""), ("auto", "")] if name == "mode" else [],
        paths=lambda: paths,
    )
    found = completer.get_completions(Document(line), CompleteEvent())
    return [line[: len(line) + one.start_position] + one.text for one in found]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/mo", ["/mode", "/model"]),
        ("/mode ", ["/mode plan", "/mode auto"]),
        ("/mode a", ["/mode auto"]),
        ("/new ", []),
        ("//mo", []),
        ("say /mo", []),
        ("see @gui", ["see @docs/guide.md"]),
        ("@src ma", []),
        ("@s/main", ["@src/main.py", "@src/app/main.py"]),
        ('@"a', ['@"a b.txt"', "@src/app/"]),
        ("me@docs", []),
        ("@SRC/", ["@src/", "@src/app/", "@src/main.py", "@src/app/main.py"]),
    ],
)
def test_tab_offers_commands_values_and_paths(line: str, offered: list[str]):
    assert completed(line)[: len(offered) or None] == offered


def test_names_that_would_end_too_early_are_quoted():
    assert mention_of("a b.txt") == '@"a b.txt"'
    assert mention_of("a b/") == '@"a b/'  # and typing goes on
    assert mention_of("src/a.py") == "@src/a.py"
    assert completed("@", ['x"y']) == []


@given(st.lists(st.text("ab/ ", min_size=1, max_size=8), max_size=20), st.text("ab/", max_size=4))
def test_what_is_offered_fits_what_was_typed(paths: list[str], typed: str):
    for path in rank_paths(paths, typed, limit=10):
        assert path in paths
        assert set(typed.replace("/", "")) <= set(path)


def test_paths_are_those_that_git_does_not_ignore(tmp_path: Path):
    home = tmp_path / "home"
    for name in ("src/a.py", "src/deep/b.py", "built/x.o", "é.txt", "home/threads.db", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("built/\n")
    paths = WorkspacePaths(tmp_path, home=home)
    assert paths.paths() == ("src/", "src/a.py", "src/deep/", "src/deep/b.py", "é.txt")


def test_a_list_is_asked_for_once_in_a_burst(tmp_path: Path):
    now = [0.0]
    paths = WorkspacePaths(tmp_path, home=tmp_path / "home", monotonic=lambda: now[0])
    assert paths.paths() == ()
    (tmp_path / "new.py").write_text("x")
    assert paths.paths() == ()
    now[0] = 6.0
    assert paths.paths() == ("new.py",)


def test_folders_are_offered_with_their_files():
    assert with_folders(["a/b/c", "d"]) == ("a/", "a/b/", "a/b/c", "d")


def test_history_is_kept_for_its_owner_alone_and_without_lines_that_begin_with_a_blank(tmp_path: Path):
    path = tmp_path / "chat_history"
    for line in ("first\nof two", " a secret", "second", "x" * 20_000):
        TypedHistory(path).append_string(line)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(TypedHistory(path).load_history_strings()) == ["second", "first\nof two"]
