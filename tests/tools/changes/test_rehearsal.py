"""What a call would change, shown before anybody says yes: as the tool itself would do it, and not done."""

from pathlib import Path
from typing import Any

import pytest
from tests.desk import Desk

from lockstitch.tools.catalog import build_registry
from lockstitch.tools.changes.rehearsal import rehearse

REGISTRY = build_registry()
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: new/b.txt\n+b\n*** End Patch"
CALLS: list[tuple[str, dict[str, Any], list[tuple[str, str, int, int]], str]] = [
    ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "1"}, [("M", "a.txt", 1, 1)], "-one\n+1"),
    (
        "write_file",
        {"path": "d/n.txt", "content": "x\ny\n"},
        [("A", "d", 0, 0), ("A", "d/n.txt", 2, 0)],
        "+x\n+y",
    ),
    ("delete_file", {"path": "a.txt"}, [("D", "a.txt", 0, 1)], "-one"),
    (
        "move_file",
        {"source": "a.txt", "destination": "z.txt"},
        [("D", "a.txt", 0, 1), ("A", "z.txt", 1, 0)],
        "+one",
    ),
    (
        "apply_patch",
        {"patch": PATCH},
        [("M", "a.txt", 1, 1), ("A", "new", 0, 0), ("A", "new/b.txt", 1, 0)],
        "+two",
    ),
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.put("a.txt", "one\n")
    return made


def shown(desk: Desk, tool: str, **args: Any) -> Any:
    return rehearse(REGISTRY.get(tool), args, desk.context)


@pytest.mark.parametrize(("tool", "args", "files", "line"), CALLS, ids=[call[0] for call in CALLS])
def test_the_change_is_told_and_not_made(
    desk: Desk, tool: str, args: dict[str, Any], files: list[tuple[str, str, int, int]], line: str
) -> None:
    found = shown(desk, tool, **args)
    told = [(one["change"], one["path"], one["added"] or 0, one["removed"] or 0) for one in found["changes"]]
    assert told == files
    assert found["total"] == len(files)
    assert line in found["diff"]
    assert [path.name for path in desk.root.rglob("*")] == ["a.txt"]
    assert (desk.root / "a.txt").read_text() == "one\n"
    assert desk.events == []


def test_the_digest_is_of_the_files_as_they_are(desk: Desk) -> None:
    first = shown(desk, "delete_file", path="a.txt")
    assert shown(desk, "delete_file", path="a.txt")["digest"] == first["digest"]
    desk.put("a.txt", "other\n")
    assert shown(desk, "delete_file", path="a.txt")["digest"] != first["digest"]


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("edit_file", {"path": "missing.txt", "old_text": "x", "new_text": "y"}),
        ("edit_file", {"path": "a.txt", "old_text": "x"}),
        ("delete_file", {"path": "../outside"}),
        ("write_file", {"path": "a.txt", "content": "one\n"}),
        ("read_file", {"path": "a.txt"}),
        ("run_command", {"command": "rm a.txt"}),
    ],
)
def test_what_fails_or_changes_nothing_shows_nothing(desk: Desk, tool: str, args: dict[str, Any]) -> None:
    assert shown(desk, tool, **args) is None
    assert (desk.root / "a.txt").read_text() == "one\n"


def test_a_binary_or_large_file_is_named_without_lines(desk: Desk) -> None:
    desk.put("big.bin", b"\0" * 1_000_000)
    found = shown(desk, "delete_file", path="big.bin")
    assert found["changes"] == [{"path": "big.bin", "change": "D", "added": None, "removed": None}]
    assert found["diff"] == ""
