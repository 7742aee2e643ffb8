"""Diffs say what changed, with line numbers, and stay bounded."""

import hashlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lockstitch.tools.texts.diffs import FileChange, diff_preview, hash_bytes, unified_diff


def modified(before: str, after: str) -> FileChange:
    return FileChange(path="f", change_type="modify", before=before.encode(), after=after.encode())


def lines_of(change: FileChange) -> list[tuple[str, int, str]]:
    return [
        (line.type, line.line_number, line.content) for line in diff_preview(change, call_id="c").diff_lines
    ]


def test_changed_line_stands_between_three_of_context() -> None:
    before = "".join(f"{number}\n" for number in range(1, 11))
    assert lines_of(modified(before, before.replace("5\n", "five\nfive and a half\n"))) == [
        ("context", 2, "2"),
        ("context", 3, "3"),
        ("context", 4, "4"),
        ("remove", 5, "5"),
        ("add", 5, "five"),
        ("add", 6, "five and a half"),
        ("context", 7, "6"),
        ("context", 8, "7"),
        ("context", 9, "8"),
    ]


def test_unified_form_has_headers_and_counts() -> None:
    assert unified_diff(modified("a\nb\n", "a\nc\nd\n")) == (
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d"
    )


def test_created_and_deleted_files_come_from_and_go_to_nothing() -> None:
    created = FileChange(path="f", change_type="create", after=b"a\n")
    assert unified_diff(created) == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a"
    deleted = FileChange(path="f", change_type="delete", before=b"a\n")
    assert unified_diff(deleted) == "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a"


def test_missing_final_newline_is_a_difference() -> None:
    assert unified_diff(modified("a\n", "a")).splitlines()[2:] == [
        "@@ -1,1 +1,1 @@",
        "-a",
        "+a",
        "\\ No newline at end of file",
    ]


def test_event_holds_the_hashes_of_the_bytes() -> None:
    event = diff_preview(FileChange(path="d/f", change_type="create", after=b"a\r\n"), call_id="c7")
    assert (event.call_id, event.file_path, event.change_type) == ("c7", "d/f", "create")
    assert (event.original_hash, event.new_hash) == ("", hashlib.sha256(b"a\r\n").hexdigest())
    assert hash_bytes(None) == ""


@pytest.mark.parametrize(
    "change",
    [
        modified("a\n", "a\n"),
        modified("a\n", "a\r\n"),
        modified("a\0\1\2\0", "b\0\1\2\0"),
        FileChange(path="f", change_type="create", after=b""),
        FileChange(path="f", change_type="delete"),
    ],
)
def test_no_line_differs_or_none_can_be_shown(change: FileChange) -> None:
    assert unified_diff(change) == ""
    assert diff_preview(change, call_id="c").diff_lines == []


def test_many_lines_are_cut_and_said() -> None:
    change = modified("", "".join(f"{number}\n" for number in range(1000)))
    event = diff_preview(change, call_id="c")
    assert len(event.diff_lines) == 400
    assert event.diff_lines[-1].content.startswith("[cut: 399 of 1000 diff lines shown; read_file")
    text = unified_diff(change, max_lines=10).splitlines()
    assert len(text) == 11
    assert text[-1].startswith("[cut: 10 of 1003 diff lines shown; ")


def test_long_line_is_cut_and_said() -> None:
    (line,) = diff_preview(modified("", "x" * 5000), call_id="c").diff_lines
    assert line.content.startswith("x" * 2000 + " [cut: 2000 of 5000 characters")


def test_small_change_of_a_huge_file_is_quick() -> None:
    before = "same line\n" * 200_000
    began = time.perf_counter()
    assert len(lines_of(modified(before, before + "new\n"))) == 4
    assert time.perf_counter() - began < 20  # difflib on the whole needs minutes


def test_huge_change_is_shown_as_replaced_without_looking_for_what_stayed() -> None:
    before, after = ("".join(f"{word} {n}\n" for n in range(2_500)) for word in ("old", "new"))
    old, new = (f"top\n{text}stayed\n{text}end\n" for text in (before, after))
    text = unified_diff(modified(old, new), max_lines=100_000)
    assert [line for line in text.splitlines() if line.startswith("@@")] == ["@@ -1,5003 +1,5003 @@"]
    assert "-stayed" in text
    assert "+stayed" in text


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30).map("\n".join)


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch(1), the judge of our diffs")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(before=LINES, after=LINES)
@example(before="a\na\na\na\nb\nb\na\na\na", after="a\na\na\nb\nb\na\na\nb\na\na\na")
def test_patch_makes_the_one_from_the_other(tmp_path: Path, before: str, after: str) -> None:
    diff = unified_diff(modified(before, after))
    if not diff:
        assert before == after
        return
    (tmp_path / "f").write_bytes(before.encode())
    command = ["patch", "-p1", "--quiet", "--no-backup-if-mismatch", "f"]
    subprocess.run(
        command, cwd=tmp_path, input=f"{diff}\n".encode(), check=True, timeout=10, capture_output=True
    )
    made = tmp_path / "f"
    assert (made.read_bytes() if made.exists() else b"") == after.encode()
