"""What bubblewrap is told a command may see, without starting it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.home_secrets import SECRETS, secrets_below
from lockstitch.tools.commands.protected import Protected
from lockstitch.tools.commands.sandbox import Sandbox
from lockstitch.tools.commands.sandbox_view import Bounds, bubblewrap_arguments, descriptors_for

NEW = Sandbox(backend="bubblewrap", overlay=True, reason="", program="/bwrap", version=(0, 11, 0))
OLD = Sandbox(backend="bubblewrap", overlay=False, reason="", program="/bwrap", version=(0, 8, 0))


@pytest.fixture
def bounds(tmp_path: Path) -> Iterator[Bounds]:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / "ws" / "sub").mkdir(parents=True)
    root = tmp_path / "home" / "ws"
    fd = os.open(root, os.O_RDONLY)
    yield Bounds(root=root, root_fd=fd, folder="sub", home=tmp_path / "home")
    os.close(fd)


def place_of(wanted: list[str], said: list[str]) -> int:
    """Where these words stand in the arguments, one after another."""
    found = [at for at in range(len(said)) if said[at : at + len(wanted)] == wanted]
    assert len(found) == 1, (wanted, said)
    return found[0]


def test_home_comes_first_then_its_masks_then_the_workspace_in_it(bounds: Bounds) -> None:
    home, root = str(bounds.home), str(bounds.root)
    (bounds.home / ".cache").mkdir()
    said = bubblewrap_arguments(OLD, bounds)
    cache = place_of(["--tmpfs", f"{home}/.cache"], said)
    mask = place_of(["--tmpfs", f"{home}/.ssh"], said)
    assert cache < mask < place_of(["--bind", root, root], said)
    assert said[-2:] == ["--chdir", f"{root}/sub"]


def test_one_layer_over_the_home_hides_its_secrets_and_needs_no_masks(bounds: Bounds) -> None:
    home, root = str(bounds.home), str(bounds.root)
    said = bubblewrap_arguments(NEW, bounds)
    first = place_of(["--overlay-src", home, "--overlay-src"], said)
    assert said[first + 4 : first + 6] == ["--tmp-overlay", home]
    assert f"{home}/.ssh" not in said
    assert first < place_of(["--bind-fd", str(bounds.root_fd), root], said)


def test_folder_that_is_empty_for_commands_anyway_needs_no_mask(bounds: Bounds, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    hidden = replace(bounds, hidden=(tmp_path / "ours", bounds.root / "sub"))
    said = bubblewrap_arguments(NEW, hidden)
    assert (str(tmp_path / "ours") in said) is not tmp_path.is_relative_to("/tmp")
    place_of(["--tmpfs", str(bounds.root / "sub")], said)


def test_older_program_is_told_nothing_it_does_not_know_and_inherits_nothing(bounds: Bounds) -> None:
    said = bubblewrap_arguments(OLD, bounds)
    assert not {"--bind-fd", "--overlay-src", "--tmp-overlay"} & set(said)
    place_of(["--bind", str(bounds.root), str(bounds.root)], said)
    assert descriptors_for(OLD, bounds) == []


def test_descriptor_is_handed_on_only_where_it_is_used_up(bounds: Bounds) -> None:
    assert descriptors_for(NEW, bounds) == [bounds.root_fd]
    assert descriptors_for(NEW, replace(bounds, discard=True)) == []


def test_network_is_taken_away_unless_it_is_on(bounds: Bounds) -> None:
    assert "--unshare-net" in bubblewrap_arguments(NEW, bounds)
    assert "--unshare-net" not in bubblewrap_arguments(NEW, replace(bounds, network=True))


@pytest.mark.parametrize("name", ["", "home"])
def test_folder_with_the_home_in_it_is_masked_wherever_it_lies(
    name: str, bounds: Bounds, tmp_path: Path
) -> None:
    said = bubblewrap_arguments(NEW, replace(bounds, hidden=(tmp_path / name,)))
    assert place_of(["--tmpfs", str(tmp_path / name)], said) > said.index("--tmp-overlay")


def test_workspace_below_a_secret_is_seen_and_the_rest_of_it_is_not(bounds: Bounds) -> None:
    root = bounds.home / ".claude" / "worktrees" / "x"
    root.mkdir(parents=True)
    said = bubblewrap_arguments(OLD, replace(bounds, root=root, folder="."))
    assert place_of(["--tmpfs", str(bounds.home / ".claude")], said) < place_of(["--bind", str(root)], said)


def test_home_as_the_workspace_is_no_overlay_and_its_secrets_stay_masked(bounds: Bounds) -> None:
    said = bubblewrap_arguments(NEW, replace(bounds, root=bounds.home, folder="."))
    assert "--tmp-overlay" not in said
    assert place_of(["--tmpfs", str(bounds.home / ".ssh")], said) > said.index("--bind-fd")


def test_everything_as_the_workspace_is_refused(bounds: Bounds) -> None:
    with pytest.raises(ToolExecutionError, match="confine a command to everything"):
        bubblewrap_arguments(NEW, replace(bounds, root=Path("/")))


def test_missing_folders_are_masked_by_overlays_where_the_home_can_lie_below_one(bounds: Bounds) -> None:
    masked = (bounds.root / ".git", bounds.root / ".lockstitch")
    for folder in masked:
        folder.mkdir()
    both = replace(bounds, protected=Protected(masked=masked))
    empty = [word for folder in masked for word in ("--overlay-src", str(folder))]
    for folder in masked:
        place_of([*empty, "--ro-overlay", str(folder)], bubblewrap_arguments(NEW, both))
        place_of(["--tmpfs", str(folder), "--remount-ro", str(folder)], bubblewrap_arguments(OLD, both))
    alone = replace(bounds, protected=Protected(masked=masked[:1]))  # an overlay wants two below it
    place_of(["--tmpfs", str(masked[0]), "--remount-ro", str(masked[0])], bubblewrap_arguments(NEW, alone))


def test_every_secret_of_the_list_is_found(tmp_path: Path) -> None:
    for name in SECRETS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(secrets_below(str(tmp_path))) == sorted(f"{tmp_path}/{name}" for name in SECRETS)
