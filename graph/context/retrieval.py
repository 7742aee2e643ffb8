"""Retrieval at the beginning of a run: what the workspace's index finds for the prompt."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lockstitch.state.errors import AgentError
from lockstitch.state.run_context import Snippet
from lockstitch.state.settings import Settings
from lockstitch.tools.code_index.build import Watch
from lockstitch.tools.code_index.look_up import Question, look_up
from lockstitch.tools.code_index.search import Hit
from lockstitch.tools.workspace import Workspace

RESULTS: Final = 5  # the owner's figure
# The right one of 3,000 functions is over these in 99 of 100 cases where it is among the first five.
# Questions about something else find 0.13 by meaning, and up to 0.18 by words, which a poor one has, too.
BY_MEANING, BY_WORDS = 0.2, 0.1
PROMPT_CHARS: Final = 1_000  # that are searched for: what a prompt wants stands at its beginning


class Retrieved(NamedTuple):
    """The places found, the best first, and what people should know about the search, a phrase each."""

    results: tuple[Snippet, ...] = ()
    notes: tuple[str, ...] = ()


class Source(NamedTuple):
    """Where to search: the first of `indexes` (None is the workspace's own), without what is denied."""

    settings: Settings
    indexes: Sequence[str] | None = None
    is_denied: Callable[[str], bool] | None = None


def retrieve(prompt: str, workspace: Workspace, source: Source, watch: Watch) -> Retrieved:
    """Search for a prompt; blocks, and builds or refreshes the index first. A failure is a note."""
    query = prompt.strip()[:PROMPT_CHARS]
    if not query:
        return Retrieved()
    if source.indexes is not None and not source.indexes:
        return Retrieved(notes=("retrieval, left out: this run may search no index",))
    question = Question(
        query=query,
        index=source.indexes[0] if source.indexes else None,
        max_results=RESULTS,
        min_relevance=BY_WORDS,
        is_denied=source.is_denied,
    )
    try:
        found, notes = look_up(question, workspace, source.settings, watch)
    except AgentError as error:
        return Retrieved(notes=(f"retrieval, left out: {error.message}",))
    except (OSError, ValueError) as error:
        return Retrieved(notes=(f"retrieval, left out: it failed ({type(error).__name__})",))
    least = BY_MEANING if found.encoded and not found.fault else BY_WORDS
    hits = [hit for hit in found.hits if hit.relevance >= least]
    told = [] if hits else ["retrieval: nothing in the index fits the prompt"]
    return Retrieved(tuple(map(_snippet, hits)), tuple(told + [f"retrieval: {note}" for note in notes]))


def _snippet(hit: Hit) -> Snippet:
    chunk = hit.chunk
    return Snippet(path=chunk.path, text=chunk.text, start_line=chunk.first, score=hit.relevance)
