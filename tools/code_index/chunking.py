"""A file's text in pieces: by syntax, by heading, else by windows of lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from lockstitch.tools.code_index.chunk import CHUNK_CHARS, Chunk
from lockstitch.tools.code_index.languages import language_of
from lockstitch.tools.code_index.syntax import NAME_CHARS, Outline, Span, outline_of
from lockstitch.tools.texts.text_file import split_lines

VERSION: Final = 1  # of what comes out: a change of it makes every index go over its files again
PIECE_LINES: Final = 60  # of a long function; the encoder reads about the first 15 of each piece
WINDOW_LINES: Final = 40  # where nothing says what belongs together
OVERLAP_LINES: Final = 10  # so that no place lies at an edge only
CHUNKS_MAX: Final = 2_000  # of one file: a megabyte of code has 1,500; more is data
PROSE: Final = frozenset({".md", ".markdown", ".rst", ".txt", ".adoc"})
_MARKDOWN: Final = re.compile(r"#{1,6}\s+(.+?)\s*#*$|={1,5}\s+(\S.*)$")  # `= Title` is AsciiDoc's
_UNDERLINE: Final = re.compile(r"([=\-~^\"'`#*+.])\1{2,}\s*$")
_FENCE: Final = re.compile(r"\s*(```|~~~)")


def chunks_of(path: str, text: str) -> list[Chunk]:
    """The pieces of a file in their order, `CHUNKS_MAX` at most; none of blank lines alone."""
    lines = split_lines(text)
    language = language_of(path)
    outline = outline_of("\n".join(lines), language) if language else None
    if outline is not None:
        spans = _syntax_spans(outline, lines)
    elif PurePosixPath(path).suffix.lower() in PROSE:
        spans = _prose_spans(lines)
    else:
        spans = _windows(Span(0, len(lines) - 1, ""), overlap=OVERLAP_LINES)
    return list(_cut(path, lines, spans))


def _cut(path: str, lines: Sequence[str], spans: Iterable[Span]) -> Iterator[Chunk]:
    count = 0
    for first, last, symbol in spans:
        while first <= last and not lines[first].strip():
            first += 1  # noqa: PLW2901  a piece begins and ends with a line that says something
        while last >= first and not lines[last].strip():
            last -= 1  # noqa: PLW2901
        text = "\n".join(lines[first : last + 1])[:CHUNK_CHARS]
        if not any(map(str.isalnum, text)):
            continue
        yield Chunk(path, first + 1, last + 1, symbol, text)
        count += 1
        if count == CHUNKS_MAX:
            return


def _syntax_spans(outline: Outline, lines: Sequence[str]) -> Iterator[Span]:
    """The definitions, and what lies between them under the name of its holder."""
    done = 0
    for piece in sorted(outline.pieces):
        if piece.first > done:
            yield from _between(done, piece.first - 1, outline.holders)
        if piece.last >= done:
            yield from _windows(piece._replace(first=max(done, piece.first)), size=PIECE_LINES)
            done = piece.last + 1
    yield from _between(done, len(lines) - 1, outline.holders)


def _between(first: int, last: int, holders: Sequence[Span]) -> Iterator[Span]:
    """Lines outside of definitions, cut where a class begins or ends."""
    cuts = {first, last + 1}
    for holder in holders:
        cuts |= {edge for edge in (holder.first, holder.last + 1) if first < edge <= last}
    for start, end in pairwise(sorted(cuts)):
        inside = [holder.symbol for holder in holders if holder.first <= start <= holder.last]
        yield from _windows(Span(start, end - 1, inside[-1] if inside else ""))


def _windows(span: Span, *, size: int = WINDOW_LINES, overlap: int = 0) -> Iterator[Span]:
    start = span.first
    while start <= span.last:
        end = min(start + size - 1, span.last)
        yield Span(start, end, span.symbol)
        if end == span.last:
            return
        start = end + 1 - overlap


def _prose_spans(lines: Sequence[str]) -> Iterator[Span]:
    start, title = 0, ""
    for number, heading in _headings(lines):
        yield from _windows(Span(start, number - 1, title))
        start, title = number, heading
    yield from _windows(Span(start, len(lines) - 1, title))


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines that are headings, with their words; none inside fenced code."""
    fenced = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or not line.strip():
            continue
        found = _MARKDOWN.match(line)
        if found:
            yield number, (found[1] or found[2])[:NAME_CHARS]
        elif number + 1 < len(lines) and _is_underlined(line, lines[number + 1]):
            yield number, line.strip()[:NAME_CHARS]


def _is_underlined(line: str, below: str) -> bool:
    return (
        bool(_UNDERLINE.match(below)) and len(below.rstrip()) >= len(line.rstrip()) - 1 and line[0].isalnum()
    )
