"""What was about to run: noted before a command starts, so that a cut-off one is not run again unasked."""

from lockstitch.state.ledger import Ledger


class Intents:
    """Rows by place in the thread and call. Waits for the disk: call it from a worker thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def begin(self, thread_id: str, *, checkpoint_id: str, call_id: str, now: str) -> bool:
        """Note that the call begins; False when it had begun before, and so may have been made.

        Args:
            thread_id: of the run.
            checkpoint_id: the one that the step starts from: providers use ids of calls again and again.
            call_id: of the call in its reply.
            now: ISO 8601 in UTC.

        Raises:
            HomeUnusableError, SystemFaultError: it could not be noted, and must not begin.
        """
        new = self._ledger.execute(
            "INSERT INTO intents (thread_id, checkpoint_id, call_id, begun_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING RETURNING call_id",
            (thread_id, checkpoint_id, call_id, now),
        )
        return bool(new)

    def forget(self, thread_id: str) -> None:
        """Drop what the thread had begun: it is deleted, or begins anew."""
        self._ledger.execute("DELETE FROM intents WHERE thread_id = ?", (thread_id,))
