"""Fitting a new text into the place of an old one: only lines that the two differ in are changed.

The other lines keep the file's own bytes, however the model wrote them; changed lines take on the file's
indents, newlines and quotes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from lockstitch.tools.texts.line_style import LineStyle, Pair, parts_of
from lockstitch.tools.texts.matching import Place
from lockstitch.tools.texts.text_file import newline_of
from lockstitch.tools.texts.text_lines import bare, common_ends, cut_lines, end_of

ALIKE_MIN: Final = 0.5  # difflib's ratio, from which a new line is a changed old one
ALIKE_REACH: Final = 5  # old lines that a new one is compared with: a bound on the time
COMPARED_CHARS: Final = 500  # of each such line; difflib needs quadratic time
ALIGNED_LINES: Final = 2_000  # a side; difflib needs quadratic time, beyond it the middle is one change


@dataclass(frozen=True)
class _Row:
    """A line as the model wrote it, the file's line it stands for, and blank lines of the file behind it."""

    written: str
    real: str | None
    blanks: tuple[str, ...] = ()

    @property
    def pair(self) -> Pair | None:
        """Both lines in parts; None when the file has no such line."""
        return None if self.real is None else (parts_of(self.written), parts_of(self.real))

    @property
    def kept(self) -> list[str]:
        """What the file has of it."""
        return [*([] if self.real is None else [self.real]), *self.blanks]


@dataclass(frozen=True)
class Fitted:
    """What takes the place of a found text, and in which way that was not as the model wrote it.

    Attributes:
        differences: a few words each; empty when it was exact.
    """

    text: str
    differences: tuple[str, ...] = ()

    @property
    def although(self) -> str:
        """The differences as one clause: `the indentation differs by 4 spaces and blank lines differ`."""
        return " and ".join(self.differences)


def fit_all(text: str, places: Sequence[Place], *, old: str, new: str) -> Fitted:
    r"""The whole text with `new` fitted into each of the places; one that overlaps is left out.

    Args:
        text: in which `old` was found.
        places: in order.
        old: as the model wrote it.
        new: as the model wrote it; `\r\n` counts as `\n`, but where the text has no newline.

    Raises:
        ToolExecutionError: nothing tells how a new line should be indented.
    """
    newline = newline_of(text if "\n" in text or "\r" in text else new)
    parts: list[str] = []
    differences: dict[str, None] = {}
    done = 0
    for place in places:
        if place.start >= done:
            fitted = fit(text[place.start : place.end], place, old=old, new=new, newline=newline)
            parts += [text[done : place.start], fitted.text]
            differences |= dict.fromkeys(fitted.differences)
            done = place.end
    return Fitted("".join([*parts, text[done:]]), tuple(differences))


def fit(found: str, place: Place, *, old: str, new: str, newline: str) -> Fitted:
    r"""What to put in the place of `found`.

    Args:
        found: the text at the place.
        place: where `old` was found.
        old: as the model wrote it.
        new: as the model wrote it; `\r\n` counts as `\n`.
        newline: what a line ends with where no line of the file is at hand.

    Raises:
        ToolExecutionError: nothing tells how a new line should be indented.
    """
    rows = list(_rows(cut_lines(_plain(old)), cut_lines(found)))
    wanted = cut_lines(_plain(new))
    seen = LineStyle([pair for row in rows if (pair := row.pair)])
    differences = () if place.level == "exact" else _differences(rows, seen, found, old)
    rows = _as_meant(rows, wanted) if differences else rows
    style = LineStyle([pair for row in rows if (pair := row.pair)], newline)
    lines = _ended(_lines(rows, wanted, style, whole=place.whole), newline)
    if not place.whole:
        return Fitted("".join(lines), differences)
    last = end_of(found)
    if not lines:
        return Fitted("" if old.endswith("\n") else last, differences)
    return Fitted("".join([*lines[:-1], bare(lines[-1]), last]), differences)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _rows(written: list[str], real: list[str]) -> Iterator[_Row]:
    """The lines of both in step, by those with text; blank ones are paired as far as they go."""
    at = 0
    for number, line in enumerate(written):
        standing = real[at] if at < len(real) and not (line.strip() == "" != real[at].strip()) else None
        at += standing is not None
        blanks: list[str] = []
        following = written[number + 1] if number + 1 < len(written) else ""
        while following.strip() and at < len(real) and not real[at].strip():
            blanks.append(real[at])
            at += 1
        yield _Row(line, standing, tuple(blanks))


def _as_meant(rows: list[_Row], wanted: list[str]) -> list[_Row]:
    """The rows as the new text seems to know them: as written, or as the file has them.

    A model may copy the old text badly and write the new one well. What begins with another indent than
    the file is never taken to be so.
    """
    real = [_Row(row.real, row.real, row.blanks) for row in rows if row.real is not None]
    first = next((parts_of(line) for line in wanted if line.strip()), None)
    begins = next((parts_of(line) for row in real for line in row.kept if line.strip()), None)
    if first is None or begins is None or first.indent != begins.indent:
        return rows
    apart = [_Row(line, line) for row in real for line in row.kept]
    return max([rows, real, apart], key=lambda known: _likeness(known, wanted))


