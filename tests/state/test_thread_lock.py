"""One writer a thread: whoever comes second is refused and told who was first."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstitch.state.errors import (
    HomeUnusableError,
    SystemFaultError,
    ThreadBusyError,
    ThreadUnknownError,
)
from lockstitch.state.thread_lock import hold_thread

THREAD = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7a"
OTHER = "3f2b8a52-9c1d-4e7b-8a46-0d6f5e1c2b7b"
HOLD = """
import sys, time
from pathlib import Path
from lockstitch.state.thread_lock import hold_thread
with hold_thread(Path(sys.argv[1]), sys.argv[2], holder="lockstitch run"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_process(locks: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(locks), THREAD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_second_process_is_told_who_holds_the_thread_and_what_to_do(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        with pytest.raises(ThreadBusyError) as refusal, hold_thread(tmp_path, THREAD, holder="me"):
            pass
        assert f"lockstitch run (pid {process.pid})" in refusal.value.message
        assert "Wait until it ends" in refusal.value.message


def test_thread_is_free_again_when_its_holder_was_killed(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with hold_thread(tmp_path, THREAD, holder="me"):
            pass


def test_two_tasks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    with (
        hold_thread(tmp_path, THREAD, holder="first"),
        pytest.raises(ThreadBusyError, match=rf"first \(pid {os.getpid()}\)"),
        hold_thread(tmp_path, THREAD, holder="second"),
    ):
        pass


def test_refused_holder_takes_nothing_from_the_first(tmp_path: Path) -> None:
    with hold_thread(tmp_path, THREAD, holder="first"):
        for _ in range(2):
            with (
                pytest.raises(ThreadBusyError, match="first"),
                hold_thread(tmp_path, THREAD, holder="second"),
            ):
                pass


def test_thread_is_free_again_after_the_block_however_it_ended(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), hold_thread(tmp_path, THREAD, holder="me"):
            raise KeyError


def test_other_threads_are_not_held(tmp_path: Path) -> None:
    with hold_thread(tmp_path, THREAD, holder="a"), hold_thread(tmp_path, OTHER, holder="b"):
        pass


def test_every_spelling_of_an_id_is_one_lock(tmp_path: Path) -> None:
    with hold_thread(tmp_path, THREAD, holder="a"):
        spelling = THREAD.upper().replace("-", "")
        with pytest.raises(ThreadBusyError), hold_thread(tmp_path, spelling, holder="b"):
            pass


def test_words_of_an_earlier_holder_do_not_remain(tmp_path: Path) -> None:
    for holder in ("a holder with a long name", "me"):
        with hold_thread(tmp_path, THREAD, holder=holder):
            pass
    assert json.loads((tmp_path / f"{THREAD}.lock").read_text()) == {"pid": os.getpid(), "holder": "me"}


def test_lock_file_without_readable_words_still_refuses(tmp_path: Path) -> None:
    with hold_thread(tmp_path, THREAD, holder="a"):
        (tmp_path / f"{THREAD}.lock").write_text("[]")
        with (
            pytest.raises(ThreadBusyError, match="another process"),
            hold_thread(tmp_path, THREAD, holder="b"),
        ):
            pass


def test_lock_files_are_private(tmp_path: Path) -> None:
    with hold_thread(tmp_path / "locks", THREAD, holder="a"):
        modes = [
            stat.S_IMODE(p.stat().st_mode)
            for p in (tmp_path / "locks", tmp_path / "locks" / f"{THREAD}.lock")
        ]
    assert modes == [0o700, 0o600]


def test_id_that_names_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ThreadUnknownError), hold_thread(tmp_path / "locks", "../escaped", holder="a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("")
    with (
        pytest.raises(HomeUnusableError, match="LOCKSTITCH_HOME"),
        hold_thread(tmp_path / "locks", THREAD, holder="a"),
    ):
        pass


def test_system_without_file_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(SystemFaultError, match="no file locks"), hold_thread(tmp_path, THREAD, holder="a"):
        pass
