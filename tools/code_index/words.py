"""Text to the terms that BM25 counts: identifiers in their parts, without endings and idle words."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from lockstitch.tools.code_index.chunk import split_words

TERM_CHARS_MAX: Final = 40  # longer ones are hashes and encoded data
# Words that are in most questions and most code, and tell neither apart.
IDLE: Final = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "are",
            "as",
            "at",
            "be",
            "by",
            "for",
            "from",
            "if",
            "in",
            "is",
            "it",
            "its",
            "not",
        ),
        *("of", "on", "or", "that", "the", "this", "to", "with", "where", "which"),
        *("def", "false", "none", "null", "return", "self", "true"),
    )
)
_DOUBLED: Final = re.compile(r"([bdgmnprt])\1$")


def terms_of(text: str) -> list[str]:
    """The terms in their order, repeated as often as they stand there."""
    return list(_terms(split_words(text)))


@lru_cache(maxsize=100_000)  # code repeats its words
def stem(word: str) -> str:
    """A small word without its English ending: `parses`, `parsed` and `parsing` are one term.

    Rougher than Porter's rules and quicker: what it makes need be no word, only the same for all forms.
    """
    if len(word) <= len("ids"):  # too short to lose an end
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("sses", "ss")):
        if word.endswith(ending):
            return word.removesuffix(ending) + instead
    if word.endswith("s") and not word.endswith(("ss", "us")):
        word = word[:-1]
    if word.endswith("ing") and len(word) > len("thing"):
        word = word[:-3]
    elif word.endswith("ed") and len(word) > len("need"):
        word = word[:-2]
    word = _DOUBLED.sub(r"\1", word)
    return word[:-1] if word.endswith("e") and len(word) > len("size") else word


def _terms(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        small = word.lower()
        if small not in IDLE and len(small) <= TERM_CHARS_MAX:
            yield stem(small)
