"""The token budget of the gathered context: who gets room, in order of trust, and what is cut for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from lockstitch.graph.context.section import Group, Section
from lockstitch.tools.output import cut_note

CHARS_PER_TOKEN: Final = 4  # the usual rule of thumb for English text and code, as `estimate_tokens` has it
BETWEEN: Final = "\n\n"  # two sections


@dataclass(frozen=True)
class Fitted:
    """Every section with a line for people; one that found no room has lost its body."""

    pairs: tuple[tuple[Section, str], ...]

    @property
    def sections(self) -> tuple[Section, ...]:
        """Those that found room."""
        return tuple(section for section, _ in self.pairs if section.body)

    @property
    def told(self) -> tuple[str, ...]:
        """The lines for people, about what found room and what did not."""
        return tuple(told for _, told in self.pairs)


def fit_sections(
    sections: Sequence[Section], *, tag: str, max_chars: int, caps: Mapping[Group, int]
) -> Fitted:
    """Give each section in turn what is left: whole, cut at the end of a line, or nothing.

    Args:
        sections: the most trusted first.
        tag: that frames them.
        max_chars: of all of them framed, each with what goes before it.
        caps: characters that the sections of one group have together.
    """
    left, left_in, pairs = max_chars, dict(caps), []
    for section in sections:
        room = min(left, left_in.get(section.group, left)) - len(BETWEEN)
        fitted = _fitted(section, tag, room)
        pairs.append((fitted or replace(section, body=""), _told(section, fitted)))
        if fitted is None or not fitted.body:
            continue
        used = len(fitted.framed(tag)) + len(BETWEEN)
        left -= used
        if section.group in left_in:
            left_in[section.group] -= used
    return Fitted(tuple(pairs))


def _fitted(section: Section, tag: str, room: int) -> Section | None:
    if not section.body or len(section.framed(tag)) <= room:
        return section
    lines = section.body.split("\n")
    longest_note = cut_note(shown=len(lines), total=len(lines), unit="lines", rest=section.rest)
    count = _fitting(lines, room - len(replace(section, body=longest_note).framed(tag)), section)
    if not count:
        return None
    note = cut_note(shown=count, total=len(lines), unit="lines", rest=section.rest)
    parts = [note, *lines[-count:]] if section.keep_end else [*lines[:count], note]
    return replace(
        section, body="\n".join(parts), told=f"{section.told}, cut to {count} of {len(lines)} lines"
    )


def _fitting(lines: Sequence[str], room: int, section: Section) -> int:
    """How many lines have room, each with its newline, from the end that is kept."""
    ordered = reversed(lines) if section.keep_end else lines
    return sum(used <= room for used in accumulate(len(line) + 1 for line in ordered))


def _told(section: Section, fitted: Section | None) -> str:
    return f"{section.told}, left out: no room" if fitted is None else fitted.told
