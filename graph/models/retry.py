"""How long to wait before a model is asked again: as long as its endpoint asks, else longer each time."""

import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final

BASE_S: Final = 0.5  # the longest first wait
CAP_S: Final = 8.0  # the longest of the later ones; a person may be watching
ASKED_MAX_S: Final = 60.0  # rate limits count by the minute: who asks for more will not answer soon
_BY_MS: Final = "retry-after-ms"  # OpenAI's and Azure's, finer than the standard's whole seconds
_STANDARD: Final = "retry-after"


def backoff_s(attempt: int, *, random: Callable[[], float]) -> float:
    """The wait after the failed try `attempt`, from 0: anything up to a bound that doubles.

    Over the whole range (full jitter), so that runs which failed together do not come back together.
    """
    return random() * min(CAP_S, BASE_S * 2.0 ** min(attempt, 16))


def asked_wait_s(error: Exception, *, now: Callable[[], float] = time.time) -> float | None:
    """The wait that the reply behind `error` asks for, however long; None where it asks for none.

    Args:
        error: of a client that keeps the reply as `response`, as those of OpenAI and Anthropic do.
        now: seconds since 1970, against which an HTTP date is read.
    """
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    waits = (_seconds(headers.get(_BY_MS), per=1000), _seconds(headers.get(_STANDARD), per=1))
    known = [wait for wait in (*waits, _until(headers.get(_STANDARD), now)) if wait is not None]
    return known[0] if known and known[0] > 0 else None


def _seconds(value: str | None, *, per: int) -> float | None:
    try:
        wait = float(value or "") / per
    except ValueError:
        return None
    return None if math.isnan(wait) else wait


def _until(value: str | None, now: Callable[[], float]) -> float | None:
    try:
        return parsedate_to_datetime(value or "").timestamp() - now()
    except (ValueError, OverflowError, OSError):
        return None
