"""What a search engine found: pages with title, address and snippet, each held to one line."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

TITLE_CHARS: Final = 200
SNIPPET_CHARS: Final = 500  # engines give about 200
URL_CHARS: Final = 2_000  # longer ones cannot be fetched
_WEB: Final = re.compile(r"https?://[^\s\x00-\x1f\x7f-\x9f]+", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class FoundPage(NamedTuple):
    """One result."""

    title: str
    url: str
    snippet: str


class FoundPages(NamedTuple):
    """The results, the best first, and the engines they came from."""

    pages: tuple[FoundPage, ...]
    engines: tuple[str, ...]


def read_pages(rows: Iterable[tuple[str, str, str]], *, limit: int) -> tuple[FoundPage, ...]:
    """The first `limit` results that have an address of the web, each address once.

    Args:
        rows: title, address and snippet.
        limit: of results.
    """
    pages: dict[str, FoundPage] = {}
    for title, url, snippet in rows:
        address = url.strip()
        if len(pages) < limit and len(address) <= URL_CHARS and _WEB.fullmatch(address):
            page = FoundPage(
                _one_line(title, TITLE_CHARS) or address, address, _one_line(snippet, SNIPPET_CHARS)
            )
            pages.setdefault(address, page)
    return tuple(pages.values())


def _one_line(text: str, max_chars: int) -> str:
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 3]}..."
