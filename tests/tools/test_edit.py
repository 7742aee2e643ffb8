"""edit_file as a model calls it: what it changes, what it refuses, what it says."""

import codecs

import pytest
from pydantic import ValidationError
from tests.desk import Desk

from lockstitch.state.errors import ToolExecutionError, ToolValidationError
from lockstitch.tools.edit import edit_file


def test_edit_replaces_one_place_and_shows_it(desk: Desk) -> None:
    path = desk.put("f.py", "retries = 1\nname = 'ü'\n")
    result = desk.use(edit_file, path="f.py", old_text="retries = 1", new_text="retries = 3")
    assert path.read_text() == "retries = 3\nname = 'ü'\n"
    assert result.output.splitlines() == [
        "Changed f.py: 2 lines, 24 bytes.",
        "--- a/f.py",
        "+++ b/f.py",
        "@@ -1,2 +1,2 @@",
        "-retries = 1",
        "+retries = 3",
        " name = 'ü'",
    ]
    assert desk.preview.change_type == "modify"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc", "a\nb\n", "x\ny\nz\n", b"x\r\ny\r\nz\r\nc"),
        (b"a\nb\r\nc\r\n", "a\nb", "x", b"x\r\nc\r\n"),
        (b"a\nb\n", "b\r\n", "c\r\n", b"a\nc\n"),
        (b"a\nb", "b", "c\n", b"a\nc\n"),
        (b"only", "only", "one\r\ntwo", b"one\r\ntwo"),
        (codecs.BOM_UTF16_BE + b"\0a\0b", "b", "ü", codecs.BOM_UTF16_BE + b"\0a\0\xfc"),
        (b"f\xfcr", "r", "ß", b"f\xfc\xdf"),
        (b"a b a", " b", "", b"a a"),
    ],
)
def test_edit_leaves_all_else_byte_for_byte(
    desk: Desk, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = desk.put("f", before)
    desk.use(edit_file, path="f", old_text=old, new_text=new)
    assert path.read_bytes() == after


def test_edit_of_several_places_names_them_or_replaces_all(desk: Desk) -> None:
    path = desk.put("f", "a\nb\na\na\n")
    with pytest.raises(ToolExecutionError, match=r"3 times, on lines 1, 3, 4\. .*replace_all"):
        desk.use(edit_file, path="f", old_text="a", new_text="x")
    assert path.read_text() == "a\nb\na\na\n"
    desk.use(edit_file, path="f", old_text="a", new_text="x", replace_all=True)
    assert path.read_text() == "x\nb\nx\nx\n"


def test_edit_that_misses_shows_the_nearest_lines(desk: Desk) -> None:
    desk.put("f", "\n".join(f"value_{n} = {n}" for n in range(50)))
    with pytest.raises(ToolExecutionError, match=r"not in the file[\s\S]*\n {4}18\tvalue_17 = 17"):
        desk.use(edit_file, path="f", old_text="valeu_17 = 17", new_text="x")


def test_edit_refuses_what_would_change_nothing_or_lose_a_character(desk: Desk) -> None:
    path = desk.put("f", b"f\xfcr")
    with pytest.raises(ToolValidationError, match="the same"):
        desk.use(edit_file, path="f", old_text="a", new_text="a")
    with pytest.raises(ToolExecutionError, match="latin-1, which has no"):
        desk.use(edit_file, path="f", old_text="r", new_text="€")
    with pytest.raises(ValidationError):
        desk.use(edit_file, path="f", old_text="", new_text="a")
    assert path.read_bytes() == b"f\xfcr"


def test_edit_of_a_missing_file_names_what_comes_near(desk: Desk) -> None:
    desk.put("src/main.py", "")
    with pytest.raises(ToolExecutionError, match=r"Did you mean src/main\.py"):
        desk.use(edit_file, path="src/mian.py", old_text="a", new_text="b")


def test_loose_match_is_said_and_fits_the_file(desk: Desk) -> None:
    path = desk.put("f.py", "def f():\r\n\tx = 1\r\n\treturn x\r\n")
    result = desk.use(edit_file, path="f.py", old_text="x = 1\nreturn x", new_text="x = 2\nreturn x")
    assert path.read_bytes() == b"def f():\r\n\tx = 2\r\n\treturn x\r\n"
    assert "bytes. Matched although the indentation differs by 1 tab.\n" in result.output


def test_loose_match_of_several_places_is_refused_unless_all_are_meant(desk: Desk) -> None:
    path = desk.put("f", "  a\n  b\n--\n    a\n    b\n")
    with pytest.raises(
        ToolExecutionError, match=r"2 times, when read without regard to indentation, on lines 1, 4"
    ):
        desk.use(edit_file, path="f", old_text="a\nb\n", new_text="a\nc\n")
    assert path.read_text() == "  a\n  b\n--\n    a\n    b\n"
    desk.use(edit_file, path="f", old_text="a\nb\n", new_text="a\nc\n", replace_all=True)
    assert path.read_text() == "  a\n  c\n--\n    a\n    c\n"


def test_exact_place_wins_over_loose_ones(desk: Desk) -> None:
    path = desk.put("f", "  a = 1\n  b = 2\na = 1\nb = 2\n")
    desk.use(edit_file, path="f", old_text="\na = 1\nb = 2\n", new_text="\na = 1\nb = 3\n")
    assert path.read_text() == "  a = 1\n  b = 2\na = 1\nb = 3\n"
