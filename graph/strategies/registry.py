"""The strategies there are, by name. A new one is a file beside this and a line in the table.

Another package adds its own by an entry point in the group `lockstitch.strategies`: its name is the
strategy's, its value the class, which is built without arguments, or an object.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

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


ENTRY_POINTS: Final = "lockstitch.strategies"


def choose_strategy(name: str) -> Strategy:
    """The strategy of that name; ours before an installed one.

    Raises:
        SettingsError: there is none, or its package cannot be used; the message lists those there are.
    """
    return STRATEGIES[name] if name in STRATEGIES else _installed(name)


def strategy_names() -> list[str]:
    """All names to choose from, those of installed packages last."""
    return list(dict.fromkeys([*STRATEGIES, *(point.name for point in entry_points(group=ENTRY_POINTS))]))


@cache
def _installed(name: str) -> Strategy:
    for point in entry_points(group=ENTRY_POINTS, name=name):
        return _load(point)
    raise SettingsError(f"there is no strategy {name!r}. Choose one of: {', '.join(strategy_names())}.")


def _load(point: EntryPoint) -> Strategy:
    try:
        found = point.load()
        strategy = found() if isinstance(found, type) else found
    except Exception as error:
        raise SettingsError(
            f"the strategy {point.name!r} of {point.value} cannot be loaded ({type(error).__name__}). "
            "Mend or uninstall its package."
        ) from error
    if not all(callable(getattr(strategy, verb, None)) for verb in ("think", "observe")):
        raise SettingsError(f"the strategy {point.name!r} of {point.value} has no think and observe.")
    return cast("Strategy", strategy)
