"""What a run is told at its beginning: every source in order of trust, fitted into one budget."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lockstitch.graph.context.attached import attached_sections, focused_sections
from lockstitch.graph.context.budget import BETWEEN, CHARS_PER_TOKEN, fit_sections
from lockstitch.graph.context.git_state import git_sections
from lockstitch.graph.context.handed import (
    fact_sections,
    history_sections,
    pinned_sections,
    search_sections,
)
from lockstitch.graph.context.project import project_sections
from lockstitch.graph.context.retrieval import Retrieved
from lockstitch.graph.context.rules import rule_sections
from lockstitch.graph.context.section import Group, Section, choose_tag, word
from lockstitch.graph.prompts import load_prompt
from lockstitch.state.errors import RecoverableError
from lockstitch.state.run_context import HandedContext
from lockstitch.tools.workspace import Workspace

BUDGET_TOKENS: Final = 20_000  # a sixth of the smallest usual window; the owner's figure
HANDED: Final[frozenset[Group]] = frozenset({"files", "pinned", "focused", "search", "history"})
NOTHING: Final = Retrieved()
CAPS_TOKENS: Final[dict[Group, int]] = {"rules": 8_000, "search": 4_000}  # the owner's figures


@dataclass(frozen=True)
class Told:
    """What the model is given, "" when there is nothing, and for people a line about each piece."""

    text: str
    told: str


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """What was found; the same bytes for the same workspace.

    Attributes:
        handed: what the person and their client point to: it belongs to this one prompt.
        workspace: the workspace's own: rules, project, git and facts.
        lasting: names the workspace's part without what every step may change: the same name, nothing new.
        files: the workspace's files that the texts hold something of, each once.
    """

    handed: Told
    workspace: Told
    lasting: str
    files: tuple[str, ...]


def gather_context(
    workspace: Workspace,
    *,
    prompt: str,
    handed: HandedContext,
    max_steps: int,
    budget_tokens: int = BUDGET_TOKENS,
    facts: Sequence[str] = (),
    retrieved: Retrieved = NOTHING,
) -> Gathered:
    """Gather from the prompt, the client and the workspace; blocks, so it belongs into a thread.

    A source that fails is left out, and `told` says so.

    Args:
        workspace: read and never written; git is asked about it by two processes.
        prompt: the person's words, for the files they mention.
        handed: what the client knows.
        max_steps: of the run.
        budget_tokens: of the text, a token being four characters.
        facts: remembered about the workspace.
        retrieved: what its index found for the prompt.
    """
    sections = _gather(workspace, prompt=prompt, handed=handed, facts=facts, retrieved=retrieved)
    tag = choose_tag(sections)
    intro = load_prompt("context").format(tag=tag, max_steps=max_steps)
    caps = {group: tokens * CHARS_PER_TOKEN for group, tokens in CAPS_TOKENS.items()}
    max_chars = budget_tokens * CHARS_PER_TOKEN - 2 * len(intro)
    fitted = fit_sections(sections, tag=tag, max_chars=max_chars, caps=caps)
    lasting = [s.framed(tag) for s in fitted.sections if s.group not in {*HANDED, "git"}]
    return Gathered(
        handed=_told(intro, tag, [pair for pair in fitted.pairs if pair[0].group in HANDED]),
        workspace=_told(intro, tag, [pair for pair in fitted.pairs if pair[0].group not in HANDED]),
        lasting=hashlib.sha256(BETWEEN.join(lasting).encode()).hexdigest(),
        files=tuple(dict.fromkeys(s.path for s in fitted.sections if s.path is not None)),
    )


def _told(intro: str, tag: str, pairs: Sequence[tuple[Section, str]]) -> Told:
    framed = [section.framed(tag) for section, _ in pairs if section.body]
    return Told(BETWEEN.join([intro, *framed]) if framed else "", "\n".join(told for _, told in pairs))


def _gather(
    workspace: Workspace,
    *,
    prompt: str,
    handed: HandedContext,
    facts: Sequence[str],
    retrieved: Retrieved,
) -> list[Section]:
    """All sections, the most trusted first."""
    try:
        names, sections = frozenset(entry.name for entry in workspace.entries()), list[Section]()
    except (RecoverableError, OSError):
        names, sections = frozenset[str](), [word("project", "the workspace cannot be listed")]
    sources: list[tuple[Group, Callable[[], list[Section]]]] = [
        ("files", partial(attached_sections, workspace, prompt=prompt, paths=handed.paths, names=names)),
        ("pinned", partial(pinned_sections, handed.pinned)),
        ("focused", partial(_focused, workspace, handed, sections)),
        ("search", partial(search_sections, [*handed.search_results, *retrieved.results], retrieved.notes)),
        ("history", partial(history_sections, handed.history)),
        ("rules", partial(rule_sections, workspace, names)),
        ("project", partial(project_sections, workspace, names)),
        ("git", partial(git_sections, workspace, names)),
        ("facts", partial(fact_sections, facts)),
    ]
    for group, source in sources:
        sections += _tried(group, source)
    return sections


def _focused(workspace: Workspace, handed: HandedContext, before: Sequence[Section]) -> list[Section]:
    if not handed.focused_file:
        return []
    return focused_sections(workspace, handed.focused_file, told={section.path for section in before})


def _tried(group: Group, source: Callable[[], list[Section]]) -> list[Section]:
    try:
        return source()
    except RecoverableError as error:
        return [word(group, f"{group}, left out: {error.message}")]
    except (OSError, ValueError) as error:  # a file that is none of what its name says
        return [word(group, f"{group}, left out: it cannot be read ({type(error).__name__})")]
