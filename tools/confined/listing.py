"""What a folder holds, and the folders below it: chosen by glob, in order, to a depth."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from lockstitch.state.errors import PathEscapeError, ToolExecutionError
from lockstitch.state.spill import SpillStore
from lockstitch.tools.confined.entry import Entry
from lockstitch.tools.output import cut_note, whole_of
from lockstitch.tools.paths import shown

# Made by tools and full of files: shown, but entered only when named as `path`.
CLOSED_FOLDERS: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
    }
)
SEEN_MAX: Final = 50_000  # entries looked at in one call: a third of a second

Lister = Callable[[str], list[Entry]]
Fit = Callable[[str], object]  # true when a name, or a path, fits


@dataclass(frozen=True)
class Listing:
    """All entries that were chosen, of which `limit` are shown; `complete` is False when we gave up."""

    chosen: list[Entry]
    limit: int
    complete: bool = True

    @property
    def entries(self) -> list[Entry]:
        """Those that are shown."""
        return self.chosen[: self.limit]

    @property
    def total(self) -> int:
        """How many there are, or were found until we gave up."""
        return len(self.chosen)


def list_entries(entries_of: Lister, path: str, *, pattern: str | None, depth: int, limit: int) -> Listing:
    """List the folder `path` and, to `depth` folders deep, those below it; links are not entered.

    Args:
        entries_of: what a folder holds, by name.
        path: relative to the workspace.
        pattern: a glob on names, or on paths below `path` when it holds a `/`; None takes all.
        depth: 1 is the folder alone.
        limit: of entries shown.

    Raises:
        RecoverableError: the folder itself cannot be read; one below that cannot be is left out.
    """
    chosen: list[Entry] = []
    fits: Fit = bool if pattern is None else _fit_of(pattern)  # no path is empty
    for seen, (below, entry) in enumerate(_walk(entries_of, path, depth)):
        if seen == SEEN_MAX:
            return Listing(chosen, limit, complete=False)
        if fits(below):
            chosen.append(entry)
    return Listing(chosen, limit)


def render_listing(listing: Listing, *, spill: SpillStore | None = None) -> str:
    """One line an entry: kind, size in bytes, path; a folder's path ends with `/`.

    Args:
        listing: what was found.
        spill: where all lines are kept when some are not shown; None only says that there are more.

    Raises:
        SystemFaultError: they could not be kept.
    """
    rows = [_row(entry) for entry in listing.entries]
    if len(rows) < listing.total or not listing.complete:
        less = "a subfolder as path, a pattern or a smaller max_depth gives less"
        whole = f"{whole_of(_rows(listing.chosen), spill)}, " if spill and rows else ""
        counted = "" if listing.complete else f"; given up after {SEEN_MAX} entries were looked at"
        note = cut_note(shown=len(rows), total=listing.total, unit="entries", rest=f"{whole}{less}{counted}")
        rows.append(note)
    return "\n".join(rows) or "[no entries]"


def matches_glob(path: str, pattern: str) -> bool:
    """Whether a glob fits: `*`, `?` and `[...]` within a name, `**` any number of folders.

    Without a `/` the pattern is held against the last name alone. Time grows with the product of the
    two lengths, whatever the pattern.
    """
    return bool(_fit_of(pattern)(path))


@lru_cache(maxsize=64)  # one call asks for the same few patterns, tens of thousands of times
def _fit_of(pattern: str) -> Fit:
    parts = pattern.strip("/").split("/") if "/" in pattern else ["**", pattern]
    fits = [None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts]
    match fits:
        case [None, None]:
            return bool  # of a path, which is never empty
        case [None, name]:
            assert name is not None
            return lambda path: name(path.rpartition("/")[2])
        case _:
            return partial(_path_fits, fits)


def _path_fits(parts: Sequence[Fit | None], path: str) -> bool:
    names = path.split("/")
    fits = [True] + [False] * len(names)  # fits[i]: the parts so far take exactly the first i names
    for part in parts:
        if part is None:
            fits = [any(fits[: i + 1]) for i in range(len(fits))]
        else:
            fits = [False] + [fits[i] and bool(part(name)) for i, name in enumerate(names)]
    return fits[-1]


def _walk(entries_of: Lister, path: str, depth: int) -> Iterator[tuple[str, Entry]]:
    """Each entry with its path below `path`, folder before content."""
    pending = [("", depth, iter(entries_of(path)))]
    while pending:
        prefix, left, entries = pending[-1]
        for entry in entries:
            below = prefix + entry.name
            yield below, entry
            if entry.kind == "folder" and left > 1 and entry.name not in CLOSED_FOLDERS:
                pending.append((f"{below}/", left - 1, iter(_entries_or_none(entries_of, entry.path))))
                break
        else:
            pending.pop()


def _entries_or_none(entries_of: Lister, path: str) -> list[Entry]:
    try:
        return entries_of(path)
    except (
        ToolExecutionError,
        PathEscapeError,
    ):  # not readable, or no longer a folder: it stands as one line
        return []


def _rows(entries: Sequence[Entry]) -> str:
    return "\n".join(map(_row, entries))


def _row(entry: Entry) -> str:
    if entry.kind == "file":  # nearly all are
        return f"file   {entry.size:>10}  {shown(entry.path)}"
    end = "/" if entry.kind == "folder" else ""
    closed = " [not entered]" if entry.kind == "folder" and entry.name in CLOSED_FOLDERS else ""
    return f"{entry.kind:<6} {'-':>10}  {shown(entry.path)}{end}{closed}"
