"""What a reply cost: its tokens as the provider counted them, and the price of the model that answered."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage

STAMP: Final = "lockstitch"  # key in a reply's response_metadata; no provider is sent that back


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Of one reply or several. `cost_usd` is None where the price of a model is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
        )


def add_costs(one: float | None, other: float | None) -> float | None:
    """The sum; unknown with anything stays unknown."""
    return None if one is None or other is None else one + other


def stamp_reply(reply: AIMessage, *, model: str, cost_usd: float | None) -> AIMessage:
    """The reply with the model that answered and what it cost."""
    stamp: dict[str, Any] = {"model": model, "cost_usd": cost_usd}
    return reply.model_copy(update={"response_metadata": {**reply.response_metadata, STAMP: stamp}})


def answered_by(reply: AIMessage) -> str | None:
    """The model that gave the reply; None where nobody noted it."""
    model = reply.response_metadata.get(STAMP, {}).get("model")
    return str(model) if model else None


def spent_of(replies: Iterable[AIMessage]) -> Spent:
    """What the replies cost together."""
    return sum(map(_spent, replies), Spent())


def _spent(reply: AIMessage) -> Spent:
    usage = reply.usage_metadata
    if usage is None:
        return Spent(cost_usd=None)
    return Spent(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cached_tokens=usage.get("input_token_details", {}).get("cache_read", 0),
        cost_usd=reply.response_metadata.get(STAMP, {}).get("cost_usd"),
    )
