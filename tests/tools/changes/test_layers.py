"""Where commands can run in layers, and the word on why they cannot."""

import os
from pathlib import Path

import pytest

from lockstitch.tools.changes.layers import Layers
from lockstitch.tools.changes.transaction import clear_layers, open_layer
from lockstitch.tools.commands.sandbox import NO_SANDBOX, find_sandbox


@pytest.mark.skipif(not find_sandbox().overlay, reason="no overlay can be had on this machine")
def test_an_ordinary_folder_can_have_layers(tmp_path: Path) -> None:
    assert Layers(tmp_path / "home").trouble(tmp_path / "home", find_sandbox(), run_id="r") == ""


def test_trouble_is_told_once_a_run(tmp_path: Path) -> None:
    layers = Layers(tmp_path)
    trouble = layers.trouble(tmp_path, NO_SANDBOX, run_id="r1")
    assert trouble
    assert [layers.news(tmp_path, NO_SANDBOX, run_id="r1") for _ in range(2)] == [trouble, ""]
    assert layers.news(tmp_path, NO_SANDBOX, run_id="r2") == trouble


def test_a_person_can_switch_them_off(tmp_path: Path) -> None:
    found = Layers(tmp_path, wanted=False).trouble(tmp_path, find_sandbox(), run_id="r")
    assert "LOCKSTITCH_COMMAND_LAYERS" in found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    os.chown(tmp_path / "theirs", 12345, 12345)
    assert "theirs belongs to another user" in Layers(tmp_path / "h").trouble(
        tmp_path, find_sandbox(), run_id="r"
    )


@pytest.mark.skipif(not find_sandbox().overlay, reason="no overlay can be had on this machine")
def test_what_killed_commands_have_left_goes_and_what_waits_for_a_person_stays(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "work"
    for folder in (home, root):
        folder.mkdir()
    left, waiting = open_layer(root, home=home), open_layer(root, home=home)
    left.kept = True
    waiting.keep("a thread")
    for layer in (left, waiting):
        layer.__exit__()
    assert Layers(home).trouble(root, find_sandbox(), run_id="r") == ""
    assert (left.folder.exists(), waiting.folder.exists()) == (False, True)
    assert clear_layers(root, home=home, owner="a thread") == 1
