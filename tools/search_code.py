"""The tool `search_code`: places of the workspace that fit a question, by words and by meaning."""

import asyncio
import threading
from functools import partial
from typing import Annotated, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.code_index.build import BuildReport, Watch, refresh_index
from lockstitch.tools.code_index.build_lock import IndexBusyError
from lockstitch.tools.code_index.encoder import Encoder, find_encoder
from lockstitch.tools.code_index.index_file import IndexFile
from lockstitch.tools.code_index.indexes import DEFAULT_NAME, Indexes
from lockstitch.tools.code_index.search import Found, Hit, searcher_of
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.output import cut_note
from lockstitch.tools.paths import shown
from lockstitch.tools.result import ToolResult

QUERY_CHARS: Final = 1_000  # the encoder reads about 500 of them
NAME_CHARS: Final = 40  # of an index
RESULTS_MAX: Final = 50  # of one call; the token budget is met before
TOKENS_MAX: Final = 8_000  # of one answer, as promised
CHARS_A_TOKEN: Final = 3  # of code, at least: what is counted is rather too much
LINES_MAX, CHARS_MAX = 40, 2_000  # of one place: enough to judge it, and ten of them fit the budget
TOP_SCORES: Final = 5  # in the data, for whoever judges the search


@tool(extras={"effect": "read"})
async def search_code(
    query: Annotated[
        str,
        Field(description="a question or a few words; names count", min_length=1, max_length=QUERY_CHARS),
    ],
    call: CallContext,
    *,
    context_name: Annotated[
        str | None,
        Field(description="an index of that name; the workspace's own if left out", max_length=NAME_CHARS),
    ] = None,
    max_results: Annotated[int, Field(description="1 to 50", ge=1, le=RESULTS_MAX)] = 10,
    min_relevance: Annotated[
        float, Field(description="0 to 1: what fits less is left out", ge=0, le=1)
    ] = 0.0,
) -> ToolResult:
    """Find code and docs by what they do: path, lines, relevance and text of each place, the best first.

    For "where is the thing that does X", when you do not know its name; for a known name or an exact text use
    grep_files. Relevance goes from 0 to 1: over 0.4 usually fits, under 0.2 rarely does, only a spelt name
    comes near 1. Not searched: what .gitignore names, data, generated and binary files. The text is cut at
    8,000 tokens in all: read_file shows more.
    Example: search_code(query="retry with a growing pause after a failed request", max_results=5).
    """
    if not query.strip():
        raise ToolValidationError("query is blank: say in a few words what the code does.")
    stop = threading.Event()
    search = partial(_search, call, query, context_name, stop=stop)
    working = asyncio.ensure_future(
        asyncio.to_thread(search, max_results=max_results, min_relevance=min_relevance)
    )
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()  # a build that runs keeps what it has
        await asyncio.wait([working])
        working.cancelled() or working.exception()  # heard: nobody else asks for it
        raise


def _search(
    call: ToolContext,
    query: str,
    name: str | None,
    *,
    stop: threading.Event,
    max_results: int,
    min_relevance: float,
) -> ToolResult:
    """The whole search, which reads the disk and computes: for a worker thread."""
    indexes = Indexes(call.settings.home, call.workspace.root)
    if not indexes.exists(name) and not (call.settings.index_build and name in {None, DEFAULT_NAME}):
        raise ToolExecutionError(_missing(indexes, name))
    encoder = find_encoder()
    with indexes.open(name) as index:
        notes = _bring_up_to_date(call, index, encoder, stop) if call.settings.index_build else []
        found = searcher_of(index.path).search(
            index,
            query,
            encoder=encoder,
            max_results=max_results,
            min_relevance=min_relevance,
            is_wanted=None if call.is_denied is None else lambda path: not _denied(call, path),
        )
    return _report(call, found, [*notes, *_meaning_notes(found, encoder)])


def _denied(call: ToolContext, path: str) -> bool:
    return call.is_denied is not None and call.is_denied(path)


def _missing(indexes: Indexes, name: str | None) -> str:
    names = indexes.names()
    there = f"There are: {', '.join(names)}." if names else "There is none."
    build = f"lockstitch index build {name or ''}".strip()
    return (
        f"the workspace has no index {name or DEFAULT_NAME!r}. {there} A person makes it by `{build}`; "
        "grep_files searches without one."
    )


def _bring_up_to_date(
    call: ToolContext, index: IndexFile, encoder: Encoder | None, stop: threading.Event
) -> list[str]:
    """Build or refresh as far as the time goes, and say what is left."""
    watch = Watch(is_stopped=stop.is_set, limit_s=call.settings.index_step_s)
    try:
        report = refresh_index(index, call.workspace, encoder, watch)
    except IndexBusyError:
        return ["[another process refreshes the index just now: the newest changes may be missing]"]
    return _build_notes(report)


def _build_notes(report: BuildReport) -> list[str]:
    notes = []
    if report.replaced_model:
        notes.append("[the index was of another model and is encoded anew]")
    if not report.complete:
        notes.append("[the index is not complete yet: each search_code goes on with it for a while]")
    return notes


def _meaning_notes(found: Found, encoder: Encoder | None) -> list[str]:
    if encoder is None:
        return ["[by words alone: searching by meaning needs `pip install 'lockstitch[semantic]'`]"]
    if found.encoded < found.chunks:
        return [f"[by meaning only {found.encoded:,} of {found.chunks:,} places so far, the rest by words]"]
    return []


def _report(call: ToolContext, found: Found, notes: list[str]) -> ToolResult:
    room = min(TOKENS_MAX * CHARS_A_TOKEN, call.settings.output_chars) - sum(len(note) + 1 for note in notes)
    blocks, results = list[str](), []
    for number, hit in enumerate(found.hits, 1):
        block = _block(number, hit)
        if len(block) + 2 > room:
            notes = [_cut(number - 1, len(found.hits)), *notes]
            break
        room -= len(block) + 2
        blocks.append(block)
        results.append(_as_data(hit))
    nothing = [] if found.hits else ["Nothing fits. Try other words, or grep_files for an exact text."]
    output = "\n\n".join([*blocks, *nothing, *notes])
    data = {
        "result_count": len(blocks),
        "tokens_used": -(-len(output) // CHARS_A_TOKEN),
        "top_scores": [result["relevance"] for result in results[:TOP_SCORES]],
        "results": results,
    }
    return ToolResult(output=output, data=data)


def _cut(count: int, total: int) -> str:
    rest = "a smaller max_results, or read_file with a path, shows others"
    return cut_note(shown=count, total=total, unit="results", rest=rest)


def _block(number: int, hit: Hit) -> str:
    chunk, lines = hit.chunk, hit.chunk.text.split("\n")
    name = f" {chunk.symbol}" if chunk.symbol else ""
    place = f"{shown(chunk.path)}:{chunk.first}-{chunk.last}{name}"
    head = f"{number}. {place} ({hit.relevance:.2f}: {', '.join(hit.why) or 'little'})"
    text = "\n".join(lines[:LINES_MAX])[:CHARS_MAX]
    more = "\n..." if len(text) < len(chunk.text) else ""
    return f"{head}\n{text}{more}"


def _as_data(hit: Hit) -> dict[str, object]:
    chunk = hit.chunk
    return {
        "path": chunk.path,
        "first_line": chunk.first,
        "last_line": chunk.last,
        "symbol": chunk.symbol,
        "relevance": round(hit.relevance, 3),
        "why": list(hit.why),
    }
