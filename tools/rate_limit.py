"""How many file operations a thread may make in a minute."""

import math
from collections import defaultdict, deque
from collections.abc import Callable

from lockstitch.state.errors import ResourceLimitError

WINDOW_S = 60.0  # the limit is "a minute", sliding


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
            ResourceLimitError: the minute is used up; the message says when to go on.
        """
        if not self._limit:
            return
        now, used = self._monotonic(), self._used[thread_id]
        while used and now - used[0] >= WINDOW_S:
            used.popleft()
        if len(used) >= self._limit:
            wait_s = math.ceil(WINDOW_S - (now - used[0]))
            raise ResourceLimitError(
                f"{self._limit} file operations a minute are the limit of a thread: go on in {wait_s} s "
                "or raise LOCKSTITCH_RATE_LIMIT_PER_MINUTE (0 turns it off)."
            )
        used.append(now)
