"""A command in a layer: nothing happens before the commit, and then all as if it had run in the workspace."""

import os
import random
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.random_commands import contents, random_script, sandboxed

from lockstitch.state.errors import ResourceLimitError, ToolExecutionError
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, inverse
from lockstitch.tools.changes import layer_folder, transaction, upper_layer
from lockstitch.tools.changes.transaction import Layer, clear_layers, open_layer, reopen_layer
from lockstitch.tools.changes.upper_layer import LayerChanges
from lockstitch.tools.commands.mounts import Mount
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.confined.apply import Conflict, apply, check
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.known_contents import FILE_BYTES_MAX

pytestmark = pytest.mark.skipif(not find_sandbox().overlay, reason="needs a sandbox with overlays")
SCRIPTS = 5  # random ones; bench/transactions.py has the stated count


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "d" / "e").mkdir(parents=True)
    for name in ("a", "d/b", "d/e/c"):
        (root / name).write_text(f"{name}\n")
    (root / "link").symlink_to("a")
    return root


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def objects(ours: Path) -> Iterator[ObjectStore]:
    with open_ledger(ours / "ledger.db") as ledger:
        yield ObjectStore(ours / "objects", ledger)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    home = tmp_path / "ours"
    home.mkdir()
    return home


def ran(layer: Layer, script: str, root_fd: int) -> LayerChanges:
    assert sandboxed(layer.bwrap_options(), layer.root, script) == 0
    return layer.changes(root_fd)


def committed(layer: Layer, found: LayerChanges, root_fd: int) -> list[Conflict]:
    layer.keep("t")
    with layer.files() as files:
        conflicts = apply(root_fd, found.changes, files)
    layer.touch(root_fd, found.touched)
    layer.discard()
    return conflicts


def said(changes: list[Change]) -> dict[str, str]:
    """Each path with what becomes of it."""
    kinds = {change.path: (change.before, change.after) for change in changes}
    return {
        path: f"{before.kind if before else '-'} {after.kind if after else '-'}"
        for path, (before, after) in kinds.items()
    }


def test_workspace_is_untouched_until_the_commit(root: Path, root_fd: int, ours: Path) -> None:
    before = contents(root)
    script = "echo new > a; rm -r d; echo 1 > d; mkdir -p n/m; ln -s a n/l; rm link; chmod 700 ."
    with open_layer(root, home=ours) as layer:
        found = ran(layer, script, root_fd)
        assert contents(root) == before
        assert said(found.changes) == {
            ".": "folder folder",
            "a": "file file",
            "d": "folder file",
            "d/b": "file -",
            "d/e": "folder -",
            "d/e/c": "file -",
            "link": "link -",
            "n": "- folder",
            "n/l": "- link",
            "n/m": "- folder",
        }
        assert (found.overtaken, found.remarks, found.touched) == ([], [], {})
        assert check(root_fd, found.changes) == []
        assert committed(layer, found, root_fd) == []
    assert (root / "a").read_text() == "new\n"
    assert (root / "d").read_text() == "1\n"
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert sorted(path.name for path in root.iterdir()) == ["a", "d", "n"]


def test_layer_is_thrown_away_whatever_is_in_it(root: Path, ours: Path, tmp_path: Path) -> None:
    before = contents(root)
    with open_layer(root, home=ours) as layer:
        sandboxed(layer.bwrap_options(), root, "mkdir -p x/y; touch x/y/z; chmod 000 x/y x; rm -rf d")
        assert stat.S_IMODE(layer.folder.stat().st_mode) == 0o700
    assert not layer.folder.exists()
    assert contents(root) == before


@pytest.mark.usefixtures("ordinary_user")
def test_ordinary_user_has_the_same_commit_and_leaves_nothing(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        script = (
            "mkdir -p x/y; touch x/y/z; chmod 000 x/y/z x/y; rm -rf d; mkdir d; echo 1 > d/new; chmod 000 d"
        )
        found = ran(layer, script, root_fd)
        assert said(found.changes)["d/b"] == "file -"  # a closed folder hides what it hides, too
        assert committed(layer, found, root_fd) == []
    assert not layer.folder.exists()
    held = contents(root)
    assert (held[b"d"][1], held[b"x/y"][1], held[b"x/y/z"][1]) == (0, 0, 0)
    assert b"d/b" not in held
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "chmod 755 d; echo 2 > d/new; chmod 000 d", root_fd)
        assert said(found.changes) == {"d": "folder folder", "d/new": "file file"}  # d: to be closed again
        assert committed(layer, found, root_fd) == []
    assert contents(root)[b"d"][1] == 0
    for path in ("d", "x/y"):
        (root / path).chmod(0o700)


