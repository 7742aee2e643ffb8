"""Every verb of the workspace: what it does, what it refuses, in which words."""

import errno
import importlib.util
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.state.errors import (
    PathEscapeError,
    RecoverableError,
    ResourceLimitError,
    ToolExecutionError,
    WorkspaceError,
)
from lockstitch.tools.confined.confinement import Backend
from lockstitch.tools.confined.openat2 import has_openat2
from lockstitch.tools.workspace import Workspace

BACKENDS: list[Backend] = ["walk", "openat2"] if has_openat2() else ["walk"]
LIMIT = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print()\n")
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    (root / "out").symlink_to("../outside")
    return root


@pytest.fixture(params=BACKENDS)
def workspace(request: pytest.FixtureRequest, root: Path) -> Iterator[Workspace]:
    with Workspace(root, backend=request.param) as workspace:
        yield workspace


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_file_is_read_by_relative_and_absolute_path(workspace: Workspace, root: Path) -> None:
    for path in ("src/main.py", "./src/../src/main.py", str(root / "src" / "main.py")):
        assert workspace.read_bytes(path, max_bytes=LIMIT) == b"print()\n"


def test_root_named_through_a_link_is_the_same_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    with Workspace(tmp_path / "alias") as workspace:
        for base in (root, tmp_path / "alias"):
            assert workspace.relative(str(base / "src")) == "src"


def test_file_over_the_limit_says_both_sizes(workspace: Workspace, root: Path) -> None:
    with (root / "big").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(ResourceLimitError, match=r"4398046511104 bytes, the limit is 1000"):
        workspace.read_bytes("big", max_bytes=LIMIT)
    (root / "fits").write_bytes(b"x" * LIMIT)
    assert len(workspace.read_bytes("fits", max_bytes=LIMIT)) == LIMIT


def test_fifo_is_neither_read_nor_written(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolExecutionError, match="no regular file"):
        workspace.read_bytes("fifo", max_bytes=LIMIT)
    with pytest.raises(ToolExecutionError, match="only regular files"):
        workspace.write_bytes("fifo", b"")


@pytest.mark.parametrize("path", ["out/file", "out", "../outside/file", "/etc/passwd"])
def test_no_verb_leads_out(workspace: Workspace, tmp_path: Path, path: str) -> None:
    verbs = [
        lambda: workspace.read_bytes(path, max_bytes=LIMIT),
        lambda: workspace.write_bytes(path, b"x", create_dirs=True),
        lambda: workspace.write_bytes(f"{path}/new", b"x", create_dirs=True),
        lambda: workspace.entries(path),
        lambda: workspace.entry(f"{path}/x"),
        lambda: workspace.make_folders(path),
        lambda: workspace.move("src/main.py", f"{path}/moved", create_dirs=True),
        lambda: workspace.move(f"{path}/file", "mine"),
        lambda: workspace.delete(f"{path}/file"),
    ]
    for verb in verbs:
        with pytest.raises(PathEscapeError, match="leads out of the workspace"):
            verb()
    assert {p.name: p.read_text() for p in (tmp_path / "outside").iterdir()} == {"file": "secret"}


def test_missing_file_names_what_comes_near(workspace: Workspace) -> None:
    with pytest.raises(ToolExecutionError, match=r"no src/mian.py. Did you mean src/main.py\?"):
        workspace.read_bytes("src/mian.py", max_bytes=LIMIT)
    with pytest.raises(ToolExecutionError, match=r"no scr. Did you mean src\?"):
        workspace.read_bytes("scr/main.py", max_bytes=LIMIT)
    with pytest.raises(ToolExecutionError, match="list_directory"):
        workspace.entries("qqq")


@pytest.mark.parametrize(
    ("path", "words"),
    [("src", "is a folder"), ("src/main.py/x", "is a file and no folder"), ("x" * 300, "too long")],
)
def test_wrong_kind_is_said_clearly(workspace: Workspace, path: str, words: str) -> None:
    with pytest.raises(ToolExecutionError, match=words):
        workspace.read_bytes(path, max_bytes=LIMIT)
    with pytest.raises(ToolExecutionError, match=words):
        workspace.write_bytes(path, b"")


