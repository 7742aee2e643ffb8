"""Where the graph goes next: pure decisions on the state.

LangGraph gives each the channels of its parameter's type, and puts them together anew: with `messages` among
them that would be all of the conversation three times a step.
"""

from typing import Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from typing_extensions import TypedDict

from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import Pause, PlannedCall


class Crossing(TypedDict, total=False):
    """The part of the state that decides where to go; its channels are those of `RunState`.

    A route that reads another one names it here, or never sees it.
    """

    reason: TerminationReason | None
    calls: list[PlannedCall]
    pause: Pause | None


class Route(RunnableLambda[Crossing, str]):
    """A route as LangGraph calls it: at once, where its own wrapper takes a thread or a traced task."""

    async def ainvoke(self, input: Crossing, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002, ARG002  LangChain's signature
        """Where to go."""
        return self.func(input)


def undecided(calls: list[PlannedCall]) -> PlannedCall | None:
    """The first call that waits for a person."""
    return next((call for call in calls if waits(call)), None)


def waits(call: PlannedCall) -> bool:
    """Whether a person is asked: about the call, or about what it changed."""
    return "decision" not in call and (call["verdict"] in ("ask", "question") or "pending" in call)


def route_after_begin(state: Crossing) -> Literal["approve", "plan", "finish"]:
    """A run that cannot start goes straight to its end; one on other files than its own asks about them."""
    if state.get("reason"):
        return "finish"
    return "approve" if state.get("pause") else "plan"


def route_after_plan(state: Crossing) -> Literal["approve", "execute", "observe", "finish"]:
    """Calls are approved where they must be, then executed; an answer goes to be observed."""
    if state.get("reason"):
        return "finish"
    if state.get("pause"):
        return "approve"
    calls = state.get("calls", [])
    if not calls:
        return "observe"
    return "approve" if undecided(calls) else "execute"


def route_after_approve(state: Crossing) -> Literal["approve", "execute", "plan", "finish"]:
    """One question at a time, each with a checkpoint of its own; past a limit the next step is planned."""
    if state.get("reason"):
        return "finish"
    calls = state.get("calls", [])
    if not calls:
        return "plan"
    return "approve" if undecided(calls) else "execute"


def route_after_execute(state: Crossing) -> Literal["approve", "observe", "finish"]:
    """Results are observed unless executing ended the run, or a person is asked about what a call changed."""
    if state.get("reason"):
        return "finish"
    return "approve" if undecided(state.get("calls", [])) else "observe"


def route_after_observe(state: Crossing) -> Literal["approve", "plan", "finish"]:
    """On to the next step until there is a reason to end, or to ask whether to go on."""
    if state.get("reason"):
        return "finish"
    return "approve" if state.get("pause") else "plan"
