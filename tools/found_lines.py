"""What a search found: ripgrep's lines read as they come, the first ones kept, all of them counted."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lockstitch.tools.paths import shown

LINE_CHARS: Final = 300  # of one line; longer ones are data or minified code
LINE_CUT: Final = " [...]"
BUFFER_BYTES: Final = 64 * 1024  # of a line that has no end yet; ripgrep cuts lines long before
MESSAGES_MAX: Final = 20  # lines of complaint; the first ones hold the reason
BINARY_MATCH: Final = b": binary file matches"  # ripgrep's words for a match it does not show
_RECORD: Final = re.compile(rb"([^\0]*)\0(\d+)([:-])(.*)", re.DOTALL)  # --null: `path NUL number : text`


@dataclass(frozen=True)
class FoundLine:
    """One line, a match or its context. `path` is relative to the folder searched."""

    path: str
    number: int
    text: str
    is_match: bool


class FoundLines:
    """The output of `rg --null --line-number --with-filename --sort path`.

    Attributes:
        lines: matches and their context, in order; at most `max_matches` are matches.
        match_count: of all matching lines.
        file_count: of all files with one.
        binary_count: of binary files that match; their lines are not shown.
        messages: what ripgrep said besides.
    """

    def __init__(
        self, *, max_matches: int, context_lines: int, is_wanted: Callable[[str], bool] | None = None
    ) -> None:
        """`is_wanted` is asked for the path of each line; None takes all."""
        self.lines: list[FoundLine] = []
        self.match_count = 0
        self.file_count = 0
        self.binary_count = 0
        self.messages: list[str] = []
        self._max_matches = max_matches
        self._context_lines = context_lines
        self._is_wanted = is_wanted
        self._newest_path: str | None = None
        self._last_kept: FoundLine | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:BUFFER_BYTES]
        for line in lines:
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
        parts = _RECORD.fullmatch(raw)
        if parts is None:
            self._take_message(raw)
            return
        path = parts[1].decode("utf-8", "surrogateescape").removeprefix("./")
        if self._is_wanted is None or self._is_wanted(path):
            self._count(FoundLine(path, int(parts[2]), _fitted(parts[4]), parts[3] == b":"))

    def _count(self, line: FoundLine) -> None:
        if line.is_match:
            self.match_count += 1
            self.file_count += line.path != self._newest_path  # sorted: a path does not come back
            self._newest_path = line.path
            if self.match_count <= self._max_matches:
                self._last_kept = line
                self.lines.append(line)
        elif self.match_count < self._max_matches or self._is_after_last(line):
            self.lines.append(line)

    def _is_after_last(self, line: FoundLine) -> bool:
        """Whether it is context of the last match kept, and not of the first one left out."""
        last = self._last_kept
        return (
            last is not None and last.path == line.path and line.number - last.number <= self._context_lines
        )

    def _take_message(self, raw: bytes) -> None:
        if BINARY_MATCH in raw:
            self.binary_count += 1
        elif raw and len(self.messages) < MESSAGES_MAX:
            self.messages.append(raw.decode("utf-8", "replace"))


def _fitted(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").rstrip("\r")
    return text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + LINE_CUT
