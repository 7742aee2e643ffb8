"""A search by DuckDuckGo, through langchain-community's wrapper and the engine of `ddgs`."""

import asyncio
import warnings
from math import ceil
from typing import Any, Final

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError
from lockstitch.tools.web.found_pages import FoundPages, read_pages

NAME: Final = "duckduckgo"
RATE_LIMITED: Final = frozenset({202, 403, 429})  # 202 is what it says when it takes the client for a robot
FOUND: Final = 200


async def search_duckduckgo(query: str, *, max_results: int, timeout_s: float) -> FoundPages:
    """The first results of DuckDuckGo.

    Raises:
        ToolExecutionError: it cannot be reached, or answers with no results page.
        ResourceLimitError: it takes no more searches from this machine for now.
        TimeoutError: it took too long.
    """
    return await asyncio.to_thread(_search, query, max_results, timeout_s)


def _search(query: str, max_results: int, timeout_s: float) -> FoundPages:
    """Loads the libraries, about 1 s the first time, and waits: for a worker thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the package says that it is kept, not developed
        from langchain_community.utilities import DuckDuckGoSearchAPIWrapper
    from ddgs.exceptions import DDGSException, TimeoutException

    class Wrapper(DuckDuckGoSearchAPIWrapper):
        """The wrapper with a time limit, and with the one engine: `ddgs` hides which status an engine met."""

        def _ddgs_text(self, query: str, max_results: int | None = None) -> list[dict[str, str]]:
            found = _ask_engine(query, region=self.region, safesearch=self.safesearch, timeout_s=timeout_s)
            return found[:max_results]

    try:
        rows = Wrapper(backend=NAME, region="wt-wt", time=None).results(query, max_results)
    except TimeoutException as error:
        raise TimeoutError from error
    except DDGSException as error:
        raise ToolExecutionError(
            "DuckDuckGo cannot be reached: this machine may be offline. Work without a search, or ask the"
            " person to set LOCKSTITCH_SEARXNG_URL."
        ) from error
    found = ((row["title"], row["link"], row["snippet"]) for row in rows)
    return FoundPages(read_pages(found, limit=max_results), (NAME,))


def _ask_engine(query: str, *, region: str | None, safesearch: str, timeout_s: float) -> list[dict[str, str]]:
    from ddgs.engines.duckduckgo import Duckduckgo

    class Engine(Duckduckgo):
        """The engine with its answers' status looked at."""

        def request(self, *args: Any, **kwargs: Any) -> Any:
            answer = self.http_client.request(*args, **kwargs)
            _check(answer.status_code)
            return answer.text

    engine = Engine(timeout=ceil(timeout_s))
    return [vars(row) for row in engine.search(query, region=region or "wt-wt", safesearch=safesearch) or []]


def _check(status: int) -> None:
    if status in RATE_LIMITED:
        raise ResourceLimitError(
            "DuckDuckGo takes no more searches from this machine for now. Wait some minutes, or ask the"
            " person to set LOCKSTITCH_SEARXNG_URL."
        )
    if status != FOUND:
        raise ToolExecutionError(f"DuckDuckGo answered {status}. Try again later, or work without a search.")