def test_random_commands_end_as_if_they_had_run_in_the_workspace(tmp_path: Path, ours: Path) -> None:
    source = random.Random(7)
    for number in range(SCRIPTS):
        direct, root = tmp_path / f"direct{number}", tmp_path / f"ws{number}"
        direct.mkdir()
        sandboxed(
            ["--bind", str(direct), str(direct)], direct, random_script(source, steps=12, few=3, closes=False)
        )
        subprocess.run(["cp", "-a", str(direct), str(root)], check=True)
        script = random_script(source, steps=12, few=3)
        sandboxed(["--bind", str(direct), str(direct)], direct, script)
        fd = os.open(root, os.O_RDONLY)
        with open_layer(root, home=ours) as layer:
            assert committed(layer, ran(layer, script, fd), fd) == []
        os.close(fd)
        assert contents(root) == contents(direct), script


def test_nothing_changed_is_nothing_to_commit(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        assert ran(layer, "cat a d/b; ls -R; touch x; rm x", root_fd) == LayerChanges()


def test_folder_made_anew_hides_all_that_was_below(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "rm -rf d; mkdir -p d/e; echo new > d/e/new", root_fd)
        assert said(found.changes) == {"d/b": "file -", "d/e/c": "file -", "d/e/new": "- file"}


def test_closed_folder_in_which_nothing_is_new_is_nothing_to_commit(
    root: Path, root_fd: int, ours: Path
) -> None:
    (root / "d").chmod(0o555)
    with open_layer(root, home=ours) as layer:
        assert ran(layer, "chmod 755 d; touch d/x; rm d/x; chmod 555 d", root_fd) == LayerChanges()


def test_time_of_a_touched_file_is_new_and_is_no_change(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "touch -d @1000 a", root_fd)
        assert found == LayerChanges(touched={"a": 1000 * 10**9})
        committed(layer, found, root_fd)
    assert (root / "a").stat().st_mtime == 1000


def test_what_somebody_else_changes_meanwhile_is_told(root: Path, root_fd: int, ours: Path) -> None:
    (root / "a").write_text("before the layer: no matter how shortly\n")
    with open_layer(root, home=ours) as layer:
        script = "echo x >> a; echo x >> d/b; rm d/e/c; echo y > own; echo z > link2"
        assert sandboxed(layer.bwrap_options(), root, script) == 0
        assert layer.changes(root_fd).overtaken == []
        (root / "d" / "b").unlink()
        (root / "d" / "e" / "c").write_text("theirs")
        (root / "own").write_text("theirs")
        (root / "unrelated").write_text("theirs")
        assert layer.changes(root_fd).overtaken == ["d/b", "d/e/c", "own"]


def test_what_changes_after_the_look_is_a_conflict(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a; echo x > d/b", root_fd)
        (root / "a").write_text("theirs")
        assert [conflict.path for conflict in committed(layer, found, root_fd)] == ["a"]
    assert (root / "a").read_text() == "theirs"
    assert (root / "d" / "b").read_text() == "x\n"


def test_sealed_commit_is_finished_by_another_process(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a; echo y > d/b; echo z > n", root_fd)
        layer.keep("t")
        with layer.files() as files:
            apply(root_fd, found.changes[:1], files)
    assert clear_layers(root, home=ours, owner="another") == 0
    with reopen_layer(layer.folder, root) as again:
        assert committed(again, found, root_fd) == []
    assert [(root / name).read_text() for name in ("a", "d/b", "n")] == ["x\n", "y\n", "z\n"]
    with pytest.raises(ToolExecutionError, match="is gone"):
        reopen_layer(layer.folder, root)


def test_commit_is_finished_and_taken_back_from_kept_bytes(
    root: Path, root_fd: int, ours: Path, objects: ObjectStore
) -> None:
    before = contents(root)
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a; rm -r d; echo z > n; chmod 000 n; ln -s n l", root_fd)
        layer.keep_bytes(root_fd, found.changes, objects)
        with layer.files() as files:
            apply(root_fd, found.changes[:2], files)
    kept = KeptBytes(objects.pieces)
    assert apply(root_fd, found.changes, kept) == []
    assert {path: node[2] for path, node in contents(root).items() if node[0] == "link"} == {
        b"l": "n",
        b"link": "a",
    }
    assert (root / "a").read_text() == "x\n"
    assert apply(root_fd, inverse(found.changes), kept) == []
    assert contents(root) == before


def test_large_file_that_changed_meanwhile_is_not_kept(
    root: Path, root_fd: int, ours: Path, objects: ObjectStore
) -> None:
    (root / "a").write_text("a" * 2 * FILE_BYTES_MAX)
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x >> a", root_fd)
        (root / "a").write_text("theirs")
        with pytest.raises(ToolExecutionError, match="changed by somebody else"):
            layer.keep_bytes(root_fd, found.changes, objects)


def test_small_file_that_changed_meanwhile_is_kept_as_it_was_listed_and_theirs_stays(
    root: Path, root_fd: int, ours: Path, objects: ObjectStore
) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a; echo y > other", root_fd)
        (root / "a").write_text("theirs")
        layer.keep_bytes(root_fd, found.changes, objects)
        with layer.files() as files:
            conflicts = apply(root_fd, found.changes, files)
    assert [conflict.path for conflict in conflicts] == ["a"]
    assert ((root / "a").read_text(), (root / "other").read_text()) == ("theirs", "y\n")
    change = next(change for change in found.changes if change.path == "a")
    assert change.before
    assert change.after
    assert [objects.read(node.digest) for node in (change.before, change.after)] == [b"a\n", b"x\n"]


def test_small_files_are_read_once(
    root: Path, root_fd: int, ours: Path, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a", root_fd)
        monkeypatch.setattr(transaction, "open_file", forbidden)
        layer.keep_bytes(root_fd, found.changes, objects)


def forbidden(*_: object) -> int:
    raise AssertionError("read again")


def test_layer_that_was_damaged_is_not_committed(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a", root_fd)
        layer.keep("t")
    (layer.folder / "upper" / "a").write_text("")
    with reopen_layer(layer.folder, root) as again, pytest.raises(ToolExecutionError, match="damaged"):
        committed(again, found, root_fd)
    assert (root / "a").read_text() == "a\n"
    assert again.folder.exists()


def test_layers_of_killed_processes_are_cleared_and_those_in_use_are_not(root: Path, ours: Path) -> None:
    with open_layer(root, home=ours) as left, open_layer(root, home=ours) as used:
        left.kept = True
        left.__exit__()
        assert clear_layers(root, home=ours) == 1
        assert used.folder.exists()
        with pytest.raises(ToolExecutionError, match="used by another process"):
            reopen_layer(used.folder, root)


def test_special_files_and_powers_are_not_kept_and_said(root: Path, root_fd: int, ours: Path) -> None:
    os.mkfifo(root / "d" / "pipe")
    (root / "b").hardlink_to(root / "a")
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "mkfifo p; echo x > a; chmod 4755 a; rm -r d; rm link; mkfifo link", root_fd)
        assert committed(layer, found, root_fd) == []
    assert sorted(found.remarks) == [
        "a has other names (hard links): they keep what was there before",
        "a was kept without its set-id bits",
        "d/pipe is a FIFO, socket or device, which cannot be restored: it was left as it is",
        "link is a FIFO, socket or device, and was not kept",
        "p is a FIFO, socket or device, and was not kept",
    ]
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert (root / "b").read_text() == "a\n"
    assert [path.name for path in (root / "d").iterdir()] == ["pipe"]
    assert (root / "link").is_symlink()


def test_too_many_changes_or_bytes_are_refused(
    root: Path, root_fd: int, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upper_layer, "CHANGES_MAX", 10)
    with open_layer(root, home=ours) as layer, pytest.raises(ResourceLimitError, match="more than 10 files"):
        ran(layer, "touch {1..11}", root_fd)
    with open_layer(root, home=ours) as layer, pytest.raises(ResourceLimitError, match="more than 4 GiB"):
        ran(layer, "truncate -s 3G a b", root_fd)


def test_folders_without_an_end_are_refused_and_deleted(root: Path, root_fd: int, ours: Path) -> None:
    with open_layer(root, home=ours) as layer:
        deep = "mkdir -p $(printf 'd/%.0s' {1..257})"
        with pytest.raises(ResourceLimitError, match="nested deeper than 256"):
            ran(layer, deep, root_fd)
    assert not layer.folder.exists()


def test_layer_lies_outside_of_the_workspace_and_on_its_device(
    root: Path, tmp_path: Path, ours: Path
) -> None:
    with open_layer(root, home=ours) as layer:
        assert layer.folder.parent == ours / "layers"
    with open_layer(root, home=root / "home") as layer:
        assert layer.folder.parent == tmp_path
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_layer_on_another_device_is_copied(
    root: Path, root_fd: int, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == root.stat().st_dev:
        pytest.skip("needs a second file system, to which nothing can be renamed")
    monkeypatch.setattr(transaction, "find_place", lambda root, home: memory)
    with open_layer(root, home=ours) as layer:
        found = ran(layer, "echo x > a; mkdir n; echo y > n/f; chmod 400 n/f", root_fd)
        assert committed(layer, found, root_fd) == []
    assert contents(root)[b"n/f"][1] == 0o400
    assert (root / "n" / "f").read_text() == "y\n"
    assert sorted(path.name for path in root.iterdir()) == ["a", "d", "link", "n"]


def test_no_overlay_is_to_be_had(root: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = root.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    monkeypatch.setattr(layer_folder, "read_mounts", lambda: [Mount(Path("/"), number, "overlay")])
    with pytest.raises(ToolExecutionError, match="outside of the workspace"):
        open_layer(root, home=ours)
    monkeypatch.setattr(layer_folder, "read_mounts", lambda: [Mount(root / "d" / "e", "0:1", "tmpfs")])
    with pytest.raises(ToolExecutionError, match="d/e is a mount of its own"):
        open_layer(root, home=ours)
