"""The home folder is made, kept private and proved to be writable before anything relies on it."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lockstitch.state.errors import HomeUnusableError
from lockstitch.state.home import explain_refusal, prepare_home


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_home_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "a" / "home")
    assert mode_of(home.path) == 0o700


def test_home_others_could_read_is_tightened(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    prepare_home(tmp_path)
    assert mode_of(tmp_path) == 0o700


def test_everything_lies_in_the_home(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    places = {home.threads_db, home.ledger_db, home.spill, home.locks}
    assert {place.parent for place in places} == {tmp_path}
    assert len(places) == 4


def test_proof_that_it_can_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_home_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(HomeUnusableError, match="is no folder") as refusal:
        prepare_home(tmp_path / name)
    assert "LOCKSTITCH_HOME" in refusal.value.message
    assert "\n" not in refusal.value.message


def test_folder_shared_with_others_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(HomeUnusableError, match="shared"):
        prepare_home(tmp_path)
    assert mode_of(tmp_path) == 0o1777


@pytest.mark.usefixtures("ordinary_user")
def test_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(HomeUnusableError, match="may not be written by you"):
        prepare_home(tmp_path)


def test_folder_that_takes_no_bytes_is_refused(tmp_path: Path) -> None:
    """As on a full disk: the file can be made, and not be filled."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from lockstitch.state.home import prepare_home\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "prepare_home(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "HomeUnusableError: the home folder" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "lies on a full disk"),
        (errno.EROFS, "lies on a read-only file system"),
        (errno.EACCES, "may not be written by you"),
        (errno.ELOOP, f"cannot be used: {os.strerror(errno.ELOOP).lower()}"),
    ],
)
def test_refusal_of_the_system_is_told_in_words(number: int, words: str) -> None:
    assert explain_refusal(OSError(number, os.strerror(number))) == words
