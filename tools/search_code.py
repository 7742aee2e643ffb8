"""The tool `search_code`: places of the workspace that fit a question, by words and by meaning."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.events import AgentToolProgress
from lockstitch.tools.code_index.build import Watch
from lockstitch.tools.code_index.look_up import Question, look_up
from lockstitch.tools.code_index.search import Found, Hit
from lockstitch.tools.code_index.telling import Telling, until_stopped
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
    stop = threading.Event()  # a build that runs keeps what it has
    question = Question(
        query=query,
        index=_chosen(context_name, call.indexes),
        max_results=max_results,
        min_relevance=min_relevance,
        is_denied=call.is_denied,
    )
    return await until_stopped(partial(_search, call, question, stop), stop)


def _search(call: ToolContext, question: Question, stop: threading.Event) -> ToolResult:
    """The whole search, which reads the disk and computes: for a worker thread."""
    told = Telling(lambda words: call.emit(_progress(call, words)))
    watch = Watch(tell=told, is_stopped=stop.is_set, limit_s=call.settings.index_step_s)
    found, notes = look_up(question, call.workspace, call.settings, watch)
    return _report(call, found, [f"[{note}]" for note in notes])


def _chosen(name: str | None, allowed: Sequence[str] | None) -> str | None:
    """The index to search; a run may be held to some."""
    if allowed is None:
        return name
    if not allowed:
        raise ToolValidationError("this run may search no index: use grep_files.")
    if name is not None and name not in allowed:
        raise ToolValidationError(f"this run may not search {name!r}, but: {', '.join(allowed)}.")
    return name or allowed[0]


def _progress(call: ToolContext, words: str) -> AgentToolProgress:
    return AgentToolProgress(call_id=call.call_id, tool="search_code", content=words)


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
