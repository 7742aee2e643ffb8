"""What calls leave in the audit: what they touched and how they ended, kept in one commit.

Of the arguments it takes those that name a place, and a command; never what is written, searched or answered.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import urlsplit

from lockstitch.state.audit import Audit, AuditEntry, Outcome
from lockstitch.state.errors import AgentError
from lockstitch.state.run_context import Door
from lockstitch.tools.permission.call_paths import paths_of

PATHS_MAX: Final = 50  # of one call; a patch may name more


@dataclass(kw_only=True)
class Trail:
    """The calls of one step, or a person's own one. Use it in an `async with`: its end keeps them.

    Also where the step is stopped or fails. Where it goes well and they cannot be kept, that is raised:
    HomeUnusableError or SystemFaultError.

    Attributes:
        audit: None keeps nothing.
        now: ISO 8601 in UTC, to the millisecond.
    """

    audit: Audit | None
    now: Callable[[], str]
    door: Door
    workspace: str
    thread_id: str = ""
    run_id: str = ""
    step: int = 0
    _entries: list[AuditEntry] = field(default_factory=list, init=False)

    def note(
        self, tool: str, args: Mapping[str, Any], *, call_id: str, outcome: Outcome, time_ms: float = 0.0
    ) -> None:
        """Remember one call."""
        command = args.get("command")
        entry = AuditEntry(
            timestamp=self.now(),
            thread_id=self.thread_id,
            run_id=self.run_id,
            step=self.step,
            call_id=call_id,
            door=self.door,
            workspace=self.workspace,
            tool=tool,
            outcome=outcome,
            time_ms=round(time_ms, 3),
            path=_paths(args),
            host=_host(args.get("url")),
            command=command if isinstance(command, str) else None,
        )
        self._entries.append(entry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        entries, self._entries = self._entries, []
        if self.audit is None or not entries:
            return
        try:
            if not self.audit.record_at_once(entries):
                await asyncio.to_thread(self.audit.record, entries)
        except AgentError:
            if error is None:  # else what ended the step is told, and a stop stays a stop
                raise


def _paths(args: Mapping[str, Any]) -> str | None:
    """The paths that a call names, a line each."""
    folder = args.get("working_directory")
    named = [*paths_of(args)[:PATHS_MAX], *([folder] if isinstance(folder, str) else [])]
    return "\n".join(path.replace("\n", "\\n") for path in dict.fromkeys(named)) or None


def _host(url: object) -> str | None:
    try:
        return urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        return None
