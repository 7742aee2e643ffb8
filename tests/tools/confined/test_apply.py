"""Changes made on the disk: what is as before is changed, what is as after is left, anything else is told."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.tree_change import Change, Node, inverse
from lockstitch.tools.confined.apply import apply, check
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.tree import SPECIAL, Tree

Look = dict[str, Node]


class Kept:
    """Contents by digest, as the object store has them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def file(self, data: bytes, mode: int = 0o644) -> Node:
        digest = hashlib.sha256(data).hexdigest()
        self.contents[digest] = data
        return Node("file", mode, digest, len(data))

    def pieces(self, digest: str) -> Iterator[bytes]:
        yield from (self.contents[digest][:2], self.contents[digest][2:])


KEPT = Kept()
SOURCE = KeptBytes(KEPT.pieces)
ONE, TWO = KEPT.file(b"one"), KEPT.file(b"two", 0o755)
FOLDER, LINK = Node("folder", 0o755), Node("link", 0, "/nowhere/at all")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def look_of(root: int) -> Look:
    """Every node below the root."""
    found: Look = {}
    with Tree(root) as tree:
        left = list(tree.names("."))
        while left:
            path = left.pop()
            node = tree.node(path)
            assert node is not None
            found[path] = node
            if node.kind == "folder":
                left += [f"{path}/{name}" for name in tree.names(path)]
    return found


def between(before: Look, after: Look) -> list[Change]:
    paths = sorted(before.keys() | after.keys())
    changes = [Change(path, before.get(path), after.get(path)) for path in paths]
    return [change for change in changes if change.before != change.after]


def test_every_kind_of_change_is_made_and_taken_back(root: int) -> None:
    first: Look = {
        "a": ONE,
        "gone": TWO,
        "link": LINK,
        "was": FOLDER,
        "was/file": ONE,
        "was/in": FOLDER,
        "becomes": ONE,
        "mode": ONE,
        "closed": Node("folder", 0o500),
    }
    second: Look = {
        "a": TWO,
        "link": ONE,
        "was": ONE,
        "becomes": FOLDER,
        "becomes/in": Node("folder", 0o555),
        "becomes/in/file": ONE,
        "mode": KEPT.file(b"one", 0o600),
        "closed": Node("folder", 0o500),
        "closed/new": TWO,
        "new": LINK,
        "name \udcff\n": ONE,
    }
    for before, after in (({}, first), (first, second), (second, first), (first, {})):
        changes = between(before, after)
        assert check(root, changes) == []
        assert apply(root, changes, SOURCE) == []
        assert look_of(root) == after


def test_made_again_nothing_happens(root: int, tmp_path: Path) -> None:
    changes = between({}, {"a": ONE, "in": FOLDER, "in/b": TWO})
    apply(root, changes, SOURCE)
    before = (tmp_path / "in" / "b").stat()
    assert apply(root, changes, KeptBytes(lambda _: iter(()))) == []
    assert (tmp_path / "in" / "b").stat() == before


def test_what_somebody_else_changed_is_told_and_stays(root: int, tmp_path: Path) -> None:
    apply(root, between({}, {"a": ONE, "b": ONE, "d": FOLDER, "d/x": ONE}), SOURCE)
    (tmp_path / "a").write_text("theirs")
    (tmp_path / "d" / "theirs").touch()
    (tmp_path / "new").write_text("theirs")
    os.mkfifo(tmp_path / "pipe")
    changes = [
        *(Change("a", ONE, TWO), Change("b", ONE, None), Change("new", None, ONE), Change("d", FOLDER, None)),
        *(Change("d/x", ONE, None), Change("gone", ONE, TWO), Change("pipe", None, ONE)),
    ]
    assert [conflict.path for conflict in check(root, changes)] == ["a", "new", "gone", "pipe"]
    told = apply(root, changes, SOURCE)
    assert {conflict.path for conflict in told} == {"a", "d", "gone", "new", "pipe"}
    assert {c.found for c in told if c.path == "pipe"} == {SPECIAL}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "d", "new", "pipe"]
    assert (tmp_path / "a").read_text() == "theirs"
    assert (tmp_path / "new").read_text() == "theirs"


