"""One question to an index of a workspace: brought up to date as far as the time goes, then searched.

What every door does: the tool, a run that begins with retrieval, the command line and the HTTP routes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from lockstitch.state.errors import HomeUnusableError, SystemFaultError, ToolExecutionError
from lockstitch.state.settings import Settings
from lockstitch.tools.code_index.build import BuildReport, Watch, refresh_index
from lockstitch.tools.code_index.build_lock import IndexBusyError
from lockstitch.tools.code_index.encoder import Encoder, describe_missing, find_encoder
from lockstitch.tools.code_index.indexes import DEFAULT_NAME, Indexes
from lockstitch.tools.code_index.own_embeddings import EncoderError
from lockstitch.tools.code_index.search import Found, searcher_of
from lockstitch.tools.permission.rule_book import RuleBook
from lockstitch.tools.workspace import Workspace

TOOL: Final = "search_code"  # whose rules say what an index holds, whoever builds it
STOPPED: Final = "the search was stopped"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of an index.

    Attributes:
        query: a question or a few words.
        index: its name; None is the workspace's own.
        max_results: at most so many.
        min_relevance: none below this, 0 to 1.
        is_denied: paths that must not be shown; None where all may.
    """

    query: str
    index: str | None = None
    max_results: int = 10
    min_relevance: float = 0.0
    is_denied: Callable[[str], bool] | None = None


class Answer(NamedTuple):
    """The places, the best first, and what whoever reads them should know, a phrase each."""

    found: Found
    notes: list[str]


def look_up(
    question: Question, workspace: Workspace, settings: Settings, watch: Watch | None = None
) -> Answer:
    """Answer from the index, which is built or refreshed first where the settings allow; for a thread.

    What keeps the index from being brought up to date is a note, and what is there is searched.

    Raises:
        ToolExecutionError, ToolValidationError, ResourceLimitError: there is or can be no such index.
        HomeUnusableError, SystemFaultError: the index cannot be read.
        SettingsError: a file of rules cannot be read or does not fit.
    """
    indexes = Indexes(settings.home, workspace.root)
    name = question.index
    if not indexes.exists(name) and not (settings.index_build and name in {None, DEFAULT_NAME}):
        raise ToolExecutionError(_missing(indexes, name))
    encoder = find_encoder(settings)
    with indexes.open(name) as index:
        notes: list[str] = []
        if settings.index_build:
            denied = find_denial(settings.home, workspace)  # not the question's: each asks for more or less
            refresh = partial(refresh_index, index, workspace, encoder, watch, is_denied=denied)
            notes = _bring_up_to_date(refresh)
        if watch and watch.is_stopped():
            return Answer(Found([], 0, 0), [STOPPED])
        found = searcher_of(index.path).search(
            index,
            question.query,
            encoder=encoder,
            max_results=question.max_results,
            min_relevance=question.min_relevance,
            is_denied=question.is_denied,
        )
    return Answer(found, list(dict.fromkeys([*notes, *_meaning_notes(found, encoder, settings)])))


def find_denial(home: Path, workspace: Workspace) -> Callable[[str], bool] | None:
    """Which files no index of the workspace may hold, by the rules for `search_code`; None: it may hold all.

    Raises:
        SettingsError: a file of rules cannot be read or does not fit.
    """
    return RuleBook(home).rules(workspace.root).denial(TOOL)


def _missing(indexes: Indexes, name: str | None) -> str:
    names = indexes.names()
    there = f"There are: {', '.join(names)}." if names else "There is none."
    build = f"lockstitch index build {name or ''}".strip()
    return (
        f"the workspace has no index {name or DEFAULT_NAME!r}. {there} A person makes it by `{build}`; "
        "grep_files searches without one."
    )


def _bring_up_to_date(refresh: Callable[[], BuildReport]) -> list[str]:
    """Build or refresh as far as the time goes, and say what is left."""
    try:
        report = refresh()
    except IndexBusyError:
        return ["another process refreshes the index just now: the newest changes may be missing"]
    except EncoderError as error:
        return [error.message]
    except (HomeUnusableError, SystemFaultError) as error:
        return [f"the index is not up to date: {error.message}"]
    return _build_notes(report)


def _build_notes(report: BuildReport) -> list[str]:
    notes = []
    if report.replaced_model:
        notes.append("the index was of another model and is encoded anew")
    if not report.complete:
        notes.append("the index is not complete yet: each search goes on with it for a while")
    return notes


def _meaning_notes(found: Found, encoder: Encoder | None, settings: Settings) -> list[str]:
    if encoder is None:
        return [describe_missing(settings)]
    if found.fault:
        return [f"by words alone: {found.fault}"]
    if found.encoded < found.chunks:
        return [f"by meaning only {found.encoded:,} of {found.chunks:,} places so far, the rest by words"]
    return []
