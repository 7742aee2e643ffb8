"""One node's view of the run it is part of: its parts, its choices, and the place to report events."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime
from pydantic import TypeAdapter, ValidationError

from lockstitch.graph.client import Client, Listener
from lockstitch.graph.models.port import ModelPort
from lockstitch.graph.models.source import ModelSource
from lockstitch.graph.models.wish import ModelWish, Phase
from lockstitch.graph.parts import Parts
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.plain import Plain
from lockstitch.graph.strategies.protocol import Strategy
from lockstitch.graph.strategies.registry import choose_strategy
from lockstitch.state.errors import SettingsError
from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import AgentStateChange, Event, dump_event
from lockstitch.state.misfit import describe_misfit
from lockstitch.state.recent import Recent
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import STEPS_AT_COMMAND_LINE, STEPS_AT_SERVER, CommandNetwork, Mode
from lockstitch.state.spill import SpillStore
from lockstitch.tools.registry import RegisteredTool

PLAIN = Plain()
_CONTEXT: TypeAdapter[RunContext] = TypeAdapter(RunContext)
_checked: Recent[RunContext, RunContext] = Recent(16)  # each node of a run is given the same one


@dataclass
class Run:
    """What a node is handed beside the state."""

    parts: Parts
    context: RunContext
    stamp: EventStamp
    report: Listener
    client: Client | None = None
    checkpoint_id: str = ""  # the one this node starts from; the same when it runs again
    step: int = 0
    _order: threading.Lock = field(default_factory=threading.Lock)
    _opened: dict[tuple[str, ...], ModelPort] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The run's mode."""
        return self.context.mode or self.parts.settings.mode

    @property
    def strategy(self) -> str:
        """The name of the run's strategy."""
        return self.context.strategy or self.parts.settings.strategy

    @property
    def thinking(self) -> Strategy:
        """The run's strategy; with agent mode off one plain call.

        Raises:
            SettingsError: there is no such strategy.
        """
        return choose_strategy(self.strategy) if self.context.agent_mode else PLAIN

    @property
    def max_steps(self) -> int:
        """Steps this run may take."""
        at_door = STEPS_AT_COMMAND_LINE if self.context.door == "cli" else STEPS_AT_SERVER
        return self.context.max_steps or self.parts.settings.max_steps or at_door

    @property
    def use_cgrag(self) -> bool:
        """Whether it begins with what the index finds for its prompt."""
        chosen = self.context.use_cgrag
        return self.parts.settings.use_cgrag if chosen is None else chosen

    @property
    def spill(self) -> SpillStore:
        """Where this thread's oversize results are kept."""
        return SpillStore(self.parts.home.spill, self.stamp.thread_id or "stateless")

    def model(self, phase: Phase, *, after: Sequence[str] = ()) -> ModelPort:
        """The run's model for one kind of call; `after` names the tools whose results it will read."""
        kind = (phase, *after)
        if kind not in self._opened:
            self._opened[kind] = self.models.open(self.wish, phase=phase, after=after, emit=self.emit)
        return self._opened[kind]

    @property
    def models(self) -> ModelSource:
        """Where its models come from: the client's own key, or the process's settings."""
        return (self.client.models if self.client else None) or self.parts.models

    @property
    def wish(self) -> ModelWish:
        """What this run asks of its models."""
        stream = self.parts.settings.stream
        if stream is None:
            stream = bool(self.client and self.client.streams)
        return ModelWish(
            model=self.context.model,
            preset=self.context.preset,
            temperature=self.context.temperature,
            stream=stream,
        )

    @property
    def tools(self) -> list[RegisteredTool]:
        """The tools this run may call."""
        return self.parts.guard.registry.select(self.context.tools if self.context.agent_mode else [])

    @property
    def network(self) -> CommandNetwork:
        """What commands in a sandbox reach."""
        return self.context.network or self.parts.settings.command_network

    @property
    def process_owner(self) -> str:
        """Whose processes those of this run are: the thread's; of a run without one its own."""
        return self.stamp.thread_id or self.stamp.run_id

    @property
    def system_prompt(self) -> str:
        """The preset's part of the system prompt."""
        return self.models.system_prompt(self.wish)

    def load_prompt(self, name: str) -> str:
        """A prompt by name: the person's file where there is one, else ours.

        Raises:
            SettingsError: the person's file cannot be read.
        """
        return load_prompt(name, self.parts.settings.prompts)

    def typed_since(self, state: RunState) -> list[HumanMessage]:
        """What a person typed during this run and the conversation does not hold yet."""
        if self.client is None or not self.client.inbox.texts():
            return []
        return self.client.inbox.beyond({message.id for message in state.get("messages", [])})

    def workspace(self, state: RunState) -> Path:
        """The folder of this run: asked for, the thread's, or the process's."""
        return Path(self.context.workspace or self.parts.folder_of(state)).expanduser()

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
    run_id = (info.run_id if info else None) or state.get("run_id", "")
    client = parts.clients.get(run_id)
    stamp = EventStamp(
        thread_id=(info.thread_id if info else None) or "",
        run_id=run_id,
        last_seq=max(state.get("last_seq", 0), client.last_seq if client else 0),
        now=parts.now,
    )
    report = client.hear if client else partial(_write, runtime.stream_writer)
    return Run(
        parts,
        runtime.context or RunContext(),
        stamp,
        report,
        client,
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
    known = _checked.find(context)
    if known is None:
        try:
            known = _CONTEXT.validate_python(vars(context))
        except ValidationError as error:
            raise SettingsError(f"the run's context does not fit. {describe_misfit(error)}.") from None
        _checked.keep(context, known)
    return known
