"""Text to the word pieces of MiniLM, as BERT's uncased tokenizer cuts it.

Ours, since the usual library brings the client of a model hub along. The same ids for 98 % of texts in 80
languages; the rest has combining marks of Khmer and the like.
"""

import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Final

VOCABULARY: Final = Path(__file__).parent / "minilm" / "vocab.txt"
START, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
WORD_CHARS_MAX: Final = 100  # BERT's own: longer words are unknown ones
CHARS_A_PIECE: Final = 12  # text beyond so many characters a wanted piece is not looked at: time has a bound
# A word, or one sign alone: punctuation, symbols and ideographs stand for themselves.
_WORD: Final = re.compile(r"[^\W_\u2e80-\u9fff\uf900-\ufaff]+|[^\s]")


class WordPiece:
    """The tokenizer; about 5 ms to make, and 5 MB."""

    def __init__(self, vocabulary: Path = VOCABULARY) -> None:
        pieces = vocabulary.read_text(encoding="utf-8").splitlines()
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self._pieces_of = lru_cache(maxsize=50_000)(self._split)  # code repeats its words

    def encode(self, text: str, *, max_pieces: int) -> list[int]:
        """The ids of the text between start and end mark, `max_pieces` at most, the marks included."""
        ids = [self._ids[START]]
        for word in _WORD.findall(_plain(text[: max_pieces * CHARS_A_PIECE])):
            ids += self._pieces_of(word)
            if len(ids) >= max_pieces:
                break
        return [*ids[: max_pieces - 1], self._ids[END]]

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest known pieces of a word, from its start on."""
        if len(word) > WORD_CHARS_MAX:
            return (self._ids[UNKNOWN],)
        ids, start = [], 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                return (self._ids[UNKNOWN],)
            start, number = found
            ids.append(number)
        return tuple(ids)

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        """Where the longest piece at `start` ends, and its id."""
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._ids.get(mark + word[start:end])
            if number is not None:
                return end, number
        return None


def _plain(text: str) -> str:
    """In small letters, without accents and control characters."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFD", text.lower())
    return "".join(sign for sign in parts if unicodedata.category(sign) != "Mn")
