"""How many file operations a thread may make in a minute."""

import math
from collections import defaultdict, deque
from collections.abc import Callable

from lockstitch.state.errors import RateLimitError

WINDOW_S = 60.0  # the limit is "a minute", sliding
THREADS_KEPT = 1_000  # about 1 MB; beyond it those that rested for a minute are forgotten


class RateLimit:
    """A sliding window per thread, kept in this process."""

    def __init__(self, per_minute: int, *, monotonic: Callable[[], float]) -> None:
        """`per_minute` of 0 turns the limit off; `monotonic` gives seconds."""
        self._limit = per_minute
        self._monotonic = monotonic
        self._used: defaultdict[str, deque[float]] = defaultdict(deque)

    def take(self, thread_id: str) -> None:
        """Count one operation.

        Raises:
            RateLimitError: the minute is used up; the message says when to go on.
        """
        if not self._limit:
            return
        now = self._monotonic()
        if len(self._used) > THREADS_KEPT:
            self._used = defaultdict(deque, {k: v for k, v in self._used.items() if now - v[-1] < WINDOW_S})
        used = self._used[thread_id]
        while used and now - used[0] >= WINDOW_S:
            used.popleft()
        if len(used) >= self._limit:
            wait_s = math.ceil(WINDOW_S - (now - used[0]))
            raise RateLimitError(
                f"{self._limit} file operations a minute are the limit of a thread: go on in {wait_s} s "
                "or raise LOCKSTITCH_RATE_LIMIT_PER_MINUTE (0 turns it off)."
            )
        used.append(now)