def test_folder_that_became_a_link_leads_nowhere(root: int, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"one")
    apply(root, between({}, {"in": FOLDER, "in/file": ONE}), SOURCE)
    (tmp_path / "in" / "file").unlink()
    (tmp_path / "in").rmdir()
    (tmp_path / "in").symlink_to(outside)
    changes = [Change("in/file", ONE, TWO), Change("in/new", None, ONE), Change("in", FOLDER, None)]
    assert {conflict.path for conflict in apply(root, changes, SOURCE)} == {"in", "in/file", "in/new"}
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == b"one"


def test_damaged_bytes_are_refused_and_leave_no_draft(root: int, tmp_path: Path) -> None:
    apply(root, between({}, {"a": ONE}), SOURCE)
    with pytest.raises(ToolExecutionError, match="a: what was kept for it is damaged"):
        apply(root, between({"a": ONE}, {"a": TWO}), KeptBytes(lambda _: iter([b"other"])))
    assert look_of(root) == {"a": ONE}


def test_draft_of_a_killed_process_goes(root: int, tmp_path: Path) -> None:
    def killed(_: str) -> Iterator[bytes]:
        yield b"tw"
        os.link(next(tmp_path.glob(".a.*.tmp")), tmp_path / "kept")
        raise OSError(28, "as good as killed")

    with pytest.raises(OSError, match="as good as"):
        apply(root, between({}, {"a": TWO}), KeptBytes(killed))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    draft = ".a." + hashlib.sha256(b"a").hexdigest()[:8] + ".tmp"
    (tmp_path / "kept").rename(tmp_path / draft)
    apply(root, between({}, {"a": TWO}), SOURCE)
    assert look_of(root) == {"a": TWO}


@pytest.mark.usefixtures("ordinary_user")
def test_closed_folders_and_files_are_changed_and_closed_again(root: int, tmp_path: Path) -> None:
    closed, unreadable = Node("folder", 0), KEPT.file(b"secret", 0)
    first: Look = {"d": closed, "d/in": closed, "d/in/file": unreadable}
    apply(root, between({}, first), SOURCE)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0
    changes = [Change("d/in/file", unreadable, ONE), Change("d/in/new", None, TWO)]
    assert check(root, changes) == []
    assert apply(root, changes, SOURCE) == []
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0
    assert look_of(root) == {**first, "d/in/file": ONE, "d/in/new": TWO}
    (tmp_path / "d").chmod(0o700)  # as a process leaves it that was killed meanwhile
    apply(root, [Change("d", closed, closed), *changes], SOURCE)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0
    (tmp_path / "d").chmod(0o700)
    (tmp_path / "d" / "in").chmod(0o700)


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from([ONE, TWO, LINK, KEPT.file(b"one", 0o600), KEPT.file(b"")])
FOLDERS = st.sampled_from([FOLDER, Node("folder", 0o700), Node("folder", 0o555)])
TREES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda below: st.dictionaries(NAMES, st.one_of(LEAVES, st.tuples(FOLDERS, below)), max_size=3),
    max_leaves=6,
)


def flat(tree: dict[str, object], prefix: str = "") -> Look:
    found: Look = {}
    for name, node in tree.items():
        if isinstance(node, tuple):
            found[prefix + name] = node[0]
            found |= flat(node[1], f"{prefix}{name}/")
        else:
            assert isinstance(node, Node)
            found[prefix + name] = node
    return found


class _KilledError(Exception):
    """Stands for the end of the process."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=TREES, two=TREES, stops=st.integers(0, 4))
def test_any_tree_becomes_any_other_also_when_cut_off_and_made_again(
    one: dict[str, object], two: dict[str, object], stops: int, root: int
) -> None:
    left = stops

    def killing(digest: str) -> Iterator[bytes]:
        nonlocal left
        if left == 0:
            raise _KilledError
        left -= 1
        yield from KEPT.pieces(digest)

    first, second = flat(one), flat(two)
    apply(root, between(look_of(root), first), SOURCE)
    changes = between(first, second)
    try:
        apply(root, changes, KeptBytes(killing))
    except _KilledError:
        assert apply(root, changes, SOURCE) == []
    assert look_of(root) == second
    assert apply(root, inverse(changes), SOURCE) == []
    assert look_of(root) == first
