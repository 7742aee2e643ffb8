"""Diffs between states of files: git itself can apply them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node
from lockstitch.studio.file_deltas import FileDelta, delta_of, unified_diff
from lockstitch.tools.texts import diffs


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[ObjectStore]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        yield ObjectStore(tmp_path / "objects", ledger)


def file(objects: ObjectStore, data: bytes, mode: int = 0o644) -> Node:
    return Node("file", mode, objects.put(data), len(data))


LONG = b"".join(b"line %d\n" % n for n in range(60))
PAIRS = {
    "edited": (b"a\nb\nc\n", b"a\nB\nc\n", 1, 1),
    "far apart": (LONG, LONG.replace(b"line 3\n", b"x\n").replace(b"line 50\n", b""), 1, 2),
    "no newline at the end": (b"a\nb", b"a\nb\n", 1, 1),
    "a newline less": (b"a\nb\n", b"a\nb", 1, 1),
    "crlf": (b"a\r\nb\r\n", b"a\r\nc\r\n", 1, 1),
    "no utf-8": (b"\xff\na\n", b"\xff\nb\n", 1, 1),
    "made": (None, b"a\nb\n", 2, 0),
    "made empty": (None, b"", 0, 0),
    "deleted": (b"a\n", None, 0, 1),
    "a form feed": (b"a\x0cb\nc\n", b"a\x0cb\nd\n", 1, 1),
    "all new": (LONG, LONG.upper(), 60, 60),
}


@pytest.mark.parametrize("at_once", [2_000, 5])
@pytest.mark.parametrize("name", PAIRS)
def test_git_applies_the_diff(
    objects: ObjectStore, tmp_path: Path, name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "MATCHED_LINES", at_once)
    old, new, added, removed = PAIRS[name]
    sides = [None if data is None else file(objects, data) for data in (old, new)]
    change = Change("a file.txt", *sides)
    (tmp_path / "work").mkdir()
    place = tmp_path / "work" / "a file.txt"
    if old is not None:
        place.write_bytes(old)
    diff = "".join(unified_diff([change], objects)).encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "-"], input=diff, cwd=tmp_path / "work", check=True)
    assert (place.read_bytes() if place.exists() else None) == new
    if at_once > 5:
        letter = "A" if old is None else "D" if new is None else "M"
        assert delta_of(change, objects) == FileDelta("a file.txt", letter, added, removed)  # type: ignore[arg-type]


def test_a_binary_file_is_named(objects: ObjectStore) -> None:
    change = Change("x.bin", file(objects, b"a\0b"), file(objects, b"a\0c"))
    assert list(unified_diff([change], objects)) == [
        "diff --git a/x.bin b/x.bin\n",
        "Binary files a/x.bin and b/x.bin differ\n",
    ]
    assert delta_of(change, objects) == FileDelta("x.bin", "M", None, None)


def test_a_mode_a_link_and_a_folder_are_told(objects: ObjectStore) -> None:
    changes = [
        Change("run.sh", file(objects, b"a\n"), file(objects, b"a\n", 0o755)),
        Change("link", None, Node("link", 0, "to")),
        Change("d", None, Node("folder", 0o700)),
    ]
    assert "".join(unified_diff(changes, objects)) == (
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1,1 @@\n+to\n"
        "\\ No newline at end of file\n# folder d: none -> mode 700\n"
    )
