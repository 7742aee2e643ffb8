"""What a folder holds, and the folders below it: chosen by glob, in order, to a depth."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from lockstitch.state.errors import PathEscapeError, ToolExecutionError
from lockstitch.tools.entry import Entry
from lockstitch.tools.output import cut_note
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
SEEN_MAX: Final = 50_000  # entries looked at in one call: about a second

Lister = Callable[[str], list[Entry]]


@dataclass(frozen=True)
class Listing:
    """The first entries, and how many there are; `complete` is False when counting was given up."""

    entries: list[Entry]
    total: int
    complete: bool


def list_entries(entries_of: Lister, path: str, *, pattern: str | None, depth: int, limit: int) -> Listing:
    """List the folder `path` and, to `depth` folders deep, those below it; links are not entered.

    Args:
        entries_of: what a folder holds, by name.
        path: relative to the workspace.
        pattern: a glob on names, or on paths below `path` when it holds a `/`; None takes all.
        depth: 1 is the folder alone.
        limit: of entries returned.

    Raises:
        RecoverableError: the folder itself cannot be read; one below that cannot be is left out.
    """
    kept: list[Entry] = []
    total = 0
    for seen, (below, entry) in enumerate(_walk(entries_of, path, depth)):
        if seen == SEEN_MAX:
            return Listing(kept, total, complete=False)
        if pattern is None or matches_glob(below, pattern):
            total += 1
            if total <= limit:
                kept.append(entry)
    return Listing(kept, total, complete=True)


def render_listing(listing: Listing) -> str:
    """One line an entry: kind, size in bytes, path; a folder's path ends with `/`."""
    rows = [_row(entry) for entry in listing.entries]
    if len(rows) < listing.total or not listing.complete:
        counted = "" if listing.complete else f", and counting was given up after {SEEN_MAX}"
        rest = f"a subfolder as path, a pattern or a smaller max_depth gives the rest{counted}"
        rows.append(cut_note(shown=len(rows), total=listing.total, unit="entries", rest=rest))
    return "\n".join(rows) or "[no entries]"


def matches_glob(path: str, pattern: str) -> bool:
    """Whether a glob fits: `*`, `?` and `[...]` within a name, `**` any number of folders.

    Without a `/` the pattern is held against the last name alone. Time grows with the product of the
    two lengths, whatever the pattern.
    """
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    names = path.split("/")
    fits = [True] + [False] * len(names)  # fits[i]: the pattern so far takes exactly the first i names
    for part in pattern.strip("/").split("/"):
        if part == "**":
            fits = [any(fits[: i + 1]) for i in range(len(fits))]
        else:
            fits = [False] + [fits[i] and fnmatchcase(name, part) for i, name in enumerate(names)]
    return fits[-1]


def _walk(entries_of: Lister, path: str, depth: int) -> Iterator[tuple[str, Entry]]:
    """Each entry with its path below `path`, folder before content."""
    pending = [("", depth, iter(entries_of(path)))]
    while pending:
        prefix, left, entries = pending[-1]
        entry = next(entries, None)
        if entry is None:
            pending.pop()
            continue
        below = f"{prefix}{entry.name}"
        yield below, entry
        if entry.kind == "folder" and left > 1 and entry.name not in CLOSED_FOLDERS:
            pending.append((f"{below}/", left - 1, iter(_entries_or_none(entries_of, entry.path))))


def _entries_or_none(entries_of: Lister, path: str) -> list[Entry]:
    try:
        return entries_of(path)
    except (
        ToolExecutionError,
        PathEscapeError,
    ):  # not readable, or no longer a folder: it stands as one line
        return []


def _row(entry: Entry) -> str:
    size = str(entry.size) if entry.kind == "file" else "-"
    end = "/" if entry.kind == "folder" else ""
    closed = " [not entered]" if entry.kind == "folder" and entry.name in CLOSED_FOLDERS else ""
    return f"{entry.kind:<6} {size:>10}  {shown(entry.path)}{end}{closed}"
