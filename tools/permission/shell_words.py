"""Words of a shell command as bash will see them: quotes taken off, and what nobody can know beforehand."""

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

WordKind = Literal["plain", "glob", "unknown"]

_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\(["\\$`\n])')
_GLOB: Final = re.compile(r"[*?\[\]]")
_MODULE: Final = re.compile(
    r"-[bBdEIiOPqsSuvx]*m(?P<name>[^-].*)"
)  # of python: options in one word, and its module
_BRACES: Final = re.compile(r"\{[^}]*(,|\.\.)")  # `{git,push}` becomes two words


class Word(NamedTuple):
    """One word. What is `unknown` only running shows: `$x`, `$(...)`, `{a,b}`; a `glob` has `*` or `?`."""

    text: str
    kind: WordKind = "plain"


def split_modules(words: Sequence[Word]) -> list[Word]:
    """The words of a python command, with `-mpip` and `-Impip` as `-m pip`: python reads them so."""
    parted: list[Word] = []
    for word in words:
        joined = _MODULE.fullmatch(word.text)
        parted += [Word("-m"), Word(joined["name"], word.kind)] if joined else [word]
    return parted


def names(text: str) -> frozenset[str]:
    """A set of names from a text with blanks between them."""
    return frozenset(text.split())


def read_word(node: Any) -> Word:
    """The word of a tree-sitter node."""
    match node.type:
        case "command_name":
            return read_word(node.children[0])
        case "word" | "number":
            return _bare(node.text.decode())
        case "raw_string":
            return Word(node.text.decode()[1:-1])
        case "string":
            return _quoted(node)
        case "concatenation":
            return _joined(node)
        case _:  # an expansion, a substitution, $'...', or what this program does not know
            return Word(node.text.decode(), "unknown")


def _bare(text: str) -> Word:
    if _BRACES.search(text) or "\\\n" in text:
        return Word(text, "unknown")
    unescaped = _ESCAPED.sub(r"\1", text)
    return Word(unescaped, "glob" if _GLOB.search(_ESCAPED.sub("", text)) else "plain")


def _quoted(node: Any) -> Word:
    text = node.text.decode()
    if any(child.type not in ('"', "string_content") for child in node.children):
        return Word(text, "unknown")
    return Word(_ESCAPED_IN_QUOTES.sub(lambda found: found[1].strip("\n"), text[1:-1]))


def _joined(node: Any) -> Word:
    if node.start_point[0] != node.end_point[0] and b"\\\n" in node.text:
        return Word(node.text.decode(), "unknown")
    pieces = [read_word(child) for child in node.children]
    kinds = {piece.kind for piece in pieces}
    bare = "".join(child.text.decode() for child in node.children if child.type == "word")
    if "unknown" in kinds or _BRACES.search(node.text.decode() if "{" in bare else ""):
        return Word(node.text.decode(), "unknown")
    return Word("".join(piece.text for piece in pieces), "glob" if "glob" in kinds else "plain")
