"""A piece of a file, as the index holds it: its place, its names, and the texts that find it."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

CHUNK_CHARS: Final = 8_000  # kept of one piece: 60 lines are 2,400 in the median; longer ones are data
SENSE_CHARS: Final = 2_000  # of the text that the encoder is given; its 128 pieces end well before
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines `first` to `last` (from 1, both included) of the file at `path`.

    Attributes:
        symbol: the definition's name below those that hold it, `Class.method`; or a heading; or empty.
        text: its lines, at most `CHUNK_CHARS` characters.
    """

    path: str
    first: int
    last: int
    symbol: str
    text: str

    @property
    def heading(self) -> str:
        """Its names in plain words, the nearest first: the definition, its holder, the path."""
        name, *holders = reversed(re.split(r"[.:]+", self.symbol))
        folders = self.path.rsplit(".", 1)[0]
        return " ".join(part for text in (name, *holders, folders) for part in split_words(text))

    @property
    def sense(self) -> str:
        """What the encoder reads: words alone. Without signs twice as much of a function fits its 128 pieces.

        Measured on 3,000 functions, MRR@10: .657 of words under their heading, .610 of the code as it stands.
        """
        return f"{self.heading}. {' '.join(split_words(self.text[:SENSE_CHARS]))}"

    @property
    def sense_hash(self) -> str:
        """By which its vector is found again, also in another place of the same name."""
        return hashlib.sha256(self.sense.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def split_words(text: str) -> list[str]:
    """The words of identifiers: `getHTTPResponse_code2` is get, HTTP, Response, code and 2."""
    return _PART.findall(text)
