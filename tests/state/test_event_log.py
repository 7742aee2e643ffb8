"""Events are kept in order and whole, numbers are never lost, and old ones make room."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstitch.state import event_log
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.event_log import EventLog, open_event_log
from lockstitch.state.events import AgentDelta, AgentReason, AgentToolStart, Event, dump_event

NOW = "2026-05-01T00:00:00.000+00:00"


def event(seq: int, *, thread_id: str = "t", at: str = NOW) -> Event:
    return AgentReason(content=f"thought {seq}", seq=seq, thread_id=thread_id, timestamp=at)


def delta(seq: int, *, thread_id: str = "t") -> Event:
    return AgentDelta(kind="text", content="w", seq=seq, thread_id=thread_id, timestamp=NOW)


def numbers(log: EventLog, seq: int = 0, *, thread_id: str = "t", limit: int = 100_000) -> list[int]:
    return [found.seq for found in log.since(thread_id, seq, limit=limit)]


def test_events_come_back_as_they_were_after_reopening(tmp_path: Path) -> None:
    told: list[Event] = [
        event(1),
        AgentToolStart(call_id="c", tool="t", args={"é": ["\ud800", None, 1.5]}, seq=2, thread_id="t"),
    ]
    with open_event_log(tmp_path) as log:
        log.append(told)
    with open_event_log(tmp_path) as log:
        assert [dump_event(found) for found in log.since("t", 0)] == [dump_event(one) for one in told]


def test_a_reader_gets_what_comes_after_its_number_and_no_other_thread(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append([event(1), event(2, thread_id="other"), event(2), event(3)])
        assert numbers(log, 1) == [2, 3]
        assert numbers(log, 1, limit=1) == [2]
        assert numbers(log, 3) == []
        assert numbers(log, 0, thread_id="nobody") == []


def test_pieces_of_a_reply_are_not_kept_but_their_numbers_are(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append([event(1), delta(2), delta(3)])
        assert (numbers(log), log.last_seq("t")) == ([1], 3)


def test_what_was_told_first_under_a_number_stays(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append([event(1)])
        log.append([AgentReason(content="another", seq=1, thread_id="t", timestamp=NOW), event(2)])
        assert [found.content for found in log.since("t", 0)] == ["thought 1", "thought 2"]  # type: ignore[union-attr]


def test_the_last_number_never_falls(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        assert log.last_seq("t") == 0
        log.append([event(7)])
        log.append([event(5)])
        assert log.last_seq("t") == 7


def test_a_batch_that_fails_keeps_nothing(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log._connection.execute("DROP TABLE last_seqs")
        with pytest.raises(SystemFaultError, match=r"events\.db"):
            log.append([event(1)])
        assert numbers(log) == []


def test_a_long_thread_keeps_its_last_events_and_others_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "TRIM_EVERY", 10)
    monkeypatch.setattr(event_log, "_TRIM", event_log._TRIM.replace("20000", "25"))
    with open_event_log(tmp_path) as log:
        log.append([event(n, thread_id="short") for n in range(1, 10)])
        for n in range(1, 104):
            log.append([event(n)])
        assert numbers(log) == list(range(76, 104))
        assert len(numbers(log, thread_id="short")) == 9
        assert log.last_seq("t") == 103


def test_old_events_are_pruned_and_their_numbers_stay(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append(
            [event(1, at="2026-04-23T23:59:59.999+00:00"), event(2, at="2026-04-24T00:00:00.000+00:00")]
        )
        assert log.prune(before="2026-04-24T00:00:00.000+00:00") == 1
        assert (numbers(log), log.last_seq("t")) == ([2], 2)
        assert log.prune(before="2027") == 1
        assert (numbers(log), log.last_seq("t")) == ([], 2)


def test_nothing_of_a_forgotten_thread_is_left(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append([event(1), event(1, thread_id="other")])
        log.forget("t")
        assert (numbers(log), log.last_seq("t")) == ([], 0)
        assert numbers(log, thread_id="other") == [1]


def test_worker_threads_and_two_openings_share_one_file(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as one, open_event_log(tmp_path) as two, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: (one, two)[n % 2].append([event(n)]), range(1, 41)))
        assert numbers(one) == numbers(two) == list(range(1, 41))


def test_events_survive_the_death_of_the_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from lockstitch.state.event_log import open_event_log\n"
        "from lockstitch.state.events import AgentReason\n"
        "open_event_log(Path(sys.argv[1])).append([AgentReason(content='a', seq=1, thread_id='t')])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert died.returncode == -9
    with open_event_log(tmp_path) as log:
        assert (numbers(log), log.last_seq("t")) == ([1], 1)


def test_the_files_are_readable_by_the_owner_alone_and_in_wal_mode(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log.append([event(1)])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        pragmas = [
            log._connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("journal_mode", "synchronous")
        ]
    assert modes == dict.fromkeys(("events.db", "events.db-wal", "events.db-shm"), 0o600)
    assert pragmas == ["wal", 1]


def test_an_event_of_another_version_is_told_in_our_words(tmp_path: Path) -> None:
    with open_event_log(tmp_path) as log:
        log._connection.execute("INSERT INTO events VALUES ('t', 1, '', '{\"type\": \"agent_dream\"}')")
        with pytest.raises(SystemFaultError, match="upgrade"):
            log.since("t", 0)


@settings(max_examples=25)  # a file each
@given(
    batches=st.lists(st.lists(st.booleans(), max_size=5), max_size=8),
    pages=st.integers(1, 7),
    after=st.integers(0, 30),
)
def test_reading_page_by_page_gives_every_kept_event_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bool]], pages: int, after: int
) -> None:
    seq, kept = 0, []
    with open_event_log(tmp_path_factory.mktemp("log")) as log:
        for batch in batches:
            told: list[Event] = []
            for piece in batch:
                seq += 1
                told.append(delta(seq) if piece else event(seq))
                kept += [] if piece or seq <= after else [seq]
            log.append(told)
        read: list[int] = []
        while page := numbers(log, read[-1] if read else after, limit=pages):
            read += page
        assert read == kept
        assert log.last_seq("t") == seq
