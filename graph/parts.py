"""What the graph works with: built once at an entry and handed in, never reached for."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from lockstitch.graph.client import Client
from lockstitch.graph.models.source import ConfiguredModels, ModelSource
from lockstitch.state.audit import Audit
from lockstitch.state.errors import WorkspaceError
from lockstitch.state.facts import FactStore
from lockstitch.state.home import Home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import Ledger
from lockstitch.state.mask import Mask, find_secrets
from lockstitch.state.objects import ObjectStore
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadIndex
from lockstitch.tools.catalog import build_registry
from lockstitch.tools.changes.layers import Layers
from lockstitch.tools.commands.processes import Processes
from lockstitch.tools.commands.sandbox import Sandbox, find_sandbox
from lockstitch.tools.guard import Guard
from lockstitch.tools.permission.rule_book import RuleBook
from lockstitch.tools.rate_limit import RateLimit

Result = TypeVar("Result")
Given = TypeVarTuple("Given")


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    second, ns = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(second)}.{ns // 1_000_000:03d}+00:00"


@lru_cache(maxsize=2)  # it is asked for ten times a step
def _second(since_1970: int) -> str:
    return datetime.fromtimestamp(since_1970, UTC).isoformat()[:19]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One process's parts.

    Attributes:
        folder: where a run works when neither it, nor its thread, nor a setting names a folder.
        rules: what people allow, and what they forbid.
        threads: the index people list threads by; None keeps none.
        intents: what had begun when a run was cut off; None cannot tell.
        audit: where every call is noted; None notes none.
        journal: where every change of files is noted before it is made; None takes nothing back.
        facts: what is remembered of a workspace beyond a thread; opened when it is first used.
        clients: the live sides of runs, by run id. The events of a run without one go into LangGraph's
            custom stream, which costs a wake-up of its loop for each event, about 1.5 ms a step.
        processes: those that go on between calls, by thread.
        now: ISO 8601 in UTC.
        monotonic: seconds.
        find_sandbox: gives the sandbox of this process; slow the first time, at once afterwards.
        on_loop: whether quick file work may be done on the event loop; `langgraph dev` forbids it.
    """

    settings: Settings
    home: Home
    folder: Path
    models: ModelSource
    guard: Guard
    rules: RuleBook
    threads: ThreadIndex | None = None
    intents: Intents | None = None
    audit: Audit | None = None
    journal: Journal | None = None
    facts: FactStore | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    processes: Processes = field(default_factory=Processes)
    now: Callable[[], str] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    find_sandbox: Callable[[], Sandbox] = find_sandbox
    on_loop: bool = False

    @cached_property
    def layers(self) -> Layers:
        """Over which workspaces commands run in layers."""
        return Layers(self.home.path, wanted=self.settings.command_layers)

    @property
    def sandbox(self) -> Sandbox:
        """What holds commands back. The first look starts processes: take it in a worker thread."""
        return self.find_sandbox()

    def folder_of(self, state: Mapping[str, Any]) -> Path:
        """Where a thread works: its own folder, or where this process was started for."""
        return Path(state.get("workspace") or self.folder)

    async def quickly(self, work: Callable[[*Given], Result], *given: *Given) -> Result:
        """Do file work of some microseconds; handing it to a worker thread costs 0.1 ms of CPU."""
        return work(*given) if self.on_loop else await asyncio.to_thread(work, *given)


def current_folder() -> Path:
    """Where this process was started.

    Raises:
        WorkspaceError: the folder is gone.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise WorkspaceError("the current folder is gone: name one with --workspace.") from error


def open_audit(ledger: Ledger, settings: Settings, *, on_loop: bool = False) -> Audit:
    """The audit in the ledger, without the keys that this process knows; `on_loop` as in Parts."""
    return Audit(ledger, mask=Mask(find_secrets(settings, os.environ)), on_loop=on_loop)


def build_parts(
    settings: Settings,
    home: Home,
    *,
    ledger: Ledger | None = None,
    models: ModelSource | None = None,
    on_loop: bool = False,
) -> Parts:
    """The real parts of a process that starts in the current folder; `on_loop` as in Parts.

    Raises:
        SettingsError: a file of the home folder does not fit.
        WorkspaceError: the current folder is gone, and no other is set.
    """
    rate = RateLimit(settings.rate_limit_per_minute, monotonic=time.monotonic)
    return Parts(
        settings=settings,
        home=home,
        folder=settings.workspace or current_folder(),
        models=models or ConfiguredModels(settings),
        guard=Guard(build_registry(settings.extra_tools), rate),
        rules=_checked_rules(home),
        threads=ThreadIndex(ledger) if ledger else None,
        intents=Intents(ledger) if ledger else None,
        audit=open_audit(ledger, settings, on_loop=on_loop) if ledger else None,
        journal=Journal(ledger, ObjectStore(home.objects, ledger)) if ledger else None,
        facts=FactStore(home.path),
        find_sandbox=lambda: find_sandbox(settings.command_sandbox),
        on_loop=on_loop,
    )


def _checked_rules(home: Home) -> RuleBook:
    """The rules of the home folder, read once: a file that does not fit is told at the start."""
    rules = RuleBook(home.path)
    rules.rules()
    return rules
