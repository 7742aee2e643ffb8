"""One node's view of the run it is part of: its parts, its choices, and the place to report events."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.runtime import Runtime
from pydantic import TypeAdapter, ValidationError

from lockstitch.graph.models.port import ModelPort
from lockstitch.graph.parts import Listener, Parts
from lockstitch.state.errors import SettingsError
from lockstitch.state.events import AgentStateChange, Event, EventStamp, dump_event
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import STEPS_AT_COMMAND_LINE, STEPS_AT_SERVER, Mode
from lockstitch.state.spill import SpillStore
from lockstitch.tools.registry import RegisteredTool

_CONTEXT: TypeAdapter[RunContext] = TypeAdapter(RunContext)


@dataclass
class Run:
    """What a node is handed beside the state."""

    parts: Parts
    context: RunContext
    stamp: EventStamp
    report: Listener
    checkpoint_id: str = ""  # the one this node starts from; the same when it runs again
    step: int = 0
    _order: threading.Lock = field(default_factory=threading.Lock)

    @property
    def mode(self) -> Mode:
        """The run's mode."""
        return self.context.mode or self.parts.settings.mode

    @property
    def strategy(self) -> str:
        """The name of the run's strategy."""
        return self.context.strategy or self.parts.settings.strategy

    @property
    def max_steps(self) -> int:
        """Steps this run may take."""
        at_door = STEPS_AT_COMMAND_LINE if self.context.door == "cli" else STEPS_AT_SERVER
        return self.context.max_steps or self.parts.settings.max_steps or at_door

    @property
    def spill(self) -> SpillStore:
        """Where this thread's oversize results are kept."""
        return SpillStore(self.parts.home.spill, self.stamp.thread_id or "stateless")

    @property
    def model(self) -> ModelPort:
        """The run's model."""
        return self.parts.models.open(self.context.model, temperature=self.context.temperature)

    @property
    def tools(self) -> list[RegisteredTool]:
        """The tools this run may call."""
        return self.parts.guard.registry.select(self.context.tools)

    def workspace(self, state: RunState) -> Path:
        """The folder of this run: asked for, the thread's, or the process's."""
        return Path(self.context.workspace or state.get("workspace") or self.parts.folder).expanduser()

    def emit(self, event: Event) -> None:
        """Report an event; from worker threads too, hence the lock that keeps `seq` in order."""
        with self._order:
            self.report(self.stamp.stamp(event, step=self.step))

    def enter(self, phase: Any) -> None:
        """Report the state a user sees."""
        self.emit(AgentStateChange(state=phase))


def open_run(parts: Parts, state: RunState, runtime: Runtime[RunContext]) -> Run:
    """The run of a node that is about to work; its context is as the client sent it, unchecked."""
    info = runtime.execution_info
    stamp = EventStamp(
        thread_id=(info.thread_id if info else None) or "",
        run_id=(info.run_id if info else None) or state.get("run_id", ""),
        last_seq=state.get("last_seq", 0),
        now=parts.now,
    )
    report = parts.listeners.get(stamp.run_id) or partial(_write, runtime.stream_writer)
    return Run(
        parts,
        runtime.context or RunContext(),
        stamp,
        report,
        checkpoint_id=info.checkpoint_id if info else "",
        step=state.get("step", 0),
    )


def _write(stream_writer: Callable[[Any], None], event: Event) -> None:
    stream_writer(dump_event(event))


def check_context(context: RunContext) -> RunContext:
    """The context with its values checked; LangGraph builds it from a client's JSON without a look.

    Raises:
        SettingsError: names each value that does not fit.
    """
    try:
        return _CONTEXT.validate_python(vars(context))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg'].lower()}" for e in error.errors())
        raise SettingsError(f"the run's context does not fit. {faults}.") from None
