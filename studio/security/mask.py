"""What leaves this process without keys: live streams and the log, which no control character leaves either.

Only keys that are known to this process can be found in an answer: those of the settings and of the
environment, and the token. The log also loses what looks like a key.
"""

import copy
import logging
import os
import re
from collections.abc import Iterable
from typing import Any, Final

from lockstitch.state.mask import Mask, find_secrets, mask_key_like
from lockstitch.state.settings import Settings
from lockstitch.studio.visible import make_visible

_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")  # what handlers themselves write for a terminal


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
    """Another formatter's lines without secrets and control characters: message, arguments and stack trace.

    The colours stay that the other formatter adds; those in what is logged are made visible.
    """

    def __init__(self, inner: logging.Formatter, mask: Mask) -> None:
        super().__init__()
        self._inner = inner
        self.mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """The line, masked as it would be written."""
        line = mask_key_like(self.mask.text(self._inner.format(_visible_record(record))))
        pieces = _COLOUR.split(line)  # text and colours in turn
        return "".join(piece if at % 2 else make_visible(piece) for at, piece in enumerate(pieces))


def mask_logs(mask: Mask) -> None:
    """Mask what the handlers write that are set up by now, those of every logger."""
    for handler in _handlers():
        inner = handler.formatter or logging.Formatter()
        if not isinstance(inner, MaskedFormatter):
            handler.setFormatter(MaskedFormatter(inner, mask))


def mask_process_logs(settings: Settings) -> None:
    """Mask this process's log with the keys of its settings and of its environment."""
    mask_logs(Mask(find_secrets(settings, os.environ)))


def _visible_record(record: logging.LogRecord) -> logging.LogRecord:
    """A copy whose words can command no terminal; other handlers have the record as it was."""
    shown = copy.copy(record)
    shown.msg = _visible_value(record.msg)
    if isinstance(record.args, tuple):
        shown.args = tuple(map(_visible_value, record.args))
    return shown


def _visible_value(value: Any) -> Any:
    """Numbers stay, since `%d` needs them, and so does what a handler's own formatter takes apart."""
    return make_visible(str(value)) if isinstance(value, str | BaseException) else value


def _handlers() -> Iterable[logging.Handler]:
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    last_resort = [logging.lastResort] if logging.lastResort else []
    return {handler for logger in loggers for handler in logger.handlers} | set(last_resort)
