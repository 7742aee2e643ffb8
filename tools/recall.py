"""The tool that finds again what was said and seen earlier in the thread."""

from collections.abc import Iterator
from typing import Annotated, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.spill import SPILL_PREFIX, SpillStore
from lockstitch.tools.context import CallContext
from lockstitch.tools.fact_search import search_facts
from lockstitch.tools.history import HistoryEntry, HistoryHit, fold, search_history
from lockstitch.tools.output import NOTE_CHARS, cut_note
from lockstitch.tools.result import ToolResult

HITS_MAX: Final = 20  # three lines each, a screen and a half
FACTS_SHOWN: Final = 3  # of 500 characters at most; a run is told all facts at its beginning
LINE_CHARS: Final = 300  # of one line; longer ones are data or minified code
QUERY_CHARS: Final = 2_000  # longer ones are no search


@tool(extras={"effect": "state"})
def recall(
    query: Annotated[
        str,
        Field(description="a line or a part of one, or a few words", min_length=1, max_length=QUERY_CHARS),
    ],
    call: CallContext,
    offset: Annotated[int, Field(description="hits to skip, to get the next ones", ge=0)] = 0,
) -> ToolResult:
    """Search this whole thread: all that was said, every call and its result, also what you no longer see.

    Use it when a detail from earlier is missing: an error's words, a decision, what the person asked for. Not
    for what lies in files: grep_files finds that. Lines that hold the query come first, then lines that share
    words with it; 20 hits a call. Facts kept of this workspace that fit by meaning follow.
    Example: recall(query="port of the test database").
    """
    if not fold(query):
        return ToolResult(output="The query is blank: give words of the line that you look for.")
    found = search_history(_texts(call), query, offset=offset, limit=HITS_MAX)
    facts = [] if offset else _facts(call, query)
    room = call.settings.output_chars - sum(len(line) + 1 for line in facts)
    if not found.hits:
        words = "No more hits." if found.total else "Nothing in this thread has these words. Try others."
        return ToolResult(output="\n".join([words, *facts]), data={"total": found.total})
    blocks = _that_fit([_block(hit, query) for hit in found.hits], room)
    end = offset + len(blocks)
    if end < found.total:
        rest = f"recall with offset={end} gives the rest"
        blocks.append(cut_note(shown=end - offset, total=found.total, unit="hits", rest=rest))
    blocks += ["\n".join(facts)] if facts else []
    return ToolResult(output="\n\n".join(blocks), data={"total": found.total})


def _facts(call: CallContext, query: str) -> list[str]:
    """The facts of the workspace that fit, a line each under a heading."""
    known = call.facts.facts(str(call.workspace.root)) if call.facts else []
    found = search_facts(known, query, call.settings)
    if not found.hits:
        return []
    note = f", {found.note}" if found.note else ""
    lines = [f"- {hit.fact.text} ({hit.relevance:.2f})" for hit in found.hits[:FACTS_SHOWN]]
    return [f"[facts kept of this workspace{note}]", *lines]


def _texts(call: CallContext) -> Iterator[HistoryEntry]:
    """What was kept on the side first, since what was said counts as newer."""
    yield from _kept(call.spill)
    yield from call.history()


def _kept(spill: SpillStore) -> Iterator[HistoryEntry]:
    for spill_id in spill.ids():
        yield HistoryEntry(0, f"{SPILL_PREFIX}{spill_id}", spill.read(spill_id))


def _that_fit(blocks: list[str], max_chars: int) -> list[str]:
    """The first blocks, as many as there is room for beside the note, at least one."""
    room = max_chars - NOTE_CHARS
    for count, block in enumerate(blocks):
        room -= len(block) + 2
        if count and room < 0:
            return blocks[:count]
    return blocks


def _block(hit: HistoryHit, query: str) -> str:
    """The place of a hit, and the line between its neighbours."""
    at = f"message {hit.entry.number}, {hit.entry.who}" if hit.entry.number else hit.entry.who
    rows = [("  ", hit.before), ("> ", hit.text), ("  ", hit.after)]
    shown = [mark + _fitted(text, query) for mark, text in rows if text.strip()]
    return "\n".join([f"[{at}, line {hit.line}]", *shown])


def _fitted(line: str, query: str) -> str:
    """A long line around the query, or its beginning."""
    if len(line) <= LINE_CHARS:
        return line.rstrip()
    place = max(0, line.casefold().find(query.strip().casefold()))
    start = max(0, min(place - LINE_CHARS // 3, len(line) - LINE_CHARS))
    note = cut_note(
        shown=LINE_CHARS, total=len(line), unit="characters", rest="recall of other words shows more"
    )
    return f"{line[start : start + LINE_CHARS]} {note}"
