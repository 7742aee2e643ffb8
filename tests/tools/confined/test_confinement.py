"""Opens stay below the root: links, loops, absolute targets, both ways of opening."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.state.errors import PathEscapeError, ToolExecutionError
from lockstitch.tools.confined import confinement
from lockstitch.tools.confined.confinement import Backend, Confinement
from lockstitch.tools.confined.openat2 import has_openat2

BACKENDS: list[Backend] = ["walk", "openat2"] if has_openat2() else ["walk"]


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Confinement]:
    root = tmp_path / "ws"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    place = Confinement(root, backend=request.param)
    yield place
    place.close()


def content(place: Confinement, path: str) -> str:
    with open(place.open(path, os.O_RDONLY | os.O_NONBLOCK)) as file:  # noqa: PTH123  a descriptor
        return file.read()


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("l", "a/file", "l"),
        ("l", "a", "l/file"),
        ("a/b/l", "../file", "a/b/l"),
        ("a/b/l", "../../a/./b/..", "a/b/l/file"),
        ("l", ".", "l/l/a/file"),
        ("a/l", ".", "a/l/../a/file"),
        ("l", "a/", "l/file"),
    ],
)
def test_link_that_stays_inside_is_followed(place: Confinement, link: str, target: str, path: str) -> None:
    (Path(place.roots[0]) / link).symlink_to(target)
    assert content(place, path) == "inside"


def test_absolute_link_back_inside_is_followed(place: Confinement) -> None:
    (Path(place.roots[0]) / "l").symlink_to(f"{place.roots[0]}/a")
    assert content(place, "l/file") == "inside"


@pytest.mark.parametrize(
    "target", ["../outside", "a/../../outside", "{base}/outside", "/", "/proc/self/root"]
)
def test_link_out_is_an_escape(place: Confinement, tmp_path: Path, target: str) -> None:
    (Path(place.roots[0]) / "l").symlink_to(target.format(base=tmp_path))
    for path in ("l/file", "l"):
        with pytest.raises(PathEscapeError, match="leads out") as caught:
            place.open(path, os.O_RDONLY)
        assert "outside" not in caught.value.message.replace("leads out", "")


def test_link_out_and_back_in_is_an_escape(place: Confinement) -> None:
    (Path(place.roots[0]) / "l").symlink_to("../ws/a/file")
    with pytest.raises(PathEscapeError):
        place.open("l", os.O_RDONLY)


def test_links_in_a_circle_end(place: Confinement) -> None:
    (Path(place.roots[0]) / "l").symlink_to("m")
    (Path(place.roots[0]) / "m").symlink_to("l")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        place.open("l/x", os.O_RDONLY)


def test_file_is_no_folder_on_the_way(place: Confinement) -> None:
    with pytest.raises(NotADirectoryError):
        place.open("a/file/x", os.O_RDONLY)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_no_descriptor_is_left_behind(place: Confinement) -> None:
    (Path(place.roots[0]) / "l").symlink_to("../outside")
    before = open_descriptors()
    for path in ("l/x", "a/none", "a/file/x", "a/b/../../l"):
        with pytest.raises((PathEscapeError, OSError)):
            place.open(path, os.O_RDONLY)
    os.close(place.open_parent("a/b/new/x", create=True)[0])
    assert open_descriptors() == before


def test_forbidden_folder_is_not_entered_by_any_way(place: Confinement) -> None:
    root = Path(place.roots[0])
    place.forbidden = ("a",)
    (root / "l").symlink_to("a")
    for path in ("a", "a/file", "l/file", "a/b"):
        with pytest.raises(ToolExecutionError, match="own data"):
            place.open(path, os.O_RDONLY)


def test_parent_of_a_link_is_where_it_leads(place: Confinement) -> None:
    root = Path(place.roots[0])
    (root / "l").symlink_to("a/b/new")
    folder, name = place.open_parent("l", follow=True)
    assert (os.path.samestat(os.fstat(folder), (root / "a" / "b").stat()), name) == (True, "new")
    os.close(folder)
    folder, name = place.open_parent("l")
    assert (os.path.samestat(os.fstat(folder), root.stat()), name) == (True, "l")
    os.close(folder)


@pytest.mark.parametrize("target", [".", "a/..", "a/b/../.."])
def test_link_to_the_root_has_no_parent_inside(place: Confinement, target: str) -> None:
    (Path(place.roots[0]) / "l").symlink_to(target)
    with pytest.raises(IsADirectoryError):
        place.open_parent("l", follow=True)


@pytest.mark.parametrize("target", ["..", "a/../..", "../new", "/new"])
def test_link_out_has_no_parent_inside(place: Confinement, target: str) -> None:
    (Path(place.roots[0]) / "l").symlink_to(target)
    with pytest.raises(PathEscapeError):
        place.open_parent("l", follow=True, create=True)


def test_missing_folders_are_made_inside_only(place: Confinement, tmp_path: Path) -> None:
    root = Path(place.roots[0])
    (root / "l").symlink_to("../outside")
    (root / "to-new").symlink_to("fresh")
    os.close(place.open_parent("x/y/z", create=True)[0])
    os.close(place.open_parent("to-new/z", create=True)[0])
    with pytest.raises(PathEscapeError):
        place.open_parent("l/y/z", create=True)
    assert (root / "x" / "y").is_dir()
    assert (root / "fresh").is_dir()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]


@pytest.mark.parametrize("path", [".git/hooks/x", ".GIT/x", "a/.git", "l/hooks/x"])
def test_writing_into_git_is_refused_also_through_a_link(place: Confinement, path: str) -> None:
    (Path(place.roots[0]) / ".git" / "hooks").mkdir(parents=True)
    (Path(place.roots[0]) / "l").symlink_to(".git")
    with pytest.raises(ToolExecutionError, match="run_command"):
        place.open_parent(path, writing=True)


@pytest.mark.parametrize("path", [".lockstitch/policy.toml", "a/.LOCKSTITCH", "l/policy.toml"])
def test_writing_a_persons_rules_is_refused_also_when_missing(place: Confinement, path: str) -> None:
    (Path(place.roots[0]) / "l").symlink_to(".lockstitch")
    with pytest.raises(ToolExecutionError, match="rules"):
        place.open_parent(path, writing=True, create=True)
    assert not (Path(place.roots[0]) / ".lockstitch").exists()


def repository(root: Path, *, without: str = "") -> None:
    for name in {"objects", "refs", "hooks"} - {without}:
        (root / "bare" / name).mkdir(parents=True)
    for name in {"HEAD", "config"} - {without}:
        (root / "bare" / name).touch()


@pytest.mark.parametrize(
    "name", ["config", "Hooks/update", "HEAD", "objects/x", "info/attributes", "packed-refs"]
)
def test_writing_into_a_repository_is_refused_whatever_its_name(place: Confinement, name: str) -> None:
    repository(Path(place.roots[0]))
    (Path(place.roots[0]) / "l").symlink_to("bare")
    for path in (f"bare/{name}", f"l/{name}"):
        with pytest.raises(ToolExecutionError, match="repository"):
            place.open_parent(path, writing=True, create=True)
    os.close(place.open_parent("bare/worktree/x", writing=True, create=True)[0])


@pytest.mark.parametrize("last", ["HEAD", "objects", "refs"])
def test_no_repository_is_made_piece_by_piece(place: Confinement, last: str) -> None:
    repository(Path(place.roots[0]), without=last)
    os.close(place.open_parent("bare/config", writing=True)[0])
    with pytest.raises(ToolExecutionError, match="repository"):
        place.open_parent(f"bare/{last}", writing=True)


def test_forbidden_folder_is_known_again_after_it_was_replaced(place: Confinement) -> None:
    root = Path(place.roots[0])
    place.forbidden = ("a/b",)
    (root / "a" / "b").rmdir()
    (root / "l").symlink_to("a")
    for path in ("a/b", "a/b/x", "a/B/x", "l/b/x", "a/b./x"):
        with pytest.raises(ToolExecutionError, match="own data"):
            place.open_parent(path, writing=True, create=True)
    (root / "a" / "b").mkdir()
    with pytest.raises(ToolExecutionError, match="own data"):
        place.open("l/b", os.O_RDONLY)


def test_forbidden_folder_is_not_made_with_the_folders_above_it(place: Confinement) -> None:
    place.forbidden = ("new/deep/home",)
    with pytest.raises(ToolExecutionError, match="own data"):
        place.open_parent("new/deep/home/x", writing=True, create=True)
    assert not (Path(place.roots[0]) / "new").exists()


def test_walk_holds_no_more_folders_open_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "FOLDERS_MAX", 8)
    place = Confinement(tmp_path, backend="walk")
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        place.open_parent("x/" * 20 + "x", create=True)
    place.close()


def test_closed_root_opens_nothing(place: Confinement) -> None:
    place.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        place.open("a", os.O_RDONLY)


def test_root_that_was_renamed_stays_the_root(place: Confinement) -> None:
    root = Path(place.roots[0])
    root.rename(root.with_name("elsewhere"))
    root.symlink_to("outside")
    assert content(place, "a/file") == "inside"


def test_fifo_and_socket_do_not_hang(place: Confinement, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.roots[0])
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert content(place, "fifo") == ""
        with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
            place.open("socket", os.O_RDONLY | os.O_NONBLOCK)
