"""How a model writes the lines of a file, and how the file itself does: indents, line ends, quotes.

Learned from lines that stand for each other; used to write new lines as the file would.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.texts.text_lines import bare, fold

_TOKEN: Final = re.compile(r"\s+|\S")
_TAB_UNITS: Final = (4, 2, 8, 3)  # blanks that models write for a tab, the most frequent first
MERGED_CHARS: Final = 2_000  # of one line; difflib needs quadratic time


@dataclass(frozen=True)
class Parts:
    """A line without its newline: indent, text, and the blanks at its end. One without text is all end."""

    indent: str
    body: str
    tail: str


Pair = tuple[Parts, Parts]
"""A line as the model wrote it, and as the file has it."""


def parts_of(line: str) -> Parts:
    """The line in its parts; a newline at its end is left out."""
    content = bare(line)
    body = content.strip()
    if not body:
        return Parts("", "", content)
    start = content.index(body[0])
    return Parts(content[:start], body, content[start + len(body) :])


@dataclass(frozen=True)
class LineStyle:
    """What the model's lines and the file's have been seen to differ in.

    Attributes:
        pairs: lines, as the model wrote them and as the file has them.
        newline: what most lines of the file end with.
    """

    pairs: Sequence[Pair]
    newline: str = "\n"

    @cached_property
    def differs(self) -> bool:
        """Whether any line is not as the model wrote it."""
        return any(written != real for written, real in self.pairs)

    @cached_property
    def words(self) -> list[str]:
        """What differs, each as a few words that go on after `although`."""
        found = []
        if any(written.indent != real.indent for written, real in self.pairs):
            found.append(f"the indentation differs{self._shift_in_words}")
        if any(written.tail != real.tail for written, real in self.pairs):
            found.append("blanks at line ends differ")
        bodies = [(written.body, real.body) for written, real in self.pairs if written.body != real.body]
        if any(fold(written) != written or fold(real) != real for written, real in bodies):
            found.append("quotes or dashes differ")
        if any(len(written.split()) > 1 and fold(written) != fold(real) for written, real in bodies):
            found.append("the space between words differs")
        return found

    @cached_property
    def _shift_in_words(self) -> str:
        shifts = {len(real.indent) - len(written.indent) for written, real in self.pairs}
        kinds = {char for pair in self.pairs for part in pair for char in part.indent}
        if len(shifts) == 1 and len(kinds) == 1:
            kind = "space" if kinds == {" "} else "tab"
            count = abs(shifts.pop())
            return f" by {count} {kind}{'s' * (count != 1)}"
        return " (tabs and spaces)" if kinds == {" ", "\t"} else ""

    def rewrite(self, new: str, pair: Pair | None, nearest: Pair | None) -> str:
        """A new line as the file would write it, without newline.

        Args:
            new: the line as the model wrote it, without newline.
            pair: the line it takes the place of, as written and as it is; None when it is an added one.
            nearest: the pair before it, or after it.

        Raises:
            ToolExecutionError: nothing tells which indent it should have.
        """
        if not self.differs:
            return new
        line = parts_of(new)
        if not line.body:
            return "" if self._adds_tails else line.tail
        if pair is None:
            return self._indent(line.indent, nearest) + self._plain(line.body) + self._tail(line.tail)
        written, real = pair
        indent = real.indent if line.indent == written.indent else self._indent(line.indent, pair)
        tail = real.tail if line.tail == written.tail else self._tail(line.tail)
        return indent + self._plain(_merged(line.body, written.body, real.body)) + tail

    @cached_property
    def _adds_tails(self) -> bool:
        return any(written.tail and written.tail != real.tail for written, real in self.pairs)

    def _tail(self, tail: str) -> str:
        return "" if self._adds_tails else tail

    @cached_property
    def _alphabet(self) -> dict[str, str]:
        """Characters that the file always has otherwise than the model."""
        seen: dict[str, set[str]] = {}
        for written, real in self.pairs:
            if len(written.body) == len(real.body):
                for theirs, ours in zip(written.body, real.body, strict=True):
                    if fold(theirs) != theirs or fold(ours) != ours:
                        seen.setdefault(theirs, set()).add(ours)
        return {theirs: ours.pop() for theirs, ours in seen.items() if len(ours) == 1}

    def _plain(self, body: str) -> str:
        """Typographic quotes and dashes as the file has them, where it has them always the same."""
        return "".join(self._alphabet.get(char, char) if fold(char) != char else char for char in body)

    @cached_property
    def _indents(self) -> dict[str, set[str]]:
        known: dict[str, set[str]] = {}
        for written, real in self.pairs:
            if written.body:
                known.setdefault(written.indent, set()).add(real.indent)
        return known

    def _indent(self, indent: str, nearest: Pair | None) -> str:
        known = self._indents.get(indent, set())
        if len(known) == 1:
            return next(iter(known))
        if all(indents == {written} for written, indents in self._indents.items()):
            return indent
        if known or nearest is None or any(len(indents) > 1 for indents in self._indents.values()):
            raise _unclear()
        return self._shifted(indent, *nearest)

    def _shifted(self, indent: str, written: Parts, real: Parts) -> str:
        """An indent the block does not have yet, by how its own are written."""
        more = len(indent) - len(written.indent)
        theirs = _kind([indent, written.indent])
        ours = _kind([part.indent for _, part in self.pairs]) or theirs
        if theirs is None or ours is None:
            if indent.startswith(written.indent):
                return real.indent + indent[len(written.indent) :]
            raise _unclear()
        length = len(real.indent) + self._scaled(more, theirs, ours)
        if length < 0:
            raise _unclear()
        return ours * length

    def _scaled(self, more: int, theirs: str, ours: str) -> int:
        """So many steps of the model as characters of the file's indent."""
        lengths = {(len(written), len(real)) for written, reals in self._indents.items() for real in reals}
        (least, its), (most, other) = min(lengths), max(lengths)
        if most > least:
            steps, rest = divmod(more * (other - its), most - least)
        elif theirs == ours:
            steps, rest = more, 0
        else:
            unit = next((unit for unit in _TAB_UNITS if most % unit == 0 == its % unit), 0)
            steps, rest = (more * unit, 0) if theirs == "\t" else divmod(more, unit or 1)
        if rest:
            raise _unclear()
        return steps


def _kind(indents: Sequence[str]) -> str | None:
    """The one character of all the indents: None when there are two, empty when there is none."""
    kinds = {char for indent in indents for char in indent}
    return None if len(kinds) > 1 else next(iter(kinds), "")


def _merged(new: str, written: str, real: str) -> str:
    """`new`, which the model made of `written`, with the characters of `real` where it changed nothing."""
    if written == real or max(len(new), len(written)) > MERGED_CHARS:
        return new
    old_tokens, real_tokens, new_tokens = (_TOKEN.findall(text) for text in (written, real, new))
    if len(old_tokens) != len(real_tokens):
        return new
    merged: list[str] = []
    matcher = SequenceMatcher(None, old_tokens, new_tokens, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        merged += real_tokens[old_from:old_to] if tag == "equal" else new_tokens[new_from:new_to]
    return "".join(merged)


def _unclear() -> ToolExecutionError:
    return ToolExecutionError(
        "the indentation of old_text is not the file's, and how new lines should be indented is not clear: "
        "copy the lines from read_file with their indents."
    )
