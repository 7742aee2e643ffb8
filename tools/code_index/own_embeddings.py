"""Embeddings that are not ours: of an OpenAI-compatible endpoint, or any of LangChain's that a person names.

They are held to what an index needs: vectors of length 1, as many as texts, and every fault one of ours.
"""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from pydantic import SecretStr

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.settings import Settings

OWN: Final = "python:"  # before `module:attribute`
NO_KEY: Final = "none"  # endpoints on this machine want none, and the client wants one
TIMEOUT_S: Final = 30.0  # of one request, which a stop waits for
RETRIES: Final = 1  # a build asks again the next time anyhow
CHUNKS_A_REQUEST: Final = 64  # every endpoint takes so many texts at once


class EncoderError(ToolExecutionError):
    """The embeddings cannot be had just now; search goes on by words."""


class Endpoint(NamedTuple):
    """Where vectors come from; `base_url` None is OpenAI's own."""

    model: str
    base_url: str | None = None
    key: SecretStr | None = None

    @property
    def host(self) -> str:
        """The address without anything secret, by which vectors are told apart."""
        parts = urlsplit(self.base_url or "https://api.openai.com")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.hostname}{port}{parts.path.rstrip('/')}"


def endpoint_of(settings: Settings) -> Endpoint:
    """The endpoint that the settings name; the model's key goes to no other host than the model's."""
    key = settings.embeddings_api_key
    if settings.embeddings_base_url:
        return Endpoint(settings.embeddings, settings.embeddings_base_url, key)
    return Endpoint(settings.embeddings, settings.openai_base_url, key or settings.openai_api_key)


class OwnEmbeddings(Embeddings):
    """The embeddings of an endpoint, or of `python:module:attribute`; loaded by the first text."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors in the order of the texts, 1 long.

        Raises:
            EncoderError: they cannot be had.
        """
        vectors = self._asked(lambda inner: inner.embed_documents(texts))
        if len(vectors) != len(texts):
            raise EncoderError(f"the embeddings gave {len(vectors)} vectors for {len(texts)} texts.")
        return [_unit(vector) for vector in vectors]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question, 1 long.

        Raises:
            EncoderError: it cannot be had.
        """
        return _unit(self._asked(lambda inner: [inner.embed_query(text)])[0])

    def _asked(self, ask: Callable[[Embeddings], list[list[float]]]) -> list[list[float]]:
        try:
            return ask(self._inner)
        except EncoderError:
            raise
        except Exception as error:  # whatever a client of others raises; its text may hold a key
            raise EncoderError(
                f"the embeddings of {self._endpoint.model!r} cannot be had ({type(error).__name__}): see "
                "that their endpoint runs, and the settings `embeddings` and `embeddings_base_url`."
            ) from error

    @cached_property
    def _inner(self) -> Embeddings:
        if self._endpoint.model.startswith(OWN):
            return _load(self._endpoint.model.removeprefix(OWN))
        from langchain_openai import OpenAIEmbeddings

        return OpenAIEmbeddings(
            model=self._endpoint.model,
            openai_api_base=self._endpoint.base_url,
            openai_api_key=self._endpoint.key or SecretStr(NO_KEY),
            check_embedding_ctx_length=False,  # it would download a tokenizer; our texts are short
            chunk_size=CHUNKS_A_REQUEST,
            request_timeout=TIMEOUT_S,
            max_retries=RETRIES,
        )


def _load(reference: str) -> Embeddings:
    module, _, attribute = reference.partition(":")
    found = attrgetter(attribute)(import_module(module))
    if not isinstance(found, Embeddings):
        raise EncoderError(f"{reference!r} is no LangChain Embeddings: name an object of that kind.")
    return found


def _unit(vector: list[float]) -> list[float]:
    """The vector 1 long, so that products are cosines.

    Raises:
        EncoderError: it has no direction.
    """
    length = sum(number * number for number in vector) ** 0.5
    if not 0 < length < float("inf"):
        raise EncoderError("the embeddings gave a vector that is empty or holds no numbers.")
    return [number / length for number in vector]
