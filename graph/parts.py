"""What the graph works with: built once at an entry and handed in, never reached for."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lockstitch.graph.client import Client
from lockstitch.graph.models.source import ConfiguredModels, ModelSource
from lockstitch.state.errors import WorkspaceError
from lockstitch.state.facts import FactStore
from lockstitch.state.home import Home
from lockstitch.state.intents import Intents
from lockstitch.state.ledger import Ledger
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadIndex
from lockstitch.tools.catalog import build_registry
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One process's parts.

    Attributes:
        folder: where a run works when neither it, nor its thread, nor a setting names a folder.
        threads: the index people list threads by; None keeps none.
        intents: what had begun when a run was cut off; None cannot tell.
        facts: what is remembered of a workspace beyond a thread; opened when it is first used.
        clients: the live sides of runs, by run id. The events of a run without one go into LangGraph's
            custom stream, which costs a wake-up of its loop for each event, about 1.5 ms a step.
        now: ISO 8601 in UTC.
        monotonic: seconds.
    """

    settings: Settings
    home: Home
    folder: Path
    models: ModelSource
    guard: Guard
    threads: ThreadIndex | None = None
    intents: Intents | None = None
    facts: FactStore | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    now: Callable[[], str] = utc_now
    monotonic: Callable[[], float] = time.monotonic


def current_folder() -> Path:
    """Where this process was started.

    Raises:
        WorkspaceError: the folder is gone.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise WorkspaceError("the current folder is gone: name one with --workspace.") from error


def build_parts(
    settings: Settings, home: Home, *, ledger: Ledger | None = None, models: ModelSource | None = None
) -> Parts:
    """The real parts of a process that starts in the current folder."""
    rate = RateLimit(settings.rate_limit_per_minute, monotonic=time.monotonic)
    return Parts(
        settings=settings,
        home=home,
        folder=settings.workspace or current_folder(),
        models=models or ConfiguredModels(settings),
        guard=Guard(build_registry(settings.extra_tools), rate),
        threads=ThreadIndex(ledger) if ledger else None,
        intents=Intents(ledger) if ledger else None,
        facts=FactStore(home.path),
    )
