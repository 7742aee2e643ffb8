"""Keys made unreadable in what leaves this process: answers, live streams and the log.

Only keys that are known to this process can be found in an answer: those of the settings and of the
environment, and the token. The log also loses what looks like a key.
"""

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from lockstitch.state.settings import Settings

SECRET_CHARS_MIN: Final = (
    12  # what is shorter is a placeholder such as `ollama` or `EMPTY`, and found in prose
)
_NAMED: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_KEY_LIKE: Final = re.compile(
    r"\b(?:sk|gsk|xai|pplx|nvapi|lsv2|ghp|glpat)[-_][\w*-]{8,}|(?<=Bearer )[^\s'\"]+"
)


def find_secrets(settings: Settings, environment: Mapping[str, str]) -> frozenset[str]:
    """The keys that the settings and the environment hold."""
    key = settings.openai_api_key
    named = {value for name, value in environment.items() if _NAMED.search(name)}
    return frozenset(named | {key.get_secret_value()} if key else named)


class Mask:
    """Puts stars in the place of secrets. An answer keeps its length, and so its `content-length`."""

    def __init__(self, secrets: Collection[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SECRET_CHARS_MIN for form in _forms(secret)}
        # the longest first: one may be the beginning of another
        self._texts = sorted(forms, key=len, reverse=True)
        self._forms = [form.encode("utf-8", "surrogateescape") for form in self._texts]

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._texts:
            text = text.replace(form, "*" * len(form))
        return text

    def data(self, data: bytes) -> bytes:
        """The bytes, in UTF-8, without secrets; as many as before."""
        for form in self._forms:
            data = data.replace(form, b"*" * len(form))
        return data

    def beginning(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of a secret."""
        return max((_overlap(data, form) for form in self._forms), default=0)


class MaskedStream:
    """A stream of bytes without secrets, also where one is cut in two by a chunk's end."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, chunk: bytes, *, more: bool) -> bytes:
        """What may go on its way; the rest follows with the next chunk."""
        data = self._mask.data(self._held + chunk)
        cut = len(data) - (self._mask.beginning(data) if more else 0)
        self._held = data[cut:]
        return data[:cut]


class MaskedFormatter(logging.Formatter):
    """Another formatter's lines without secrets: message, arguments and stack trace alike."""

    def __init__(self, inner: logging.Formatter, mask: Mask) -> None:
        super().__init__()
        self._inner = inner
        self.mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """The line, masked as it would be written."""
        return _KEY_LIKE.sub("***", self.mask.text(self._inner.format(record)))


def mask_logs(mask: Mask) -> None:
    """Mask what the handlers write that are set up by now, those of every logger."""
    for handler in _handlers():
        inner = handler.formatter or logging.Formatter()
        if not isinstance(inner, MaskedFormatter):
            handler.setFormatter(MaskedFormatter(inner, mask))


def _handlers() -> Iterable[logging.Handler]:
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    last_resort = [logging.lastResort] if logging.lastResort else []
    return {handler for logger in loggers for handler in logger.handlers} | set(last_resort)


def _forms(secret: str) -> set[str]:
    """The secret as it stands in text and in JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _overlap(data: bytes, form: bytes) -> int:
    """The longest proper beginning of `form` that `data` ends with."""
    longest = min(len(data), len(form) - 1)
    return next((size for size in range(longest, 0, -1) if data.endswith(form[:size])), 0)
