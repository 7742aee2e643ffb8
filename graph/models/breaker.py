"""Which models are left out for a while, since they failed several times in a row."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

FAILURES: Final = 3  # in a row; two may be bad luck
REST_S: Final = 30.0  # as long as an overloaded endpoint usually needs; each failure begins it anew

Circuit = Literal["closed", "half_open", "open"]
"""How a model stands: asked as usual, asked once to see, left out."""


@dataclass
class _Row:
    failures: int = 0
    rests_until: float = 0.0


class Breaker:
    """Counts failures by the name of a model; one for all runs of a process."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._rows: dict[str, _Row] = {}

    def enter(self, name: str) -> Circuit:
        """How the model stands for one who would ask it now.

        A half-open circuit is open to everybody else until this try has told how it ended, or, where it
        never does, until the model has rested once more.
        """
        row = self._rows.get(name)
        if row is None or row.failures < FAILURES:
            return "closed"
        if self._monotonic() < row.rests_until:
            return "open"
        row.rests_until = self._monotonic() + REST_S
        return "half_open"

    def succeeded(self, name: str) -> None:
        """It answered."""
        self._rows.pop(name, None)

    def failed(self, name: str) -> None:
        """It could not be reached, or was too busy."""
        row = self._rows.setdefault(name, _Row())
        row.failures += 1
        row.rests_until = self._monotonic() + REST_S
