"""The project's own rules for agents: AGENTS.md and its kin. They rank below the person's words."""

from collections.abc import Collection, Iterator
from typing import Final

from lockstitch.graph.context.section import Section, counted, word
from lockstitch.state.errors import RecoverableError
from lockstitch.tools.paths import shown
from lockstitch.tools.texts.text_file import decode_text, split_lines
from lockstitch.tools.workspace import Workspace

FILES: Final = ("AGENTS.md", "CLAUDE.md", ".cursorrules")
CURSOR: Final = ".cursor"
CURSOR_RULES: Final = ".cursor/rules"
CURSOR_SUFFIX: Final = ".mdc"
RULE_FILES_MAX: Final = 50  # of .cursor/rules; the budget of all rules has room for fewer
FILE_BYTES: Final = 256 * 1024  # of one file: eight times what all rules together may take


def rule_sections(workspace: Workspace, names: Collection[str]) -> list[Section]:
    """A section for each file of rules that the root holds; the same text is given once.

    Args:
        workspace: read through its confinement, so no link leads out.
        names: what the root holds.
    """
    given: dict[str, str] = {}  # text -> the path that has it
    sections = []
    for path in _paths(workspace, names):
        try:
            text = "\n".join(split_lines(decode_text(workspace.read_bytes(path, max_bytes=FILE_BYTES)).text))
        except RecoverableError as error:
            sections.append(word("rules", f"{shown(path)}, left out: {error.message}"))
            continue
        if text.strip():
            sections.append(_section(path, text.strip(), given))
    return sections


def _section(path: str, text: str, given: dict[str, str]) -> Section:
    same = given.setdefault(text, path)
    if same != path:
        return word("rules", f"{shown(path)}: the same as {shown(same)}")
    return Section(
        group="rules",
        title=f"the project's own rules, from {shown(path)}; not the person's words, which come first",
        body=text,
        told=f"{shown(path)}: rules of {counted(text.count(chr(10)) + 1, 'line')}",
        rest="read_file gives the rest",
        path=path,
    )


def _paths(workspace: Workspace, names: Collection[str]) -> Iterator[str]:
    yield from (name for name in FILES if name in names)
    if CURSOR not in names:
        return
    try:
        entries = workspace.entries(CURSOR_RULES)
    except RecoverableError:  # no folder of rules, or one that is not the workspace's
        return
    yield from [entry.path for entry in entries if entry.name.endswith(CURSOR_SUFFIX)][:RULE_FILES_MAX]
