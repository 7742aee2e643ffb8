"""A layer that is used again shows nothing of the command before."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.random_commands import sandboxed

from lockstitch.tools.changes import spare_layers
from lockstitch.tools.changes.layer_folder import PREFIX
from lockstitch.tools.changes.spare_layers import SPARES_MAX, delete_spares, wait_for_spares
from lockstitch.tools.changes.transaction import Layer, clear_layers, open_layer
from lockstitch.tools.changes.upper_layer import LayerChanges
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import HELD_MAX

pytestmark = pytest.mark.skipif(not find_sandbox().overlay, reason="needs a sandbox with overlays")


@pytest.fixture(autouse=True)
def _none_of_others() -> Iterator[None]:
    delete_spares()
    yield
    delete_spares()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "parent" / "ws"
    root.mkdir(parents=True, mode=0o755)
    (root / "a").write_text("a\n")
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "ours"
    home.mkdir()
    return home


def ran(layer: Layer, script: str) -> LayerChanges:
    assert sandboxed(layer.bwrap_options(), layer.root, script) == 0
    layer.is_over = True
    root_fd = os.open(layer.root, os.O_RDONLY)
    try:
        return layer.changes(root_fd)
    finally:
        os.close(root_fd)


def test_second_command_finds_nothing_of_the_first(root: Path, home: Path) -> None:
    deep = "mkdir -p d/e/f; echo x > d/e/f/g; chmod 0 d/e; rm a; mkdir a; echo y > a/b; mkfifo p; ln -s / l"
    with open_layer(root, home=home) as first:
        assert ran(first, f"{deep}; chmod 700 .").changes != []
    wait_for_spares()
    with open_layer(root, home=home) as second:
        assert second.folder == first.folder
        seen = "test $(cat a) = a && test $(ls -A) = a && test $(stat -c %a .) = 755"
        found = ran(second, f"{seen} && echo b > b")
        assert [change.path for change in found.changes] == ["b"]
    assert (root / "a").read_text() == "a\n"


def test_attributes_of_the_top_folder_are_not_handed_on(root: Path, home: Path) -> None:
    with open_layer(root, home=home) as first:
        os.setxattr(first.folder / "upper", "user.note", b"1")
        first.is_over = True
    wait_for_spares()
    with open_layer(root, home=home) as second:
        assert second.folder == first.folder
        assert os.listxattr(second.folder / "upper") == []


def test_time_of_the_top_folder_is_not_handed_on(root: Path, home: Path) -> None:
    with open_layer(root, home=home) as first:
        ran(first, "touch -d 1999-01-01 .")
    wait_for_spares()
    with open_layer(root, home=home) as second:
        assert second.folder == first.folder
        ran(second, "test $(stat -c %Y .) -gt 1000000000")


def test_mode_is_that_of_the_workspace_it_is_used_for(root: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    with open_layer(root, home=home) as first:
        ran(first, "true")
    wait_for_spares()
    with open_layer(other, home=home) as second:
        assert second.folder == first.folder
        assert ran(second, "test $(stat -c %a .) = 700; test -z $(ls -A)").changes == []


def test_changes_of_others_since_the_command_before_are_no_conflict(root: Path, home: Path) -> None:
    with open_layer(root, home=home) as first:
        ran(first, "true")
    (root / "a").write_text("theirs\n")
    wait_for_spares()
    with open_layer(root, home=home) as second:
        found = ran(second, "echo more >> a")
    assert ([change.path for change in found.changes], list(found.overtaken)) == (["a"], [])


def test_one_whose_command_may_still_live_is_deleted(root: Path, home: Path) -> None:
    with open_layer(root, home=home) as layer:
        sandboxed(layer.bwrap_options(), layer.root, "echo x > a")
    assert not layer.folder.exists()


def test_one_that_was_deleted_meanwhile_is_made_anew(root: Path, home: Path) -> None:
    with open_layer(root, home=home) as first:
        ran(first, "true")
    for name in ("work/work", "work", "upper"):
        if (first.folder / name).exists():
            (first.folder / name).rmdir()
    (first.folder / "clock").unlink()
    first.folder.rmdir()
    wait_for_spares()
    with open_layer(root, home=home) as second:
        assert second.folder != first.folder
        assert [change.path for change in ran(second, "echo b > b").changes] == ["b"]


def test_few_are_kept_others_leave_them_alone_and_all_go_at_the_end(root: Path, home: Path) -> None:
    opened = [open_layer(root, home=home) for _ in range(SPARES_MAX + 2)]
    for layer in opened:
        layer.is_over = True
        layer.discard()
    left = sum(layer.folder.exists() for layer in opened)
    assert (left, clear_layers(root, home=home)) == (SPARES_MAX, 0)
    delete_spares()
    assert not any(layer.folder.exists() for layer in opened)


def test_command_does_not_wait_until_its_layer_is_empty(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go, empty = threading.Event(), spare_layers.empty_layer_folder
    monkeypatch.setattr(spare_layers, "empty_layer_folder", lambda folder: (may_go.wait(5), empty(folder)))
    opened = [open_layer(root, home=home) for _ in range(SPARES_MAX + 1)]
    for layer in opened:
        layer.is_over = True
        layer.discard()
    assert [layer.folder.exists() for layer in opened] == [True] * SPARES_MAX + [False]
    with open_layer(root, home=home) as other:
        assert other.folder not in [layer.folder for layer in opened]
    may_go.set()
    wait_for_spares()
    with open_layer(root, home=home) as again:
        assert again.folder in [layer.folder for layer in opened]


def test_layer_that_cannot_be_emptied_goes(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise OSError

    monkeypatch.setattr(spare_layers, "empty_layer_folder", fail)
    with open_layer(root, home=home) as layer:
        ran(layer, "echo x > a")
    wait_for_spares()
    assert not layer.folder.exists()


def test_files_that_were_replaced_are_let_go(root: Path, home: Path) -> None:
    """Held, they would keep their bytes on the disk; and each holds a descriptor."""
    for number in range(2 * HELD_MAX):
        (root / f"f{number}").write_text("before")
    root_fd = os.open(root, os.O_RDONLY)
    for is_over in (True, False):
        with open_layer(root, home=home) as layer:
            changes = ran(layer, f"for f in f*; do echo {is_over} > $f; done").changes
            layer.is_over = is_over
            with layer.files() as files:
                assert apply(root_fd, changes, files) == []
            assert len(held_below(root)) == HELD_MAX
        wait_for_spares()
        assert held_below(root) == []
    os.close(root_fd)


def held_below(root: Path) -> list[str]:
    """The files of that folder which this process has open."""
    targets = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            targets.append(str(entry.readlink()))
    return [target for target in targets if target.startswith(f"{root}/")]


def test_none_is_left_beside_a_workspace(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstitch.tools.changes import transaction

    monkeypatch.setattr(transaction, "find_place", lambda *_: root.parent)
    with open_layer(root, home=tmp_path) as layer:
        ran(layer, "echo x > a")
        assert layer.folder.parent == root.parent
    assert list(root.parent.glob(f"{PREFIX}*")) == []
