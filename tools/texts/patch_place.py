"""Where the hunks of a patch stand in a file, and the file's text with them made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.texts.fitting import fit
from lockstitch.tools.texts.matching import PLACES_SHOWN, Place, find_lines, lines_of
from lockstitch.tools.texts.nearest import show_candidates
from lockstitch.tools.texts.patch_hunk import Hunk
from lockstitch.tools.texts.text_file import TextFile, newline_of
from lockstitch.tools.texts.text_lines import LINE_LEVELS, Level, TextLines, end_of, fold

LEVELS: Final[tuple[Level, ...]] = ("exact", *LINE_LEVELS)


@dataclass(frozen=True)
class Patched:
    """A file's text with its hunks made, and what was not as the patch has it: a clause for each hunk."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str
    number: int
    note: str = ""


def apply_hunks(file: TextFile, hunks: Sequence[Hunk], *, path: str) -> Patched:
    """The text with all hunks made. Each is found in the text as it was, by its lines.

    Raises:
        ToolExecutionError: a hunk stands nowhere, in several places, or where another one does; the
            message has the path and the hunk's number from 1.
    """
    lines = TextLines(file.text)
    edits: list[_Edit] = []
    for number, hunk in enumerate(hunks, start=1):
        after = edits[-1].end if edits else 0
        try:
            edits.append(_edit(lines, hunk, number=number, after=after))
        except ToolExecutionError as error:
            which = f"hunk {number} of {len(hunks)} for {path}"
            raise ToolExecutionError(f"{which}: {error.message}") from error
    edits.sort(key=lambda edit: (edit.start, edit.end, edit.number))
    _check_apart(edits, path)
    text = _with_end("".join(_spliced(file.text, edits)), edits, hunks, file)
    return Patched(
        text, tuple(f"hunk {edit.number} matched although {edit.note}" for edit in edits if edit.note)
    )


def _edit(lines: TextLines, hunk: Hunk, *, number: int, after: int) -> _Edit:
    if not hunk.old:
        at = _insertion(lines, hunk)
        open_end = at == len(lines.text) and at > 0 and not end_of(lines.text)
        newline = newline_of(lines.text)
        text = newline.join(hunk.new)
        return _Edit(at, at, newline + text if open_end else text + newline, number)
    old = "".join(f"{line}\n" for line in hunk.old)
    new = "".join(f"{line}\n" for line in hunk.new)
    place = _place(lines, hunk, TextLines(old), after)
    found = lines.text[place.start : place.end]
    fitted = fit(found, place, old=old, new=new, newline=newline_of(lines.text))
    return _Edit(place.start, place.end, fitted.text, number, fitted.although)


def _place(lines: TextLines, hunk: Hunk, old: TextLines, after: int) -> Place:
    """The one place of a hunk's lines; what narrows it down is tried in turn."""
    places = find_lines(lines, old, LEVELS, overlapping=True)
    if not places:
        raise ToolExecutionError(f"its lines are not in the file. {show_candidates(lines.text, old.text)}")
    places = [place for place in places if place.start >= after] or places  # hunks come in order
    if hunk.anchors:
        places = _below(places, _anchored(lines, hunk.anchors))
    if hunk.at_end:
        places = [place for place in places if not lines.text[place.end :].strip()] or places
    if len(places) > 1 and hunk.line is not None:
        places = [place for place in places if place.line == hunk.line] or places
    if not places:
        raise ToolExecutionError(f"its lines do not stand below its @@ line {hunk.anchors[-1]!r}.")
    if len(places) > 1:
        raise ToolExecutionError(
            f"its lines are in the file {len(places)} times, on lines {lines_of(places)}. Add lines around "
            "them, or an @@ line with the function or class they are in."
        )
    return places[0]


def _below(places: Sequence[Place], starts: Sequence[int]) -> list[Place]:
    """For each of the line numbers the first place from there on; each place once."""
    firsts = [next((place for place in places if place.line >= start), None) for start in starts]
    return [place for place in places if place in firsts]


def _anchored(lines: TextLines, anchors: Sequence[str]) -> list[int]:
    """Where the last of the anchors stands, when the others stand before it: line numbers from 1."""
    starts = [0]
    for depth, anchor in enumerate(anchors):
        found = _lines_like(lines, anchor)
        if depth == 0:
            starts = found
        else:
            below = (next((line for line in found if line > start), 0) for start in starts)
            starts = sorted({line for line in below if line})
        if not starts:
            raise ToolExecutionError(f"there is no line {anchor!r}, which its @@ line names.")
    return starts


def _lines_like(lines: TextLines, anchor: str) -> list[int]:
    """The lines, from 1, that are the anchor; else those that begin with it; else those that have it."""
    sought = fold(" ".join(anchor.split()))
    keys = [fold(" ".join(line.split())) for line in lines.bare]
    for fits in (str.__eq__, str.startswith, str.__contains__):
        if found := [number for number, key in enumerate(keys, start=1) if fits(key, sought)]:
            return found
    return []


def _insertion(lines: TextLines, hunk: Hunk) -> int:
    """The offset at which a hunk without old lines goes in; the end of the file when it does not say."""
    if hunk.anchors and not hunk.at_end:
        starts = _anchored(lines, hunk.anchors)
        if len(starts) > 1:
            numbers = ", ".join(map(str, starts[:PLACES_SHOWN]))
            raise ToolExecutionError(f"its @@ line is in the file {len(starts)} times, on lines {numbers}.")
        return sum(map(len, lines.lines[: starts[0]]))
    if hunk.line is not None and hunk.line <= len(lines.lines):
        return sum(map(len, lines.lines[: hunk.line - 1]))
    return len(lines.text)


def _check_apart(edits: Sequence[_Edit], path: str) -> None:
    for one, other in pairwise(edits):
        if other.start < one.end:
            numbers = f"hunks {one.number} and {other.number}"
            raise ToolExecutionError(f"{numbers} for {path} change the same lines: make one of them.")


def _spliced(text: str, edits: Sequence[_Edit]) -> Iterator[str]:
    done = 0
    for edit in edits:
        yield text[done : edit.start]
        yield edit.text
        done = edit.end
    yield text[done:]


def _with_end(text: str, edits: Sequence[_Edit], hunks: Sequence[Hunk], file: TextFile) -> str:
    """The text with or without a last newline, where a hunk at the end says so."""
    last = next((hunks[edit.number - 1] for edit in edits if edit.end == len(file.text)), None)
    if last is None or last.old_open == last.new_open:
        return text
    if last.new_open:
        return text[: len(text) - len(end_of(text))]
    return text if end_of(text) or not text else text + file.newline
