"""Keeps the events of a run at the command line, so that a server can tell them, too: live and afterwards."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lockstitch.state.errors import AgentError
from lockstitch.state.event_log import EventLog
from lockstitch.state.events import AgentDelta, Event
from lockstitch.studio.event_writer import EventWriter

KEEP_EVERY_S: Final = 0.25  # between two writes: quick steps share one, and a follower sees no delay
NOT_KEPT: Final = "lockstitch: this run goes on, but other clients cannot follow it: "


class EventKeeper:
    """Writes in batches and off the event loop; `warn` tells once where that fails."""

    def __init__(self, log: EventLog, warn: Callable[[str], object]) -> None:
        self._log = log
        self._warn = warn
        self._writer = EventWriter(log, self._kept, gap_s=KEEP_EVERY_S)
        self._has_failed = False

    def last_seq(self, thread_id: str) -> int:
        """The number of the thread's last event that anybody was told."""
        return self._log.last_seq(thread_id)

    def put(self, event: Event) -> None:
        """Have the event kept; pieces of replies never are."""
        if not isinstance(event, AgentDelta):
            self._writer.put(event)

    async def flush(self) -> None:
        """Wait until everything that was put before is kept."""
        await self._writer.flush()

    def _kept(self, _: Sequence[Event], fault: AgentError | None) -> None:
        if fault and not self._has_failed:
            self._has_failed = True
            self._warn(NOT_KEPT + fault.message)


def drop_old(log: EventLog, *, days: int) -> None:
    """Delete the events that were told before so many days.

    Raises:
        HomeUnusableError, SystemFaultError: the log cannot be written.
    """
    log.prune(before=(datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds"))
