"""Paths as text stay inside or are refused."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import PathEscapeError, ToolValidationError
from lockstitch.tools.paths import is_git, is_protected, relative_to_roots, shown

ROOTS = ("/srv/link", "/real/ws")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("", "."),
        (".", "."),
        ("./a//b/", "a/b"),
        ("a/../b", "b"),
        ("a/..", "."),
        ("/srv/link", "."),
        ("/real/ws/a/./b", "a/b"),
        ("//real/ws/a", "a"),
        ("/real/ws/../ws/a", "a"),
        ("~/.ssh", "~/.ssh"),
        ("a\\..\\b", "a\\..\\b"),
        ("...", "..."),
        ("ü\u202e\n", "ü\u202e\n"),
    ],
)
def test_path_inside_is_made_relative(path: str, inside: str) -> None:
    assert relative_to_roots(path, ROOTS) == inside


@pytest.mark.parametrize(
    "path", ["..", "../ws/a", "a/../../a", "/", "/etc/passwd", "/real/ws2/a", "/real/ws/../x", "/real"]
)
def test_path_that_leads_out_is_refused_and_not_repeated(path: str) -> None:
    with pytest.raises(PathEscapeError) as caught:
        relative_to_roots(path, ROOTS)
    assert path.strip("/.") == "" or path not in caught.value.message


@pytest.mark.parametrize("path", ["a\0b", "/real/ws/\0", "\ud800"])
def test_path_no_file_can_have_is_invalid(path: str) -> None:
    with pytest.raises(ToolValidationError):
        relative_to_roots(path, ROOTS)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b", "real", "ws", "work"])).map("/".join))
def test_what_is_not_refused_names_a_place_below_the_root(path: str) -> None:
    try:
        inside = relative_to_roots(path, ROOTS)
    except PathEscapeError:
        return
    assert ".." not in inside.split("/")
    assert not inside.startswith("/")
    assert relative_to_roots(inside, ROOTS) == inside
    if not path.startswith("/"):
        assert posixpath.normpath(f"/r/{path}") == posixpath.normpath(f"/r/{inside}")


@pytest.mark.parametrize("name", [".git", ".GIT", ".g\u200cit", "\u2060.Git"])
def test_spellings_of_git_are_known(name: str) -> None:
    assert is_git(name)


@pytest.mark.parametrize("name", [".gitignore", "git", ".github", ""])
def test_other_names_are_not_git(name: str) -> None:
    assert not is_git(name)


@pytest.mark.parametrize(
    "name",
    [
        *(".git.", ".git ", ".git. .", ".git::$INDEX_ALLOCATION", ".GIT:x", "GIT~1", "git~1 "),
        *(
            ".lockstitch",
            ".LockStitch",
            ".lock\u017ftitch",
            ".loc\u212astitch",
            ".lockstitch..",
            ".lo\u200dckstitch",
        ),
    ],
)
def test_spellings_of_protected_names_are_known(name: str) -> None:
    assert is_protected(name)


@pytest.mark.parametrize(
    "name", [".gitignore", ".lockstitch2", "lockstitch", "git~10", "~", ".", ":", "x:.git"]
)
def test_other_names_are_not_protected(name: str) -> None:
    assert not is_protected(name)


def test_name_is_shown_on_one_line_without_escapes() -> None:
    assert shown("ünï code.txt") == "ünï code.txt"
    assert shown("a\nb\x1b[31m\udc80\u202e") == r"a\nb\x1b[31m\udc80\u202e"
