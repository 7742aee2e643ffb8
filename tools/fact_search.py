"""Search over long-term facts by words and by meaning, with the encoder that code search has.

The facts themselves lie in the store alone. Their vectors are kept beside the indexes by a hash of the text,
and are thrown away when a fact is forgotten.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from lockstitch.state.errors import HomeUnusableError, SystemFaultError
from lockstitch.state.facts import Fact
from lockstitch.state.settings import Settings
from lockstitch.tools.code_index.chunk import Chunk
from lockstitch.tools.code_index.encoder import Encoder, describe_missing, find_encoder
from lockstitch.tools.code_index.index_file import IndexFile
from lockstitch.tools.code_index.indexes import FOLDER
from lockstitch.tools.code_index.own_embeddings import EncoderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME: Final = "facts.db"  # beside the folders of indexes
# Least relevance of a fact that is shown: few are searched, and most fit nothing. Of six facts and seven
# questions what fits has 0.23 to 0.37 by meaning, but for one with 0.12, and what does not 0.12 at most.
BY_MEANING, BY_WORDS = 0.18, 0.1


class FactHit(NamedTuple):
    """A fact and how well it fits, 0 to 1."""

    fact: Fact
    relevance: float


class FactsFound(NamedTuple):
    """The facts that fit, the best first; `note` says why they were searched by words alone, if they were."""

    hits: list[FactHit]
    note: str = ""


def search_facts(facts: Sequence[Fact], query: str, settings: Settings) -> FactsFound:
    """Find the facts that fit a question; blocks, and encodes those that are new, 15 ms each."""
    if not facts or not query.strip():
        return FactsFound([])
    from lockstitch.tools.code_index.columns import Columns
    from lockstitch.tools.code_index.search import rank

    chunks = [Chunk("", 1, 1, "", fact.text) for fact in facts]
    rows = [(number, "", 1, 1, "", fact.text) for number, fact in enumerate(facts)]
    encoder = find_encoder(settings)
    note = describe_missing(settings) if encoder is None else ""
    vectors, asked = list[bytes](), None
    if encoder is not None:
        try:
            vectors = _vectors(chunks, encoder, settings.home)
            asked = encoder.embeddings.embed_query(query)
        except EncoderError as error:
            vectors, note = [], f"by words alone: {error.message}"
    ranked = rank(Columns.of(rows, list(enumerate(vectors))), query, asked if vectors else None)
    least = BY_MEANING if vectors else BY_WORDS
    return FactsFound([FactHit(facts[j.place], j.relevance) for j in ranked if j.relevance >= least], note)


def forget_vectors(home: Path) -> None:
    """Throw away all vectors of facts; the next search makes those that it needs.

    Raises:
        HomeUnusableError, SystemFaultError: the file cannot be written.
    """
    path = home / FOLDER / NAME
    if path.is_file():
        with IndexFile(path) as file:
            file.drop_vectors_but("")


def _vectors(chunks: Sequence[Chunk], encoder: Encoder, home: Path) -> list[bytes]:
    """The vectors in the order of the pieces, those that are known from the file."""
    try:
        (home / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        with IndexFile(home / FOLDER / NAME) as file:
            known = file.vectors_by_sense(encoder.name)
            missing = [chunk for chunk in chunks if chunk.sense_hash not in known]
            if missing:
                made = _encode(missing, encoder)
                file.put_vectors(encoder.name, missing, made)
                known |= zip((chunk.sense_hash for chunk in missing), map(_as_kept, made), strict=True)
    except (OSError, HomeUnusableError, SystemFaultError):  # what cannot be kept is made anew each time
        return list(map(_as_kept, _encode(chunks, encoder)))
    found = [known[chunk.sense_hash] for chunk in chunks]
    if len({len(vector) for vector in found}) > 1:  # the endpoint has another model under its name
        forget_vectors(home)
        return _vectors(chunks, encoder, home)
    return found


def _encode(chunks: Sequence[Chunk], encoder: Encoder) -> "NDArray[np.float32]":
    import numpy as np

    return np.asarray(encoder.embeddings.embed_documents([chunk.sense for chunk in chunks]), dtype=np.float32)


def _as_kept(vector: "NDArray[np.float32]") -> bytes:
    return vector.astype("<f2").tobytes()
