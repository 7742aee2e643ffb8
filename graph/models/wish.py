"""What a run asks of its models, and for what a call is made."""

from dataclasses import dataclass
from typing import Literal

Phase = Literal["plan", "observe", "sum_up", "compact"]
"""What a model call is for: the step's turn, judging results, the last words at a limit, a summary."""

Tier = Literal["fast", "balanced", "powerful"]


@dataclass(frozen=True, kw_only=True)
class ModelWish:
    """The choices of one run; None leaves it to the preset, then to the settings.

    Attributes:
        model: one model for every call of the run, whatever the tiers say.
        stream: ask for streamed replies.
    """

    model: str | None = None
    preset: str | None = None
    temperature: float | None = None
    stream: bool = False