def _likeness(rows: list[_Row], wanted: list[str]) -> float:
    if max(len(rows), len(wanted)) > ALIGNED_LINES:
        return 0.0
    lines = [bare(row.written) for row in rows]
    return SequenceMatcher(None, lines, [bare(line) for line in wanted], autojunk=False).ratio()


def _lines(rows: list[_Row], wanted: list[str], style: LineStyle, *, whole: bool) -> list[str]:
    """The lines of the result; those that the old and the new text share are the file's own."""
    key = bare if whole else str
    codes = _opcodes([key(row.written) for row in rows], [key(line) for line in wanted])
    lines: list[str] = []
    for tag, old_from, old_to, new_from, new_to in codes:
        if tag == "equal":
            lines += [line for row in rows[old_from:old_to] for line in row.kept]
            continue
        added = list(_changed(rows, wanted[new_from:new_to], range(old_from, old_to), style))
        blanks = rows[old_from - 1].blanks if tag == "insert" and old_from else ()
        at = len(lines)
        if blanks and _belong_above(added, rows[old_from - 1 : old_from + 1]):
            at -= len(blanks)
        lines[at:at] = added
    return lines


def _belong_above(added: list[str], around: list[_Row]) -> bool:
    """Whether lines that are added where the model left out blank lines stand before these."""
    if not added[-1].strip() or not added[0].strip():
        return bool(added[-1].strip())
    above, below = (parts_of(row.real or "").indent for row in around)
    return parts_of(added[0]).indent != below or above == below


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib's, but only what lies between the first and the last difference is compared."""
    head, tail = common_ends(old, new)
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    yield "equal", 0, head, 0, head
    if max(len(left), len(right)) > ALIGNED_LINES:
        yield "replace", head, head + len(left), head, head + len(right)
    else:
        for tag, *at in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            yield tag, at[0] + head, at[1] + head, at[2] + head, at[3] + head
    yield "equal", len(old) - tail, len(old), len(new) - tail, len(new)


def _changed(rows: list[_Row], new: list[str], old: range, style: LineStyle) -> Iterator[str]:
    """New lines in the place of the rows `old`, which may be none."""
    pairs = _paired(rows, new, old) if style.differs else {}
    behind = old.start  # the first row whose blank lines are still to come
    for number, line in enumerate(new):
        at = pairs.get(number)
        while at is not None and behind < at:
            behind += 1
        beside = min(old.start + number, max(old.start, old.stop - 1)) if old else old.start - 1
        pair = None if at is None else rows[at].pair
        content = style.rewrite(bare(line), pair, _nearest(rows, old.start if at is None else at))
        end = _end(rows, beside if at is None else at) or style.newline
        yield content + (end if end_of(line) else "")
        if at is not None:
            yield from rows[at].blanks
            behind = at + 1
    if old and behind < old.stop:
        yield from rows[old.stop - 1].blanks


def _paired(rows: list[_Row], new: list[str], old: range) -> dict[int, int]:
    """For new lines the old ones they were made of, in order."""
    pairs: dict[int, int] = {}
    after = old.start
    for number, line in enumerate(new):
        reach = [at for at in range(after, min(after + ALIKE_REACH, old.stop)) if rows[at].real is not None]
        sought = line.strip()[:COMPARED_CHARS]
        likeness = {
            at: SequenceMatcher(None, rows[at].written.strip()[:COMPARED_CHARS], sought).ratio()
            for at in reach
        }
        best = max(likeness, key=lambda at: likeness[at], default=None)
        if best is not None and likeness[best] >= ALIKE_MIN:
            pairs[number] = best
            after = best + 1
    return pairs


def _nearest(rows: list[_Row], at: int) -> Pair | None:
    """The pair with text before a row, else behind it."""
    order = [*reversed(rows[:at]), *rows[at:]]
    return next((pair for row in order if (pair := row.pair) and pair[0].body), None)


def _end(rows: list[_Row], at: int) -> str:
    """The newline of the file's line there; empty where it has none."""
    return end_of(rows[at].real or "") if 0 <= at < len(rows) else ""


def _ended(lines: list[str], newline: str) -> list[str]:
    """All lines but the last with a newline."""
    return [line if end_of(line) else line + newline for line in lines[:-1]] + lines[-1:]


def _differences(rows: list[_Row], style: LineStyle, found: str, old: str) -> tuple[str, ...]:
    words = list(style.words)
    if any(row.real is None or row.blanks for row in rows):
        words.append("blank lines differ")
    if not words and not end_of(found) and end_of(old):
        words.append("the file ends without a newline")
    return tuple(words)
