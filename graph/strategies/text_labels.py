"""The labels of the text protocol, `Thought: Action: Observation: Answer:`, however they are decorated."""

import re
from typing import Final

# Before a label: headings, lists, quotes, bold, backticks, emoji. Few, so that a long line costs nothing.
_MARKS: Final = r"(?:[ \t>#`*_~\-\u2190-\u2bff\ufe0f\U0001F000-\U0001FAFF]|\d{1,2}[.)]){0,16}+"
_COLON: Final = r"[ \t]{0,3}[:\uff1a][ \t]*"
LABEL: Final = re.compile(
    rf"(?P<marks>{_MARKS})"
    r"(?P<word>thoughts?|action[ _-]?input|actions?|observations?|final[ _-]?answer|answer)"
    rf"[ \t]{{0,3}}\d{{0,3}}[ \t]{{0,3}}(?P<shut>[*_`]{{0,3}}){_COLON}",
    re.IGNORECASE,
)
INPUT: Final = re.compile(  # below a bare name, maybe behind the fence that closes around it
    rf"\s*+(?:(?:`{{3,}}|~{{3,}})[ \t]*\n\s*+)?{_MARKS}"
    rf"(?:action[ _-]?input|input|arguments|args|parameters)[ \t]{{0,3}}[*_`]{{0,3}}{_COLON}",
    re.IGNORECASE,
)
_BOLD: Final = re.compile(r"(\*{1,3}|_{1,2}|`)$")


def rest_of(label: re.Match[str]) -> str:
    """What follows the label on its line, without the rest of bold print that began before the label."""
    rest = label.string[label.end() :]
    opened = _BOLD.search(label["marks"])
    if not opened or label["shut"]:
        return rest
    if rest.startswith(opened[1]):
        return rest[len(opened[1]) :].lstrip(" \t")
    bare = rest.rstrip()
    return bare.removesuffix(opened[1]) + rest[len(bare) :]
