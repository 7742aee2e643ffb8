"""A file is replaced whole or not at all, and keeps its rights."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.confined.replacement import replace_file


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


def test_new_file_has_the_mode_of_the_umask(folder: int, tmp_path: Path, umask: None) -> None:
    replace_file(folder, "new", b"1")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("before", "after"), [(0o755, 0o755), (0o600, 0o600), (0o6755, 0o755), (0o1644, 0o644)]
)
def test_mode_is_kept_without_set_id_bits(folder: int, tmp_path: Path, before: int, after: int) -> None:
    (tmp_path / "f").write_bytes(b"0")
    (tmp_path / "f").chmod(before)
    replace_file(folder, "f", b"1")
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == after
    assert (tmp_path / "f").read_bytes() == b"1"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else may give a file away")
def test_owner_is_kept(folder: int, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0")
    os.chown(tmp_path / "f", 12345, 54321)
    replace_file(folder, "f", b"1")
    assert ((tmp_path / "f").stat().st_uid, (tmp_path / "f").stat().st_gid) == (12345, 54321)


def test_hard_link_elsewhere_keeps_its_bytes(folder: int, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0")
    (tmp_path / "twin").hardlink_to(tmp_path / "f")
    replace_file(folder, "f", b"1")
    assert (tmp_path / "twin").read_bytes() == b"0"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_regular_file_is_not_replaced(folder: int, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "it"
    {"link": lambda: place.symlink_to("x"), "fifo": lambda: os.mkfifo(place), "folder": place.mkdir}[kind]()
    with pytest.raises((ToolExecutionError, IsADirectoryError)):
        replace_file(folder, "it", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_failure_leaves_the_old_file_and_no_draft(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "f").write_bytes(b"0")
    monkeypatch.setattr(os, "rename", full)  # the one seam: a disk cannot be filled in a unit test
    with pytest.raises(OSError, match="full"):
        replace_file(folder, "f", b"1")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"0")]


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "𝄞" * 63])
def test_longest_names_can_be_written(folder: int, tmp_path: Path, name: str) -> None:
    replace_file(folder, name, b"1")
    assert (tmp_path / name).read_bytes() == b"1"
