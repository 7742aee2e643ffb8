"""What a client handed in beyond paths, and what is remembered, as sections."""

from collections.abc import Sequence
from typing import Final

from lockstitch.graph.context.section import Section, number_lines, one_line, word
from lockstitch.state.run_context import Exchange, Snippet
from lockstitch.tools.texts.text_file import split_lines

SEARCH_RESULTS: Final = 5  # shown: the owner's figure
EXCHANGES: Final = 20  # shown, the last ones: the owner's figure
PATH_CHARS: Final = 200  # of a path in a title; it is the client's word and need not exist


def pinned_sections(snippets: Sequence[Snippet]) -> list[Section]:
    """A section for each piece that the person keeps in sight."""
    return [
        Section(
            group="pinned",
            title=f"pinned by the person: {_place(snippet)}",
            body=_text(snippet),
            told=f"pinned {_place(snippet)}",
            rest="read_file gives the rest",
        )
        for snippet in snippets
    ]


def search_sections(snippets: Sequence[Snippet], notes: Sequence[str] = ()) -> list[Section]:
    """A section for each of the first results of a search; the notes are for people alone."""
    sections = [
        Section(
            group="search",
            title=f"found by search: {_place(snippet)}{_score(snippet)}",
            body=_text(snippet),
            told=f"search result {_place(snippet)}{_score(snippet)}",
            rest="read_file gives the rest",
        )
        for snippet in snippets[:SEARCH_RESULTS]
    ]
    if len(snippets) > SEARCH_RESULTS:
        sections.append(word("search", f"{len(snippets) - SEARCH_RESULTS} more search results, left out"))
    return [*sections, *(word("search", note) for note in notes)]


def history_sections(history: Sequence[Exchange]) -> list[Section]:
    """One section of the last exchanges, the oldest first; cut from its beginning."""
    last = history[-EXCHANGES:]
    if not last:
        return []
    count = f"the last {len(last)} of {len(history)}" if len(last) < len(history) else str(len(last))
    return [
        Section(
            group="history",
            title="an earlier conversation, the oldest first",
            body="\n\n".join(f"User: {exchange.prompt}\nResult: {exchange.result}" for exchange in last),
            told=f"earlier conversation, exchanges: {count}",
            keep_end=True,
        )
    ]


def fact_sections(facts: Sequence[str]) -> list[Section]:
    """One section of what is remembered about this workspace; in order, so that a prompt cache hits."""
    if not facts:
        return []
    body = "\n".join(f"- {one_line(fact, max_chars=len(fact))}" for fact in sorted(set(facts)))
    title = "remembered about this workspace from earlier threads"
    return [Section(group="facts", title=title, body=body, told=f"facts: {len(set(facts))}")]


def _text(snippet: Snippet) -> str:
    if snippet.start_line is None:
        return snippet.text or "[empty]"
    return number_lines(split_lines(snippet.text), first=snippet.start_line) or "[empty]"


def _place(snippet: Snippet) -> str:
    path = one_line(snippet.path, max_chars=PATH_CHARS)
    if snippet.start_line is None:
        return path
    first, last = snippet.start_line, snippet.start_line + len(split_lines(snippet.text)) - 1
    return f"{path}, line {first}" if last <= first else f"{path}, lines {first} to {last}"


def _score(snippet: Snippet) -> str:
    return "" if snippet.score is None else f", score {snippet.score:.2f}"