def test_absent_file_reads_as_none_but_a_folder_does_not(workspace: Workspace) -> None:
    assert workspace.read_bytes_or_none("none/at/all", max_bytes=LIMIT) is None
    with pytest.raises(ToolExecutionError, match="is a folder"):
        workspace.read_bytes_or_none("src", max_bytes=LIMIT)


def test_write_makes_folders_only_when_asked(workspace: Workspace, root: Path) -> None:
    with pytest.raises(ToolExecutionError, match="there is no a"):
        workspace.write_bytes("a/b/c", b"1")
    workspace.write_bytes("a/b/c", b"1", create_dirs=True)
    assert (root / "a" / "b" / "c").read_bytes() == b"1"


def test_write_through_a_link_inside_keeps_the_link(workspace: Workspace, root: Path) -> None:
    (root / "l").symlink_to("src/main.py")
    (root / "dangling").symlink_to("src/new.py")
    workspace.write_bytes("l", b"1")
    workspace.write_bytes("dangling", b"2")
    assert (root / "l").is_symlink()
    assert (root / "src" / "main.py").read_bytes() == b"1"
    assert (root / "src" / "new.py").read_bytes() == b"2"


def test_nothing_is_changed_in_git(workspace: Workspace, root: Path) -> None:
    (root / "sly").symlink_to(".git")
    (root / "sub" / ".GIT").mkdir(parents=True)
    for path in (".git/hooks/pre-commit", ".Git/config", "sly/config", "src/.git", "sub/.GIT/x"):
        for verb in (
            lambda path=path: workspace.write_bytes(path, b"", create_dirs=True),
            lambda path=path: workspace.move("src/main.py", path, create_dirs=True),
            lambda path=path: workspace.move(path, "mine"),
            lambda path=path: workspace.delete(path),
            lambda path=path: workspace.make_folders(path),
        ):
            with pytest.raises(ToolExecutionError, match=r"\.git"):
                verb()
    with pytest.raises(ToolExecutionError, match=r"holds a \.git"):
        workspace.delete("sub")
    with pytest.raises(ToolExecutionError, match=r"holds a \.git"):
        workspace.move("sub", "elsewhere")
    assert names(root / ".git") == {"hooks", "config"}
    assert workspace.read_bytes(".git/config", max_bytes=LIMIT) == b"[core]\n"


def test_entries_tell_kind_size_and_time(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "src" / "fifo")
    (root / "src" / "deep").mkdir()
    (root / "src" / "l").symlink_to("/etc")
    found = {entry.name: entry for entry in workspace.entries("src")}
    assert {name: entry.kind for name, entry in found.items()} == {
        "deep": "folder",
        "fifo": "other",
        "l": "link",
        "main.py": "file",
    }
    assert found["main.py"].size == 8
    assert found["main.py"].path == "src/main.py"
    assert found["main.py"].mtime_ns == (root / "src" / "main.py").stat().st_mtime_ns
    assert workspace.entry("src/main.py") == found["main.py"]
    assert [entry.path for entry in workspace.entries()] == [".git", "out", "src"]


def test_entry_of_nothing_is_none(workspace: Workspace) -> None:
    assert workspace.entry("none") is None
    assert workspace.entry("none/x") is None
    assert workspace.entry("src/main.py/x") is None
    root = workspace.entry(".")
    assert root is not None
    assert root.kind == "folder"
    out = workspace.entry("out")
    assert out is not None
    assert out.kind == "link"


def test_move_overwrites_nothing(workspace: Workspace, root: Path) -> None:
    workspace.write_bytes("other", b"1")
    for taken in ("other", "out", "src"):
        with pytest.raises(ToolExecutionError, match="there already"):
            workspace.move("src/main.py", taken)
    with pytest.raises(ToolExecutionError, match="there is no new"):
        workspace.move("src/main.py", "new/main.py")
    workspace.move("src/main.py", "new/main.py", create_dirs=True)
    workspace.move("out", "new/out")
    assert names(root / "new") == {"main.py", "out"}
    assert (root / "new" / "out").is_symlink()


