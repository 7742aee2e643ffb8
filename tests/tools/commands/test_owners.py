"""Files that a command in an overlay could not change are found before it runs."""

import os
from pathlib import Path

import pytest

from lockstitch.tools.commands.owners import find_foreign


def test_own_files_and_closed_folders_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "link").symlink_to("/")
    assert find_foreign(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_file_of_another_owner_or_group_is_found(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name, owner, group in (("mine", 0, 0), ("group", 0, 7), ("owner", 7, 0)):
        (tmp_path / "d" / name).touch()
        os.chown(tmp_path / "d" / name, owner, group)
    found = find_foreign(tmp_path)
    assert found in {tmp_path / "d" / "group", tmp_path / "d" / "owner"}
    os.chown(tmp_path, 7, 7)  # root then commands without a namespace of users, as the files' owner does
    assert find_foreign(tmp_path) is None
