"""A thread, and what it starts, reads below some places and nowhere else; the rest of us reads on."""

import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from lockstitch.tools.commands.landlock import IDLE_MAX, _idle, has_landlock, run_restricted

T = TypeVar("T")

pytestmark = pytest.mark.skipif(not has_landlock(), reason="needs a Linux with Landlock switched on")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "allowed").write_text("too")
    (tmp_path / "inside" / "link").symlink_to("../secret")
    return tmp_path


def read(path: Path) -> str:
    try:
        return path.read_text()
    except PermissionError:
        return "refused"


def test_thread_reads_what_it_may_and_nothing_else(folder: Path) -> None:
    paths = [folder / name for name in ("inside/file", "inside/link", "secret", "allowed")]
    fd = os.open(folder / "inside", os.O_RDONLY)
    places = (str(folder / "allowed"), str(folder / "missing"))
    told = run_restricted(lambda: [read(path) for path in paths], folder_fd=fd, places=places)
    os.close(fd)
    assert told == ["mine", "refused", "refused", "too"]
    assert [read(path) for path in paths] == ["mine", "secret", "secret", "too"]


def test_program_started_there_is_held_too(folder: Path) -> None:
    fd = os.open(folder / "inside", os.O_RDONLY)
    cat = ["/bin/cat", str(folder / "inside" / "file"), str(folder / "inside" / "link")]
    done = run_restricted(
        lambda: subprocess.run(cat, capture_output=True, check=False),
        folder_fd=fd,
        places=("/bin", "/usr/bin"),
    )
    os.close(fd)
    assert (done.stdout, done.returncode) == (b"mine", 1)


def test_fault_of_the_work_arrives(folder: Path) -> None:
    fd = os.open(folder / "inside", os.O_RDONLY)
    with pytest.raises(ZeroDivisionError):
        run_restricted(lambda: 1 // 0, folder_fd=fd, places=())
    os.close(fd)


def reader(folder: Path, work: Callable[[], T], *places: Path) -> T:
    fd = os.open(folder, os.O_RDONLY)
    try:
        return run_restricted(work, folder_fd=fd, places=tuple(map(str, places)))
    finally:
        os.close(fd)


def test_the_next_one_in_the_folder_has_the_same_thread_and_its_rules(folder: Path) -> None:
    inside, secret = folder / "inside", folder / "secret"
    told = [reader(inside, lambda: (threading.get_ident(), read(secret))) for _ in range(3)]
    assert set(told) == {(told[0][0], "refused")}


def test_another_folder_has_another_thread(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "file").write_text("theirs")
    files = [folder / "inside" / "file", folder / "other" / "file"]
    told = [reader(file.parent, lambda: [read(file) for file in files]) for file in files]
    assert told == [["mine", "refused"], ["refused", "theirs"]]


def test_what_was_made_anew_is_read_as_well(folder: Path) -> None:
    place = folder / "allowed"
    assert reader(folder / "inside", lambda: read(place), place) == "too"
    place.unlink()
    (folder / "keeps its number free").write_text("x")
    place.write_text("anew")
    assert reader(folder / "inside", lambda: read(place), place) == "anew"


def test_two_at_once_in_a_folder_do_not_wait_for_each_other(folder: Path) -> None:
    both = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(reader, folder / "inside", lambda: both.wait(60)) for _ in range(2)]
        assert sorted(wait.result() for wait in waits) == [0, 1]


def test_few_threads_wait_for_more(folder: Path) -> None:
    for number in range(IDLE_MAX + 3):
        place = folder / str(number)
        place.mkdir()
        assert reader(place, lambda: "done") == "done"
    assert len(_idle) <= IDLE_MAX
