"""Full and read-only disks, homes that vanish, clocks that go back: told, and nothing kept is lost."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstitch.graph.nodes.observe import observe
from lockstitch.state.errors import SystemFaultError
from lockstitch.state.home import prepare_home
from lockstitch.state.journal import Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]
MEGABYTE = 1_000_000
WELL = "Nothing is wrong with the home folder."


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("needs a small disk of its own, which only root on Linux can mount here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on the disk; the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_a_disk_that_fills_up_in_a_run_is_told_and_what_was_kept_stays(
    lockstitch: Lockstitch, scenario: Scenario, small: Path
) -> None:
    home = ("--home", str(small / "home"))
    scenario("- say: Done.")
    thread_id = lockstitch(*home, "run", "go", "--json").events[0]["thread_id"]
    step = "- calls: [{tool: write_file, args: {path: a, content: %r}}]\n"
    scenario("".join(step % (f"{n} " * 75_000) for n in range(1, 9)) * 2 + "- say: Done.")
    done = lockstitch(*home, "run", "fill it", "--mode", "auto")
    assert (done.code != 0, "the disk is full. Free some space" in done.err) == (True, True), done.err[-500:]
    assert "bug" not in done.err
    ballast = fill(small)
    refused = lockstitch(*home, "threads")
    assert (refused.code, "Free some space there, then go on" in refused.err) == (2, True)
    ballast.unlink()
    assert lockstitch(*home, "show", thread_id, "--json").events[0]["final_answer"] == "Done."
    rows = lockstitch(*home, "threads", "--json").events
    assert {row["title"] for row in rows} == {"go", "fill it"}
    (full,) = [row["thread_id"] for row in rows if row["thread_id"] != thread_id]
    assert lockstitch(*home, "show", full, "--json").events[0]["steps"]
    subprocess.run(["mount", "-o", "remount,size=20m", str(small)], check=True)
    found = lockstitch(*home, "doctor", "--repair").out.splitlines()
    assert all(line == WELL or line.endswith("write_file on a was cut off") for line in found), found
    scenario("- say: Done.")  # the last change may have been made and not noted: going on finishes it
    assert lockstitch(*home, "run", "go on", "--thread", full).code == 0
    assert lockstitch(*home, "doctor", "--repair").out.splitlines() == [WELL]


@pytest.mark.parametrize("noted", [0, 1])
def test_a_change_that_was_made_and_could_not_be_noted_is_finished_when_the_thread_goes_on(
    lockstitch: Lockstitch, scenario: Scenario, workspace: Path, monkeypatch: pytest.MonkeyPatch, noted: int
) -> None:
    calls = ", ".join(f"{{tool: write_file, args: {{path: {name}, content: new}}}}" for name in "ab")
    scenario(f"- calls: [{calls}]\n- say: Done.")
    finish, ends = Journal.finish, [True] * noted + [False]

    def fail(self: Journal, effect_id: str) -> None:
        if not ends.pop(0):
            raise SystemFaultError("the disk is full.")
        finish(self, effect_id)

    with monkeypatch.context() as full:
        full.setattr(Journal, "finish", fail)
        assert lockstitch("run", "go", "--mode", "auto").code != 0
    (found,) = lockstitch("doctor", "--repair").out.splitlines()
    assert found.endswith(f"write_file on {'ab'[noted]} was cut off")
    scenario("- say: Done.")
    done = lockstitch("run", "go on", "--continue")
    assert (done.code, "restore_files" in done.err) == (0, False), done.err
    assert lockstitch("doctor", "--repair").out.splitlines() == [WELL]
    assert [(workspace / name).read_text() for name in "ab"[: noted + 1]] == ["new"] * (noted + 1)


def test_an_import_onto_a_full_disk_leaves_nothing(
    lockstitch: Lockstitch, scenario: Scenario, small: Path, tmp_path: Path
) -> None:
    scenario(f"- say: {os.urandom(600_000).hex()}")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    assert lockstitch("export", thread_id, str(tmp_path / "t")).code == 0
    home = ("--home", str(small / "home"))
    assert lockstitch(*home, "threads").code == 0
    done = lockstitch(*home, "import", str(tmp_path / "t"))
    assert (done.code != 0, "bug" in done.err) == (True, False), done.err
    assert "disk is full" in done.err or "GB free" in done.err
    assert lockstitch(*home, "threads", "--json").events == []


def test_an_export_onto_a_full_disk_leaves_no_half_archive(
    lockstitch: Lockstitch, scenario: Scenario, small: Path
) -> None:
    scenario("- say: Done.")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    fill(small)
    done = lockstitch("export", thread_id, str(small / "t"))
    assert (done.code, "no space left" in done.err) == (2, True)
    assert [path.name for path in small.iterdir()] == ["ballast"]


def test_a_home_that_becomes_read_only_is_told(
    lockstitch: Lockstitch, scenario: Scenario, small: Path
) -> None:
    home = ("--home", str(small / "home"))
    scenario("- say: Done.")
    thread_id = lockstitch(*home, "run", "go", "--json").events[0]["thread_id"]
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    for words in (("run", "go"), ("threads",), ("vacuum",), ("doctor", "--repair")):
        done = lockstitch(*home, *words)
        told = done.err + done.out
        assert (done.code != 0, "read-only file system" in told, "bug" in told) == (True, True, False), words
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    assert lockstitch(*home, "show", thread_id, "--json").events[0]["final_answer"] == "Done."


@pytest.mark.parametrize("way", ["deleted", "moved"])
def test_a_home_that_vanishes_in_a_run_ends_it_with_a_word(
    lockstitch: Lockstitch, scenario: Scenario, home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    scenario("""
        - calls: [{tool: get_tasks, args: {}}]
        - calls: [{tool: create_tasks, args: {tasks: [a]}}]
        - say: Done.
        """)
    elsewhere = home.with_name(f"elsewhere-{way}")

    def take_away() -> None:
        if home.exists():
            shutil.rmtree(home) if way == "deleted" else home.rename(elsewhere)

    @functools.wraps(observe)
    async def vanish(*args: Any, **named: Any) -> Any:
        take_away()
        return await observe(*args, **named)

    monkeypatch.setattr("lockstitch.graph.builder.observe", vanish)
    done = lockstitch("run", "go")
    assert (done.code != 0, "was taken from the home folder while it was in use" in done.err) == (
        True,
        True,
    ), done
    assert "answered" not in done.out


def test_a_clock_that_was_set_back_loses_no_step(
    lockstitch: Lockstitch, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    from langgraph.checkpoint.base import id as checkpoint_ids

    scenario("- say: Done.\n- say: More.")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_ids, "_last_v6_timestamp", None)  # as in a new process
        real = time.time_ns
        patch.setattr(checkpoint_ids.time, "time_ns", lambda: real() - 3_600 * 10**9)
        done = lockstitch("run", "--thread", thread_id, "more")
        assert (done.code != 0, "clock is behind" in done.err) == (True, True), done.err
    assert lockstitch("show", thread_id, "--json").events[0]["final_answer"] == "Done."
    checkpoint_ids._last_v6_timestamp = None
    assert lockstitch("run", "--thread", thread_id, "more").code == 0
    assert lockstitch("show", thread_id, "--json").events[0]["final_answer"] == "More."


def test_a_store_that_meets_a_full_disk_says_so_and_keeps_nothing_half(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstitch.state import object_folder
    from lockstitch.state.errors import SystemFaultError

    place = prepare_home(home)

    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(object_folder, "write_all", full)
    with open_ledger(place.ledger_db) as ledger:
        objects = ObjectStore(place.objects, ledger)
        with pytest.raises(SystemFaultError, match="full disk"):
            objects.put(b"content" * 5000)
        assert [path for path in place.objects.rglob("*") if path.is_file()] == []
        assert Journal(ledger, objects).digests() == set()
