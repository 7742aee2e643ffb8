"""Paths as text: what a model may write down, and how names are shown. Touches no disk."""

import os
import posixpath
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field

from lockstitch.state.errors import PathEscapeError, ToolValidationError

PATH_CHARS: Final = 4096  # PATH_MAX of Linux
ROOT: Final = "."  # the workspace itself, as a relative path
GIT_FOLDER: Final = ".git"
SETTINGS_FOLDER: Final = ".lockstitch"  # what a project tells us: a model that wrote it would rule itself
_SHORT_NAMES: Final = {"git~1": GIT_FOLDER}  # what Windows' file systems also call it, as git itself checks

# Beside these three, in any folder, git takes that folder for a repository (gitrepository-layout(5)).
REPOSITORY_MARKS: Final = frozenset({"head", "objects", "refs"})
REPOSITORY_NAMES: Final = REPOSITORY_MARKS | {
    *("branches", "commondir", "config", "config.worktree", "hooks", "index", "info", "logs", "modules"),
    *("packed-refs", "remotes", "shallow", "worktrees"),
}

FilePath = Annotated[
    str,
    Field(
        description="relative to the workspace, or absolute inside it", min_length=1, max_length=PATH_CHARS
    ),
]
"""A file as tools are given it."""


def relative_to_roots(path: str, roots: Iterable[str]) -> str:
    """The path below the first of `roots` it lies in: posix, without `.` and `..`, "." for the root.

    Args:
        path: relative to the root, or absolute. Empty means the root.
        roots: absolute spellings of the same root, links resolved or not.

    Raises:
        ToolValidationError: it holds a NUL byte or a character that no file name can hold.
        PathEscapeError: it leads out; the message does not repeat it.
    """
    _check_characters(path)
    if not path.startswith("/"):
        return _normalise(path)
    absolute = "/" + posixpath.normpath(path).lstrip("/")  # normpath keeps a leading `//`
    below = below_roots(absolute, roots)
    if below is None:
        raise escape()
    return below


def below_roots(absolute: str, roots: Iterable[str]) -> str | None:
    """What is left of an absolute path below the first root that holds it; None when none does."""
    for root in roots:
        if absolute == root:
            return ROOT
        prefix = root.rstrip("/") + "/"
        if absolute.startswith(prefix):
            return absolute.removeprefix(prefix).strip("/") or ROOT
    return None


def escape(path: str | None = None) -> PathEscapeError:
    """The one wording for a path out of the workspace; `path` names a relative one whose links lead out."""
    what = "that path" if path is None else repr(path)
    return PathEscapeError(
        f"{what} leads out of the workspace. Name a path relative to the workspace's root."
    )


def is_git(name: str) -> bool:
    """Whether a file system could take the name of a folder or file for `.git`."""
    return plain_name(name) == GIT_FOLDER


def is_protected(name: str) -> bool:
    """Whether file tools leave what is so named, and all in it, to git and to the person."""
    return plain_name(name) in {GIT_FOLDER, SETTINGS_FOLDER}


def plain_name(name: str) -> str:
    """The name as the most lenient file system reads it; for comparing, not for opening.

    Some ignore case, how an accent is composed, and invisible characters (CVE-2014-9390); some drop dots
    and blanks at the end, or take what follows a colon for a stream of the same file (CVE-2019-1352).
    """
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFC", visible).casefold().partition(":")[0].rstrip(". ")
    return _SHORT_NAMES.get(folded, folded)


def shown(name: str) -> str:
    """The name as it may stand in a line of text: a newline, an escape or a stray byte is spelt out."""
    return name if name.isprintable() else ascii(name)[1:-1]


def _normalise(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise escape()
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts) or ROOT


def _check_characters(path: str) -> None:
    if "\0" in path:
        raise ToolValidationError("a path cannot hold a NUL byte.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ToolValidationError(
            "the path holds a character that no file name here can, such as half of a surrogate pair."
        ) from error
