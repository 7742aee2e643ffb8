"""A section of the gathered context: one piece of data, framed so that it cannot end its own frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lockstitch.tools.output import cut_note
from lockstitch.tools.paths import shown
from lockstitch.tools.texts.page import LINE_CHARS, NUMBER_WIDTH

NO_MORE: Final = "the rest did not fit and is kept nowhere"
TITLE_CHARS: Final = 300  # a title names one thing; a path longer than this is no name

Group = Literal["files", "pinned", "focused", "search", "history", "rules", "project", "git", "facts"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One piece of what the model is given.

    Attributes:
        group: the source; the sections of one may share a cap.
        title: what it is, and where it is from.
        body: the data; "" for what only people are told.
        told: the same for people, in a few words.
        rest: the call that gives what is cut, and its verb.
        keep_end: it loses its beginning when it is cut, and not its end.
        path: of the workspace's file it was read from.
    """

    group: Group
    told: str
    title: str = ""
    body: str = ""
    rest: str = NO_MORE
    keep_end: bool = False
    path: str | None = None

    def framed(self, tag: str) -> str:
        """The section as the model sees it."""
        return f"<{tag}: {one_line(self.title)}>\n{self.body}\n</{tag}>"


def word(group: Group, told: str) -> Section:
    """What only people are told: something is missing, or cannot be read."""
    return Section(group=group, told=told)


def choose_tag(sections: Sequence[Section]) -> str:
    """The first of `context-1`, `context-2` ... that none of the sections holds.

    So no file can write the end of its own section, and the same sections always get the same tag.
    """
    held = "\n".join(text for s in sections for text in (s.title, s.body, s.rest)).casefold()
    number = 1
    while f"context-{number}" in held:
        number += 1
    return f"context-{number}"


def counted(count: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number_lines(lines: Sequence[str], *, first: int) -> str:
    """The lines as read_file numbers them, from `first`; long ones are cut."""
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{_fitted(line)}" for number, line in enumerate(lines, first))


def one_line(text: str, *, max_chars: int = TITLE_CHARS) -> str:
    """The text as it may stand within a line."""
    line = shown(text)
    return line if len(line) <= max_chars else f"{line[:max_chars]}..."


def _fitted(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    rest = "run_command shows the whole line"
    return f"{line[:LINE_CHARS]} {cut_note(shown=LINE_CHARS, total=len(line), unit='characters', rest=rest)}"
