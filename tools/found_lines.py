"""What a search found: ripgrep's lines read as they come, the first ones kept, all of them counted."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from lockstitch.tools.paths import shown

LINE_CHARS: Final = 300  # of one line; longer ones are data or minified code
LINE_CUT: Final = " [...]"
BUFFER_BYTES: Final = 64 * 1024  # of a line that has no end yet; ripgrep cuts lines long before
MESSAGES_MAX: Final = 20  # lines of complaint; the first ones hold the reason
# ripgrep's words for matches that it does not show
BINARY: Final = (b": binary file matches", b": WARNING: stopped searching binary file")
BINARY_SIGN: Final = b" binary file "  # in both
_LINE: Final = re.compile(rb"(\d+)([:-])(.*)", re.DOTALL)  # `12:text`, `12-text` for context


@dataclass(frozen=True)
class FoundLine:
    """One line, a match or its context. `path` is relative to the folder searched."""

    path: str
    number: int
    text: str
    is_match: bool


class FoundLines:
    """The output of `rg --heading --null --line-number --sort path`.

    A file is its path, a NUL, and its lines, `12:text`; an empty line stands before the next one.

    Attributes:
        lines: matches and their context, in order; at most `max_matches` are matches.
        match_count: of all matching lines.
        file_count: of all files with one.
        binary_count: of binary files that match; their lines are not shown.
        long_count: of kept lines whose end was cut off.
        messages: what ripgrep said besides.
    """

    def __init__(
        self, *, max_matches: int, context_lines: int, is_wanted: Callable[[str], bool] | None = None
    ) -> None:
        """`is_wanted` is asked for the path of each file; None takes all."""
        self.lines: list[FoundLine] = []
        self.match_count = 0
        self.file_count = 0
        self.binary_count = 0
        self.long_count = 0
        self.messages: list[str] = []
        self._max_matches = max_matches
        self._context_lines = context_lines
        self._is_wanted = is_wanted
        self._path: str | None = None  # of the file whose lines come; None when it is not wanted
        self._last_kept: FoundLine | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        whole, _, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest[:BUFFER_BYTES]
        if self._context_lines == 0 and self.match_count >= self._max_matches:
            self._count_only(whole)
            return
        for line in whole.split(b"\n"):
            self._take(line)

    @property
    def kept_matches(self) -> int:
        """How many matching lines are in `lines`."""
        return min(self.match_count, self._max_matches)

    def render(self, prefix: str) -> str:
        """`path:12: text` for a match, `path-12- text` for context, `--` between what is not adjacent.

        Args:
            prefix: put before each path; empty, or a folder and its slash.
        """
        rows: list[str] = []
        before: FoundLine | None = None
        for line in self.lines:
            adjacent = before and before.path == line.path and before.number + 1 == line.number
            if self._context_lines and before and not adjacent:
                rows.append("--")
            mark = ":" if line.is_match else "-"
            rows.append(f"{shown(prefix + line.path)}{mark}{line.number}{mark} {line.text}")
            before = line
        return "\n".join(rows)

    def _take(self, raw: bytes) -> None:
        path, nul, line = raw.partition(b"\0")
        if nul:
            self._begin_file(path)
        parts = _LINE.fullmatch(line if nul else raw)
        if parts is None:
            self._take_message(raw)
        elif self._path is not None:
            self._keep(FoundLine(self._path, int(parts[1]), _text(parts[3]), parts[2] == b":"))

    def _begin_file(self, raw: bytes) -> None:
        path = raw.decode("utf-8", "surrogateescape").removeprefix("./")
        self._path = path if self._is_wanted is None or self._is_wanted(path) else None
        self.file_count += self._path is not None

    def _keep(self, line: FoundLine) -> None:
        self.match_count += line.is_match
        if line.is_match and self.match_count <= self._max_matches:
            self._last_kept = line
        elif line.is_match or not (self.match_count < self._max_matches or self._is_after_last(line)):
            return
        self.long_count += len(line.text) > LINE_CHARS
        self.lines.append(replace(line, text=_fitted(line.text)))

    def _count_only(self, data: bytes) -> None:
        """Count what comes when enough is kept: at once, or at least by file; 20 times as fast as by line."""
        if self._is_wanted is None and BINARY_SIGN not in data:
            files, lines = _count(data, b"\0"), _count(data, b"\n") + 1
            begins, ends = b"\0" in data.partition(b"\n")[0], data == b"" or data.endswith(b"\n")
            self.file_count += files
            self.match_count += lines - (files - begins + ends)  # an empty line stands before a file
            return
        for block in data.split(b"\n\n"):
            self._count_block(block.strip(b"\n"))

    def _count_block(self, block: bytes) -> None:
        path, nul, body = block.rpartition(b"\0")
        if nul:
            self._begin_file(path)
        *lines, last = body.split(b"\n")
        if last and not _LINE.fullmatch(last):
            self._take_message(last)
        elif last:
            lines.append(last)
        if self._path is not None:
            self.match_count += len(lines)

    def _is_after_last(self, line: FoundLine) -> bool:
        """Whether it is context of the last match kept, and not of the first one left out."""
        last = self._last_kept
        return (
            last is not None and last.path == line.path and line.number - last.number <= self._context_lines
        )

    def _take_message(self, raw: bytes) -> None:
        if any(words in raw for words in BINARY):
            self.binary_count += 1
        elif raw and len(self.messages) < MESSAGES_MAX:
            self.messages.append(raw.decode("utf-8", "replace"))


def _count(data: bytes, byte: bytes) -> int:
    """As `bytes.count`, which looks at each byte; this one jumps, and takes a tenth to two thirds of it."""
    return len(data) - len(data.replace(byte, b""))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").rstrip("\r")


def _fitted(text: str) -> str:
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + LINE_CUT
