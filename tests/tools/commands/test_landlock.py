"""A thread, and what it starts, reads below some places and nowhere else; the rest of us reads on."""

import os
import subprocess
from pathlib import Path

import pytest

from lockstitch.tools.commands.landlock import has_landlock, run_restricted

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
    places = [folder / "allowed", folder / "missing"]
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
        places=["/bin", "/usr/bin"],
    )
    os.close(fd)
    assert (done.stdout, done.returncode) == (b"mine", 1)


def test_fault_of_the_work_arrives(folder: Path) -> None:
    fd = os.open(folder / "inside", os.O_RDONLY)
    with pytest.raises(ZeroDivisionError):
        run_restricted(lambda: 1 // 0, folder_fd=fd, places=[])
    os.close(fd)
