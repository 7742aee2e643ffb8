"""The limits of a run: which one is met, and what it takes to go on. Pure; `plan` checks before it asks."""

from typing import Final

from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import Pause, RunState
from lockstitch.state.settings import STEPS_MAX

_REASONS: Final[dict[str, TerminationReason]] = {
    "max_steps": "step_limit",
    "cost_limit_usd": "cost_limit",
    "token_limit": "cost_limit",  # tokens are what a model of unknown price costs
    "time_limit_s": "time_limit",
}
_WORDS: Final[dict[str, str]] = {
    "max_steps": "{at:,.0f} steps",
    "cost_limit_usd": "${at:,.4g}",
    "token_limit": "{at:,.0f} tokens",
    "time_limit_s": "{at:,.4g} s of work",
}
STUCK: Final = "stuck"  # not a number to raise, but the same question: whether to go on


def met_limit(state: RunState) -> Pause | None:
    """The first limit the run has met, in the order of the owner's list; None to go on."""
    tokens = state.get("input_tokens", 0) + state.get("output_tokens", 0)
    spent: dict[str, float | None] = {
        "max_steps": state.get("step", 0),
        "cost_limit_usd": state.get("cost_usd"),
        "token_limit": tokens,
        "time_limit_s": state.get("worked_s", 0.0),
    }
    for name, used in spent.items():
        limit = state.get(name)
        if isinstance(limit, int | float) and used is not None and used >= limit:
            return Pause(reason=_REASONS[name], limit=name, at=limit, more=_more(name, limit))
    return None


def stuck_pause() -> Pause:
    """The pause of a run that goes in a circle."""
    return Pause(reason="stuck", limit=STUCK, at=0, more=0)


def raised(state: RunState, pause: Pause, more: float | None) -> RunState:
    """The update that lets the run go on; `more` in the limit's own unit, None for what was offered."""
    name, by = pause["limit"], pause["more"] if more is None or more <= 0 else more
    used: float | None
    match name:
        case "max_steps":
            return RunState(max_steps=int(pause["at"] + max(1, min(by, STEPS_MAX))))
        case "cost_limit_usd":
            used = state.get("cost_usd")
            return RunState(cost_limit_usd=max(pause["at"], used or 0.0) + by)
        case "token_limit":
            used = state.get("input_tokens", 0) + state.get("output_tokens", 0)
            return RunState(token_limit=int(max(pause["at"], used) + max(1, by)))
        case "time_limit_s":
            return RunState(time_limit_s=max(pause["at"], state.get("worked_s", 0.0)) + by)
        case _:
            return RunState(traces=[])


def describe_pause(pause: Pause) -> str:
    """What a person is told: which limit, and what each answer does."""
    if pause["limit"] == STUCK:
        return "The run repeats itself without progress. Go on, say what it should do instead, or stop."
    at, more = _worded(pause["limit"], pause["at"]), _worded(pause["limit"], pause["more"])
    return f"The run has used its {at}. Go on by {more}, by another amount, or stop and sum up."


def describe_end(pause: Pause) -> str:
    """The first line of a run's last words at this limit."""
    if pause["limit"] == "max_steps":
        return f"Reached maximum iterations ({pause['at']:.0f})."
    return f"Reached the limit of {_worded(pause['limit'], pause['at'])}."


def _worded(limit: str, amount: float) -> str:
    if limit == "max_steps" and amount == 1:
        return "1 step"
    return _WORDS[limit].format(at=amount)


def _more(name: str, limit: float) -> float:
    """As much again; steps up to the owner's bound for one run."""
    return min(limit, STEPS_MAX) if name == "max_steps" else limit
