"""How many requests one client may make: a bucket of them that fills again steadily."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

PER_SECOND: Final = 100.0  # far above what a page, an editor and a script together ask for
BURST: Final = 1000  # at once: a page that comes back after a night reads all it missed
CLIENTS_MAX: Final = 1024  # remembered, the latest; a forgotten one begins with a full bucket


class Rate:
    """The buckets of all clients."""

    def __init__(
        self,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and since when

    def wait_s(self, client: str) -> float:
        """Take one request of the client's; seconds until it may ask again, 0 when it may now."""
        now = self._monotonic()
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._buckets[client] = (left if wait else left - 1, now)
        if len(self._buckets) > CLIENTS_MAX:
            self._buckets.popitem(last=False)
        return wait
