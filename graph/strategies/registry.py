"""The strategies there are, by name. A new one is a file beside this and a line in the table."""

from typing import Final

from lockstitch.graph.strategies.llm_only import LlmOnly
from lockstitch.graph.strategies.plan_and_execute import PlanAndExecute
from lockstitch.graph.strategies.protocol import Strategy
from lockstitch.graph.strategies.react import React
from lockstitch.graph.strategies.reason_act_observe import ReasonActObserve
from lockstitch.graph.strategies.tool_first import ToolFirst
from lockstitch.state.errors import SettingsError

_ALL: Final[tuple[Strategy, ...]] = (
    React(),
    ReasonActObserve(),
    PlanAndExecute(),
    ToolFirst(),
    LlmOnly(),
)
STRATEGIES: Final[dict[str, Strategy]] = {strategy.name: strategy for strategy in _ALL}


def choose_strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        SettingsError: there is none; the message lists those there are.
    """
    if name not in STRATEGIES:
        raise SettingsError(f"there is no strategy {name!r}. Choose one of: {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]
