"""What a tool is given beside its arguments, as its parameter `call: CallContext`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from langchain_core.tools import InjectedToolArg
from pydantic_core import CoreSchema, core_schema

from lockstitch.state.events import Event
from lockstitch.state.facts import FactStore
from lockstitch.state.settings import CommandNetwork, Settings
from lockstitch.state.spill import SpillStore
from lockstitch.state.todos import TodoList
from lockstitch.tools.changes.call_journal import CallJournal
from lockstitch.tools.commands.processes import ThreadProcesses
from lockstitch.tools.commands.sandbox import NO_SANDBOX, Sandbox
from lockstitch.tools.history import HistoryEntry
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace


def _say_nothing(event: Event) -> None:
    """The default for calls that nobody watches."""


def _find_none() -> Sandbox:
    """The default for calls that run no command, or run it as it is."""
    return NO_SANDBOX


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One call's surroundings.

    Attributes:
        tool: the name it is called by.
        todos: the thread's list; a tool changes it in place, the graph stores it after the step.
        spill: where text that is too long for the conversation is kept, readable by this thread alone.
        emit: reports an event (progress, diff preview); safe to call from a worker thread.
        answer: a person's answer, for `request_input`; None when nobody was asked.
        history: the thread's whole conversation, without the searches in it; made when it is asked for.
        facts: what outlives the thread; None where nothing is kept.
        find_sandbox: gives what holds commands back; slow the first time, so not in an event loop's thread.
        journal: where what the call changes is sealed before it is made; None keeps nothing.
        layers: our own home, where a command's changes are held until they are kept; None lets it write
            straight into the workspace.
        scans: our own home, where it is known what the workspace was before such a command; None looks at
            nothing.
        hold: what a command changed waits for a person's word.
        approved: a person stands behind the call: by an answer, or by mode ask with its rules.
        discard: what a command changes in the workspace is thrown away, as mode plan has it.
        network: that a command in a sandbox reaches.
        processes: those of the thread that go on between calls; None where there is no run to end with.
        is_denied: whether a rule forbids this tool the path, relative to the workspace; None where none does.
        indexes: names of those that may be searched; None is the workspace's own, or any that is named.
        trail: where the guard notes the call for the audit; None notes nothing.
    """

    workspace: Workspace
    settings: Settings
    spill: SpillStore
    thread_id: str = ""
    call_id: str = ""
    tool: str = "run_command"
    todos: TodoList = field(default_factory=TodoList)
    emit: Callable[[Event], None] = _say_nothing
    answer: str | None = None
    history: Callable[[], Sequence[HistoryEntry]] = tuple
    facts: FactStore | None = None
    find_sandbox: Callable[[], Sandbox] = _find_none
    journal: CallJournal | None = None
    layers: Path | None = None
    scans: Path | None = None
    hold: bool = False
    approved: bool = False
    discard: bool = False
    network: CommandNetwork = "off"
    processes: ThreadProcesses | None = None
    is_denied: Callable[[str], bool] | None = None
    indexes: Sequence[str] | None = None
    trail: Trail | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        """Taken as it is: a look at all of its fields would be made anew for every tool, 10 ms each."""
        return core_schema.is_instance_schema(cls)


# Write a tool's parameter as `call: CallContext`: LangChain then keeps it out of the schema the model sees.
CallContext = Annotated[ToolContext, InjectedToolArg]
