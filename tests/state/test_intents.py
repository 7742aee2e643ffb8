"""A call is noted before it begins, once, in a place that outlives the process."""

from pathlib import Path

from lockstitch.state.intents import Intents
from lockstitch.state.ledger import open_ledger


def begin(folder: Path, *, checkpoint: str = "c1", call: str = "call_0", thread: str = "t") -> bool:
    with open_ledger(folder / "ledger.db") as ledger:
        return Intents(ledger).begin(
            thread, checkpoint_id=checkpoint, call_id=call, now="2026-01-01T00:00:00Z"
        )


def test_a_call_begins_once_also_for_the_next_process(tmp_path: Path) -> None:
    assert [begin(tmp_path), begin(tmp_path)] == [True, False]


def test_the_same_id_in_another_step_call_or_thread_is_another_call(tmp_path: Path) -> None:
    places = [{}, {"checkpoint": "c2"}, {"call": "call_1"}, {"thread": "u"}]
    assert all(begin(tmp_path, **place) for place in places)  # type: ignore[arg-type]