def test_folder_does_not_move_into_itself(workspace: Workspace) -> None:
    with pytest.raises(ToolExecutionError, match="does not go into itself"):
        workspace.move("src", "src/src")


def test_move_of_a_missing_source_makes_no_folder(workspace: Workspace, root: Path) -> None:
    with pytest.raises(ToolExecutionError, match="there is no none"):
        workspace.move("none", "made/x", create_dirs=True)
    assert not (root / "made").exists()


def test_delete_follows_no_link(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (root / "src" / "out").symlink_to(tmp_path / "outside")
    workspace.delete("out")
    workspace.delete("src")
    assert names(root) == {".git"}
    assert (tmp_path / "outside" / "file").read_text() == "secret"


@pytest.mark.parametrize("path", [".", "src/..", ""])
def test_workspace_itself_is_not_deleted_or_written(workspace: Workspace, path: str) -> None:
    for verb in (
        lambda: workspace.delete(path),
        lambda: workspace.write_bytes(path, b""),
        lambda: workspace.move(path, "x"),
    ):
        with pytest.raises(ToolExecutionError, match="workspace itself"):
            verb()


def test_folders_are_made_and_may_be_there(workspace: Workspace, root: Path) -> None:
    for _ in range(2):
        workspace.make_folders("a/b")
    workspace.make_folders(".")
    assert (root / "a" / "b").is_dir()
    with pytest.raises(ToolExecutionError, match="is a file"):
        workspace.make_folders("src/main.py")


def test_hidden_folder_is_out_of_reach(root: Path) -> None:
    home = root / "deep" / "home"
    home.mkdir(parents=True)
    (home / "ledger").write_text("mine")
    (root / "l").symlink_to("deep/home")
    with Workspace(root, hidden=[home]) as workspace:
        for verb in (
            lambda: workspace.read_bytes("deep/home/ledger", max_bytes=LIMIT),
            lambda: workspace.read_bytes("l/ledger", max_bytes=LIMIT),
            lambda: workspace.write_bytes("l/settings.toml", b""),
            lambda: workspace.entries("deep/home"),
            lambda: workspace.delete("deep/home"),
            lambda: workspace.delete("deep"),
            lambda: workspace.move("deep", "elsewhere"),
        ):
            with pytest.raises(ToolExecutionError, match="Lockstitch"):
                verb()
        assert workspace.entries("deep") == []
        assert workspace.entry("deep/home") is None
    assert (home / "ledger").read_text() == "mine"


def test_hidden_folder_that_is_gone_is_not_made_again(root: Path) -> None:
    with Workspace(root, hidden=[root / "home"]) as workspace:
        for verb in (
            lambda: workspace.write_bytes("home/settings.toml", b"", create_dirs=True),
            lambda: workspace.make_folders("Home"),
            lambda: workspace.move("src", "home"),
            lambda: workspace.write_bytes("home", b""),
        ):
            with pytest.raises(ToolExecutionError, match="own data"):
                verb()
    assert not (root / "home").exists()


def test_move_that_the_file_system_cannot_make_is_no_escape(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", rename)  # as for a folder of a container's image
    with pytest.raises(ToolExecutionError, match="move it by run_command"):
        workspace.move("src", "lib")


def test_system_without_confined_opens_is_refused_by_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set[object]())  # as on Windows
    with pytest.raises(WorkspaceError, match="Windows"):
        Workspace(root)


@pytest.mark.parametrize(
    "module",
    ["confined.confinement", "workspace", "confined.openat2", "commands.landlock", "confined.linux_calls"],
)
def test_modules_can_be_imported_on_windows(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_PATH"):
        monkeypatch.delattr(os, flag, raising=False)
    spec = importlib.util.find_spec(f"lockstitch.tools.{module}")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_file_that_says_nothing_of_its_size_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs files of size 0 that hold something, as in /proc")
    with Workspace(Path("/proc/self")) as workspace:
        assert workspace.read_bytes("comm", max_bytes=LIMIT)
        with pytest.raises(ResourceLimitError, match="the limit is 10"):
            workspace.read_bytes("status", max_bytes=10)


def test_file_that_grows_while_it_is_read_is_held_to_the_limit(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(fd: int, size: int, *, read: Callable[[int, int], bytes] = os.read) -> bytes:
        with (root / "src" / "main.py").open("ab") as file:
            file.write(b"x" * LIMIT)
        return read(fd, size)

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(ResourceLimitError, match="the limit is 1000"):
        workspace.read_bytes("src/main.py", max_bytes=LIMIT)


def test_tree_too_deep_to_walk_is_left_whole_and_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fwalk(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(os, "fwalk", fwalk)
    with Workspace(root) as workspace, pytest.raises(ToolExecutionError, match="nested too deep"):
        workspace.delete("src")
    assert (root / "src" / "main.py").exists()


def test_workspace_in_a_hidden_folder_is_refused(root: Path) -> None:
    for hidden in (root, root.parent):
        with pytest.raises(WorkspaceError, match="own home"):
            Workspace(root, hidden=[hidden])


@pytest.mark.parametrize("name", ["none", "src/main.py"])
def test_workspace_that_is_no_folder_is_refused(root: Path, name: str) -> None:
    with pytest.raises(WorkspaceError):
        Workspace(root / name)


def test_closed_workspace_says_so(workspace: Workspace) -> None:
    workspace.close()
    workspace.close()
    with pytest.raises(ToolExecutionError, match="closed"):
        workspace.read_bytes("src/main.py", max_bytes=LIMIT)


def test_open_folder_gives_its_descriptor_and_takes_it_back(workspace: Workspace, root: Path) -> None:
    with workspace.open_folder("src") as fd:
        assert os.path.samestat(os.fstat(fd), (root / "src").stat())
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
    with pytest.raises(ToolExecutionError, match="is a file"), workspace.open_folder("src/main.py"):
        pass


@pytest.mark.usefixtures("ordinary_user")
def test_missing_permission_is_said(workspace: Workspace, root: Path) -> None:
    (root / "src" / "main.py").chmod(0o000)
    for verb in (
        lambda: workspace.read_bytes("src/main.py", max_bytes=LIMIT),
        lambda: workspace.write_bytes("src/main.py", b""),
    ):
        with pytest.raises(ToolExecutionError, match="no permission"):
            verb()
    assert stat.S_IMODE((root / "src" / "main.py").stat().st_mode) == 0


PARTS = st.sampled_from(
    ["..", ".", "", "src", "out", "loop", "up", "main.py", ".git", "new", "ü", "\0", "etc"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(parts=st.lists(PARTS, max_size=6), absolute=st.booleans())
def test_whatever_the_path_nothing_outside_is_read_or_changed(
    workspace: Workspace, tmp_path: Path, parts: list[str], absolute: bool
) -> None:
    for name, target in (("loop", "loop"), ("src/up", ".."), ("up", "../ws")):
        (tmp_path / "ws" / "src").mkdir(exist_ok=True)
        if not (tmp_path / "ws" / name).is_symlink():
            (tmp_path / "ws" / name).symlink_to(target)
    path = "/" * absolute + "/".join(parts)
    for verb in (
        lambda: workspace.read_bytes(path, max_bytes=LIMIT) == b"secret",
        lambda: workspace.write_bytes(path, b"x", create_dirs=True),
        lambda: any(entry.name == "outside" for entry in workspace.entries(path)),
        lambda: workspace.move(path, "moved"),
        lambda: workspace.delete(path),
    ):
        try:
            seen, said = verb(), ""
        except RecoverableError as error:
            seen, said = None, error.message
        assert not seen
        assert str(tmp_path) not in said
    assert names(tmp_path) == {"ws", "outside"}
    assert (tmp_path / "outside" / "file").read_text() == "secret"
