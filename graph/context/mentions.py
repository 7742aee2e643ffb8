"""The files and folders a prompt mentions: `@path`, `@path:10-40`, `@"with blanks"`. Touches no disk."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

MENTION: Final = re.compile(
    r"""(?<![\w@.+/\\-])@              # no e-mail address, and nothing that goes on from a path
        (?:"([^"\n]+)"((?::\d+(?:-\d+)?)?)  # quoted, with its lines after the quote
        |([^\s"'`<>|,;@\u3001\u3002\uff0c\uff1b\uff1a]+))  # or up to a blank or a comma""",
    re.VERBOSE,
)
LINES: Final = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?")  # nine digits: more lines than a file we read
FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})(.*)")  # as CommonMark has it, at any depth of a list
PAIRS: Final = {")": "(", "]": "[", "}": "{"}
KEPT_AT_THE_END: Final = frozenset("_/")  # punctuation that ends names

# What makes a name without a folder look like a file, so that it is told when it is missing. A list, since
# `@app.route` and `@functools.cache` have a dot as well.
SUFFIXES: Final = frozenset(
    {
        *(".bash", ".c", ".cc", ".cfg", ".cjs", ".conf", ".cpp", ".cs", ".css", ".csv", ".cts"),
        *(".dart", ".env", ".ex", ".exs", ".go", ".gradle", ".h", ".hpp", ".htm", ".html", ".ini"),
        *(".ipynb", ".java", ".js", ".json", ".jsonc", ".jsx", ".kt", ".kts", ".less", ".lock"),
        *(".log", ".lua", ".m", ".md", ".mdc", ".mjs", ".mts", ".php", ".pl", ".proto", ".ps1"),
        *(".py", ".pyi", ".r", ".rb", ".rs", ".rst", ".sass", ".scala", ".scss", ".sh", ".sql"),
        *(".svelte", ".svg", ".swift", ".tf", ".toml", ".ts", ".tsx", ".txt", ".vue", ".xml"),
        *(".yaml", ".yml", ".zig", ".zsh"),
    }
)


@dataclass(frozen=True)
class Mention:
    """One file or folder; `first` and `last` are lines from 1, None for all of it.

    Attributes:
        certain: it was meant as a path, so it is told when nothing is there.
    """

    path: str
    first: int | None = None
    last: int | None = None
    certain: bool = field(default=True, compare=False)


def parse_mentions(prompt: str) -> tuple[Mention, ...]:
    """What the prompt mentions, each once, in its order; nothing that stands in a code fence.

    A mention need not exist: `@dataclass` is one that is not `certain`.
    """
    found = (_mention(match) for match in MENTION.finditer("\n".join(_unfenced(prompt))))
    return tuple(dict.fromkeys(mention for mention in found if mention is not None))


def parse_place(text: str) -> Mention:
    """The mention of `path` or `path:10-40`, as it stands after the `@` or as a client hands it in."""
    match = LINES.fullmatch(text)
    if match is None:
        return Mention(text, certain=_looks_like_path(text))
    path, first, last = match[1], int(match[2]), int(match[3] or match[2])
    if not 1 <= first <= last:
        return Mention(path, certain=_looks_like_path(path))
    return Mention(path, first, last)


def _mention(match: re.Match[str]) -> Mention | None:
    if match[1] is not None:
        place = parse_place(f"{match[1]}{match[2]}") if match[2] else Mention(match[1])
        return Mention(place.path, place.first, place.last)
    text = _without_punctuation(match[3])
    return parse_place(text) if text else None


def _without_punctuation(text: str) -> str:
    """Without what ends a sentence; a bracket stays where it closes one of the path's own."""
    while text:
        last = text[-1]
        opening = PAIRS.get(last)
        closes = opening is not None and text.count(opening) >= text.count(last)
        if closes or last in KEPT_AT_THE_END or not unicodedata.category(last).startswith("P"):
            return text
        text = text[:-1]
    return text


def _looks_like_path(text: str) -> bool:
    return "/" in text or PurePosixPath(text).suffix.lower() in SUFFIXES


def _unfenced(prompt: str) -> Iterator[str]:
    """The lines outside of code fences; one that is never closed goes to the end."""
    fence = ""
    for line in prompt.splitlines():
        match = FENCE.fullmatch(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        elif match and not (match[1].startswith("`") and "`" in match[2]):
            fence = match[1]
        else:
            yield line
