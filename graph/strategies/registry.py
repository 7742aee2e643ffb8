"""The strategies there are, by name. A new one is a file beside this and a line in the table."""

from lockstitch.graph.strategies.protocol import Strategy
from lockstitch.graph.strategies.react import React
from lockstitch.state.errors import SettingsError

STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in (React(),)}


def choose_strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        SettingsError: there is none; the message lists those there are.
    """
    if name not in STRATEGIES:
        raise SettingsError(f"there is no strategy {name!r}. Choose one of: {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]
