"""A search by a SearXNG server of the person's choice, through its JSON answers."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError
from lockstitch.tools.web.found_pages import FoundPages, read_pages
from lockstitch.tools.web.web_body import ACCEPTED, read_body

NAME: Final = "searxng"
JSON_IS_OFF: Final = 403
RATE_LIMITED: Final = 429
FOUND: Final = 200
ENGINES_MAX: Final = 20  # names of engines that are told


async def search_searxng(url: str, query: str, *, max_results: int) -> FoundPages:
    """The first results of the server.

    Args:
        url: of the server, as http://127.0.0.1:8888; with or without /search.
        query: what is searched for.
        max_results: at most.

    Raises:
        ToolExecutionError: it cannot be reached, gives no JSON, or none of its engines answered.
        ResourceLimitError: it takes no more searches for now.
    """
    import httpx2

    address = url.rstrip("/").removesuffix("/search") + "/search"
    headers = {"Accept": "application/json", "Accept-Encoding": ACCEPTED}
    try:
        async with (
            httpx2.AsyncClient(timeout=None) as client,  # the caller's limit stands around it
            client.stream("GET", address, params={"q": query, "format": "json"}, headers=headers) as answer,
        ):
            _check(answer.status_code)
            body = await read_body(cast("AsyncIterator[bytes]", answer.aiter_raw()), answer.headers)
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise ToolExecutionError(
            "the SearXNG server of LOCKSTITCH_SEARXNG_URL cannot be reached. Is it running, and on that port"
            " (usually 8888)? Work without a search until then."
        ) from error
    return _read(body, max_results)


def _check(status: int) -> None:
    if status == JSON_IS_OFF:
        raise ToolExecutionError(
            "the SearXNG server gives no JSON: its settings.yml needs `json` among `search: formats:`. Ask"
            " the person to add it."
        )
    if status == RATE_LIMITED:
        raise ResourceLimitError(
            "the SearXNG server takes no more searches for now (its limiter). Wait a minute, or ask the"
            " person to let this machine pass."
        )
    if status != FOUND:
        raise ToolExecutionError(
            f"the SearXNG server answered {status}. LOCKSTITCH_SEARXNG_URL may lead elsewhere."
        )


def _read(body: bytes, max_results: int) -> FoundPages:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _no_results_page() from error
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise _no_results_page()
    results = [row for row in rows if isinstance(row, dict)]
    found = read_pages(
        ((_text(row, "title"), _text(row, "url"), _text(row, "content")) for row in results),
        limit=max_results,
    )
    if not found and answer.get("unresponsive_engines"):
        raise ToolExecutionError("no engine of the SearXNG server answered. Try again later, or other words.")
    return FoundPages(found, _engines(results, {page.url for page in found}))


def _engines(results: list[dict[str, Any]], shown: set[str]) -> tuple[str, ...]:
    named = [
        row.get("engines") or [row.get("engine")] for row in results if _text(row, "url").strip() in shown
    ]
    names = {name for row in named if isinstance(row, list) for name in row if isinstance(name, str)}
    plain = sorted(name for name in names if name.isprintable() and len(name) <= 40)
    return tuple(plain[:ENGINES_MAX]) or (NAME,)


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _no_results_page() -> ToolExecutionError:
    return ToolExecutionError(
        "the server of LOCKSTITCH_SEARXNG_URL did not answer as SearXNG does: check the address."
    )
