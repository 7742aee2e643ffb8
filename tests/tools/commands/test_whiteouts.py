"""The layers that hide what is secret in a home: made, shared, looked through, and not used when in doubt."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lockstitch.tools.commands import whiteouts
from lockstitch.tools.commands.mounts import Mount
from lockstitch.tools.commands.sandbox import Sandbox, find_sandbox
from lockstitch.tools.commands.sandbox_view import Bounds, bubblewrap_arguments
from lockstitch.tools.commands.whiteouts import whiteout_layer

FOUND = find_sandbox()
NEW = Sandbox(backend="bubblewrap", overlay=True, reason="", program="/bwrap", version=(0, 11, 0))
needs_overlay = pytest.mark.skipif(not FOUND.overlay, reason="needs a sandbox with overlays")
needs_whiteouts = pytest.mark.skipif(not hasattr(os, "mknod"), reason="needs a system with device files")
pytestmark = needs_whiteouts
SECRETS = (".ssh", ".netrc", ".config/gh")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a machine keeps what is of this day."""
    place = tmp_path / "run"
    place.mkdir()
    monkeypatch.setattr(whiteouts, "PLACES", (str(place),))
    return place


@pytest.fixture
def home(tmp_path: Path, place: Path) -> Path:
    home = tmp_path / "person"
    for name in (".ssh/id_rsa", ".netrc", ".config/gh/hosts.yml", ".config/other", "notes"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("SECRET" if name not in ("notes", ".config/other") else "seen")
    (home / ".config").chmod(0o750)
    return home


@pytest.fixture
def bounds(tmp_path: Path, home: Path) -> Iterator[Bounds]:
    root = tmp_path / "ws"
    root.mkdir()
    fd = os.open(root, os.O_RDONLY)
    yield Bounds(root=root, root_fd=fd, folder=".", home=home)
    os.close(fd)


def layer_over(home: Path, names: Sequence[str], root: Path) -> Path | None:
    layer = whiteout_layer(str(home), tuple(f"{home}/{name}" for name in names), apart_from=str(root))
    return Path(layer) if layer else None


def layer_of(home: Path, root: Path) -> Path:
    layer = layer_over(home, SECRETS, root)
    assert layer is not None
    return layer


def run(arguments: Sequence[str], bounds: Bounds, command: str) -> str:
    argv = [FOUND.program, *arguments, "--", "/bin/sh", "-c", command]
    env = {"HOME": str(bounds.home), "PATH": os.defpath}
    done = subprocess.run(
        argv, pass_fds=[bounds.root_fd], env=env, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


@needs_overlay
def test_command_finds_no_secret_and_all_the_rest(bounds: Bounds, home: Path, place: Path) -> None:
    said = bubblewrap_arguments(FOUND, bounds)
    assert any(word.startswith(str(place)) for word in said), "the layer is used here"
    seen = run(said, bounds, "cd ~; ls -A . .config; stat -c %a .config; cat notes .config/other; id -u")
    assert not {".ssh", ".netrc", "gh"} & set(seen.split())
    assert {"notes", ".config", "other", "750"} <= set(seen.split())
    assert seen.count("seen") == 2
    ways = "cat ~/.ssh/id_rsa ~/.netrc ~/.config/gh/hosts.yml /proc/self/root$HOME/.netrc ~/.config/../.netrc"
    assert "SECRET" not in run(said, bounds, ways)


@needs_overlay
def test_what_is_written_in_a_secrets_place_is_forgotten(bounds: Bounds, home: Path) -> None:
    said = bubblewrap_arguments(FOUND, bounds)
    seen = run(said, bounds, "cd ~; mkdir .ssh; echo own > .ssh/id_rsa; echo own > .netrc; cat .netrc .ssh/*")
    assert seen.split() == ["own", "own"]
    assert (home / ".ssh" / "id_rsa").read_text() == (home / ".netrc").read_text() == "SECRET"
    assert "SECRET" not in run(said, bounds, "mv ~/.config ~/moved; cat ~/moved/gh/*")


@needs_overlay
def test_layer_itself_is_out_of_sight(bounds: Bounds) -> None:
    seen = run(bubblewrap_arguments(FOUND, bounds), bounds, "ls -RA /tmp")
    assert "ws:" in seen
    assert "whiteouts" not in seen


@needs_overlay
def test_without_a_layer_each_secret_is_masked(
    bounds: Bounds, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)
    said = bubblewrap_arguments(FOUND, bounds)
    assert {f"{home}/.ssh", f"{home}/.netrc", f"{home}/.config/gh"} <= set(said)
    assert "SECRET" not in run(said, bounds, "cat ~/.ssh/id_rsa ~/.netrc ~/.config/gh/hosts.yml")


def test_folders_on_the_way_look_as_they_do(home: Path, tmp_path: Path) -> None:
    layer = layer_of(home, tmp_path / "ws")
    assert sorted(str(path.relative_to(layer)) for path in layer.rglob("*")) == [
        ".config", ".config/gh", ".netrc", ".ssh"
    ]  # fmt: skip
    assert all(is_whiteout(layer / name) for name in SECRETS)
    assert stat.S_IMODE((layer / ".config").stat().st_mode) == 0o750
    assert stat.S_IMODE(layer.stat().st_mode) == stat.S_IMODE(layer.parent.stat().st_mode) == 0o700


def test_same_secrets_share_a_layer_and_others_have_their_own(home: Path, tmp_path: Path) -> None:
    first = layer_of(home, tmp_path / "ws")
    assert layer_of(home, tmp_path / "ws") == first
    assert layer_over(home, [".ssh"], tmp_path / "ws") != first
    (home / ".config").chmod(0o700)
    assert layer_of(home, tmp_path / "ws") != first


def test_secret_in_a_hidden_folder_needs_no_word_of_its_own(home: Path, tmp_path: Path) -> None:
    layer = layer_over(home, [".ssh", ".ssh/id_rsa"], tmp_path / "ws")
    assert layer is not None
    assert [path.name for path in layer.iterdir()] == [".ssh"]


def lose_one(layer: Path) -> None:
    (layer / ".netrc").unlink()


def lose_folder(layer: Path) -> None:
    shutil.rmtree(layer / ".config")


def link_one(layer: Path) -> None:
    lose_one(layer)
    (layer / ".netrc").symlink_to("/etc/passwd")


def plant(layer: Path) -> None:
    (layer / ".gitconfig").write_text("planted")


def plant_on_the_way(layer: Path) -> None:
    (layer / ".config" / "app").write_text("planted")


def open_to_others(layer: Path) -> None:
    layer.chmod(0o770)


def half_made(layer: Path) -> None:
    (layer / ".config").chmod(0o700)


@pytest.mark.parametrize(
    "change", [lose_one, lose_folder, link_one, plant, plant_on_the_way, open_to_others, half_made]
)
def test_layer_that_is_not_as_it_was_made_makes_room_for_another(
    change: Callable[[Path], None], home: Path, tmp_path: Path
) -> None:
    layer = layer_of(home, tmp_path / "ws")
    before, held = layer.stat().st_ino, os.open(layer, os.O_RDONLY)
    change(layer)
    assert layer_of(home, tmp_path / "ws") == layer
    assert layer.stat().st_ino != before  # what runs over the first one goes on doing so
    assert sorted(path.name for path in layer.iterdir()) == [".config", ".netrc", ".ssh"]
    assert [path.name for path in (layer / ".config").iterdir()] == ["gh"]
    assert os.listdir(held) != []  # noqa: PTH208
    os.close(held)


def test_place_that_others_can_change_is_not_used(home: Path, tmp_path: Path) -> None:
    layer_of(home, tmp_path / "ws").parent.chmod(0o770)
    assert layer_over(home, SECRETS, tmp_path / "ws") is None


def test_what_lasts_for_days_is_hidden_from_by_mounts(bounds: Bounds, home: Path) -> None:
    said = bubblewrap_arguments(NEW, replace(bounds, lasting=True))
    assert {f"{home}/.ssh", f"{home}/.netrc", f"{home}/.config/gh"} <= set(said)
    assert not {f"{home}/.ssh"} & set(bubblewrap_arguments(NEW, bounds))


def test_link_in_the_place_of_our_folder_is_not_followed(home: Path, place: Path, tmp_path: Path) -> None:
    layer = layer_of(home, tmp_path / "ws")
    layer.parent.rename(place / "elsewhere")
    layer.parent.symlink_to(place / "elsewhere")
    assert layer_over(home, SECRETS, tmp_path / "ws") is None


def test_none_lies_where_a_command_can_write_or_below_the_home(
    home: Path, place: Path, tmp_path: Path
) -> None:
    assert layer_over(home, SECRETS, place) is None
    assert layer_over(home, SECRETS, tmp_path) is None
    assert layer_over(tmp_path, ["person/.ssh"], tmp_path / "ws") is None
    assert layer_over(home, SECRETS, layer_of(home, tmp_path / "ws") / "ws") is None


def test_many_at_once_make_one(home: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: layer_of(home, tmp_path / "ws"), range(32)))
    assert len(set(found)) == 1
    assert is_whiteout(found[0] / ".config" / "gh")


@pytest.mark.parametrize(("kinds", "is_used"), [(["tmpfs"], True), (["overlay"], False), ([], False)])
def test_other_file_system_is_used_where_overlays_surely_read_from_it(
    kinds: list[str], is_used: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = layer_of(home, tmp_path / "ws").stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    elsewhere = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/proc")
    mounts = [Mount(Path("/x"), number, kind) for kind in kinds]
    monkeypatch.setattr(whiteouts, "read_mounts", lambda: mounts)
    layer = layer_of(home, tmp_path / "ws")
    assert whiteouts._can_be_laid_over(str(layer), str(elsewhere)) is is_used
    assert whiteouts._can_be_laid_over(str(layer), str(home))
