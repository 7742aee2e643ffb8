"""A file that lost its name, and a clock that went back, are noticed before anything is written."""

from pathlib import Path

import pytest

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.standing import OpenFile, check_order


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "threads.db"
    path.write_text("opened")
    return path


def test_a_file_that_is_there_is_fine_however_it_grows(path: Path) -> None:
    file = OpenFile(path)
    path.write_text("opened and grown")
    file.check()


def test_a_deleted_file_is_noticed(path: Path) -> None:
    file = OpenFile(path)
    path.unlink()
    with pytest.raises(SystemFaultError, match=r"threads\.db was taken from the home folder"):
        file.check()


def test_another_file_of_the_same_name_is_noticed(path: Path) -> None:
    file = OpenFile(path)
    path.rename(path.with_name("elsewhere"))
    path.write_text("opened")
    with pytest.raises(SystemFaultError):
        file.check()


def test_a_checkpoint_must_sort_after_the_one_before_it() -> None:
    check_order("1f1e5efc-3427", None)
    check_order("1f1e5efc-3427", "1f1e5efc-3408")
    for earlier in ("1f1e5efc-3408", "1f1e5efc-3427"):
        with pytest.raises(SystemFaultError, match="clock is behind"):
            check_order(earlier, "1f1e5efc-3427")
