"""The file tools as a model calls them: results, refusals, limits, previews."""

import codecs
import hashlib
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool
from pydantic import ValidationError
from tests.desk import Desk

from lockstitch.state.errors import (
    PathEscapeError,
    RecoverableError,
    ResourceLimitError,
    ToolExecutionError,
    ToolValidationError,
)
from lockstitch.tools.edit import edit_file
from lockstitch.tools.files import delete_file, list_directory, move_file, read_file, write_file
from lockstitch.tools.texts.text_file import split_lines

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16")
ALL = (read_file, write_file, edit_file, list_directory, move_file, delete_file)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_model_is_told_when_to_use_the_tool_and_given_an_example(tool: BaseTool) -> None:
    assert "Example: " + tool.name + "(" in tool.description
    schema = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
    assert "call" not in schema["properties"]
    assert all("description" in argument for argument in schema["properties"].values())


def test_names_arguments_and_effects_are_the_public_ones() -> None:
    public = {tool.name: (sorted(tool.args), (tool.extras or {})["effect"]) for tool in ALL}
    assert public == {
        "read_file": (["encoding", "limit", "offset", "path"], "read"),
        "write_file": (["content", "create_dirs", "path"], "edit"),
        "edit_file": (["new_text", "old_text", "path", "replace_all"], "edit"),
        "list_directory": (["max_depth", "path", "pattern", "recursive"], "read"),
        "move_file": (["destination", "source"], "edit"),
        "delete_file": (["path"], "delete"),
    }


def test_read_numbers_lines_and_gives_the_facts(desk: Desk) -> None:
    desk.put("ü.txt", "eins\nzwei\n")
    result = desk.use(read_file, path="ü.txt")
    assert result.output == "     1\teins\n     2\tzwei"
    assert result.data == {
        "path": "ü.txt",
        "encoding": "utf-8",
        "hash": sha(b"eins\nzwei\n"),
        "first_line": 1,
        "last_line": 2,
        "lines": 2,
    }


def test_read_shows_500_lines_unless_told_otherwise(desk: Desk) -> None:
    desk.put("f", "x\n" * 1200)
    assert desk.use(read_file, path="f").output.endswith(
        "[cut: 500 of 1200 lines shown; read_file with offset=501 gives the rest]"
    )
    assert desk.use(read_file, path="f", offset=1101, limit=50_000).data["last_line"] == 1200
    assert "gives the rest" not in desk.use(read_file, path="f", limit=50_000).output


@pytest.mark.parametrize("args", [{"limit": 50_001}, {"limit": 0}, {"offset": 0}, {"path": ""}])
def test_read_arguments_have_bounds(desk: Desk, args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        desk.use(read_file, **{"path": "f", **args})


def test_read_stays_within_the_size_of_a_result(tmp_path: Path) -> None:
    desk = Desk(tmp_path, output_chars=1000)
    desk.put("f", "x" * 90 + "\n" + "y" * 90 + "\n" * 3 + "z" * 90 + "\n")
    desk.put("g", ("x" * 90 + "\n") * 100)
    assert "cut" not in desk.use(read_file, path="f").output
    output = desk.use(read_file, path="g").output
    assert len(output) < 1100
    assert "[cut: 10 of 100 lines shown; read_file with offset=11 gives the rest]" in output


def test_read_says_which_encoding_it_was(desk: Desk) -> None:
    desk.put("latin", b"f\xfcr\n")
    desk.put("marked", codecs.BOM_UTF16_LE + "für\n".encode("utf-16-le"))
    assert desk.use(read_file, path="latin").output == (
        "[read as latin-1, since it is no valid utf-8; set encoding if it looks wrong]\n     1\tfür"
    )
    assert desk.use(read_file, path="latin", encoding="ISO-8859-1").output == "     1\tfür"
    assert desk.use(read_file, path="marked").output == (
        "[read as utf-16-le, by its byte order mark]\n     1\tfür"
    )


def test_binary_is_refused_clearly(desk: Desk) -> None:
    desk.put("f", b"\x7fELF\0\0")
    with pytest.raises(ToolExecutionError, match="binary"):
        desk.use(read_file, path="f")


def test_file_over_the_limit_is_neither_read_nor_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path, file_bytes=10)
    desk.put("f", "x" * 11)
    for args in ({"path": "f", "content": "y"}, {"path": "new", "content": "ä" * 6}):
        with pytest.raises(ResourceLimitError, match="the limit is 10"):
            desk.use(write_file, **args)
    with pytest.raises(ResourceLimitError, match="11 bytes, the limit is 10"):
        desk.use(read_file, path="f")
    assert not (desk.root / "new").exists()
    assert desk.events == []


def test_spilled_text_is_read_to_its_last_character(desk: Desk) -> None:
    text = "a\n" + "b" * 4500 + "end"
    name = f"spill:{desk.context.spill.keep(text)}"
    result = desk.use(read_file, path=name, offset=2)
    assert [len(row) - 7 for row in result.output.split("\n")] == [2000, 2000, 503]
    assert result.output.endswith("end")
    with pytest.raises(ToolValidationError, match="kept no result"):
        desk.use(read_file, path="spill:0123456789abcdef")


def test_write_creates_file_and_folders_and_shows_it(desk: Desk) -> None:
    result = desk.use(write_file, path="a/b.txt", content="one\ntwo\n")
    assert (desk.root / "a" / "b.txt").read_bytes() == b"one\ntwo\n"
    assert result.output == (
        "Created a/b.txt: 2 lines, 8 bytes.\n--- /dev/null\n+++ b/a/b.txt\n@@ -0,0 +1,2 @@\n+one\n+two"
    )
    assert result.data == {
        "path": "a/b.txt",
        "change_type": "create",
        "lines": 2,
        "original_hash": "",
        "new_hash": sha(b"one\ntwo\n"),
    }
    assert (desk.preview.change_type, desk.preview.new_hash) == ("create", sha(b"one\ntwo\n"))


def test_write_without_create_dirs_makes_no_folder(desk: Desk) -> None:
    with pytest.raises(ToolExecutionError, match="there is no a"):
        desk.use(write_file, path="a/b", content="", create_dirs=False)
    assert list(desk.root.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\nb\n", "a\r\nc\r\n", b"a\nc\n"),
        (b"a\nb", "a\nc\n", b"a\nc"),
        (b"a\r\nb", "c\n\n", b"c\r\n"),
        (b"1.0", "1.1\n", b"1.1"),
        (b"", "a\n", b"a\n"),
        (codecs.BOM_UTF8 + b"a\n", "b\n", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF16_LE + b"a\0", "b", codecs.BOM_UTF16_LE + b"b\0"),
        (b"f\xfcr\n", "für uns\n", b"f\xfcr uns\n"),
        (b"\0binary", "text\n", b"text\n"),
    ],
)
def test_write_keeps_how_the_file_is_written_down(
    desk: Desk, before: bytes, content: str, after: bytes
) -> None:
    path = desk.put("f", before)
    path.chmod(0o750)
    desk.use(write_file, path="f", content=content)
    assert path.read_bytes() == after
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_write_says_when_the_encoding_could_not_be_kept(desk: Desk) -> None:
    path = desk.put("f", b"f\xfcr\n")
    assert "It was latin-1" in desk.use(write_file, path="f", content="5 €\n").output
    assert path.read_bytes() == "5 €\n".encode()


def test_write_of_half_a_character_is_refused(desk: Desk) -> None:
    with pytest.raises(ToolExecutionError, match="utf-8, which has no"):
        desk.use(write_file, path="f", content="\ud83d")
    assert list(desk.root.iterdir()) == []


def test_write_of_the_same_content_changes_nothing(desk: Desk) -> None:
    path = desk.put("f", "a\n")
    before = path.stat()
    assert "nothing was changed" in desk.use(write_file, path="f", content="a\n").output
    assert path.stat() == before
    assert desk.events == []


def test_huge_diff_is_cut_in_the_answer(desk: Desk) -> None:
    output = desk.use(write_file, path="f", content="".join(f"{n}\n" for n in range(5000))).output
    assert "[cut: 100 of 5003 diff lines shown; read_file with path='f' shows the file]" in output
    assert len(desk.preview.diff_lines) == 400


def test_list_shows_kinds_and_sizes(desk: Desk) -> None:
    desk.put("src/a.py", "12345")
    desk.put("src/sub/b\n.py", "")
    assert desk.use(list_directory).output == "folder          -  src/"
    result = desk.use(list_directory, path="src", recursive=True, pattern="*.py")
    assert result.output == "file            5  src/a.py\nfile            0  src/sub/b\\n.py"
    assert (result.data["path"], result.data["total"], result.data["entries"][0]["size"]) == ("src", 2, 5)


def test_list_shows_200_entries_and_says_how_many_there_are(desk: Desk) -> None:
    for number in range(203):
        desk.put(f"f{number:03}", "")
    result = desk.use(list_directory)
    assert "[cut: 200 of 203 entries shown;" in result.output
    assert len(result.data["entries"]) == 200


def test_list_stays_within_the_size_of_a_result(tmp_path: Path) -> None:
    desk = Desk(tmp_path, output_chars=1000)
    for number in range(30):
        desk.put(f"{number}-" + "x" * 200, "")
    output = desk.use(list_directory).output
    assert len(output) <= 1000
    assert "spill:" in output


def test_list_of_a_file_says_what_it_is(desk: Desk) -> None:
    desk.put("f", "")
    with pytest.raises(ToolExecutionError, match="is a file and no folder"):
        desk.use(list_directory, path="f")


def test_move_makes_folders_and_reports_one_change(desk: Desk) -> None:
    desk.put("a.txt", "text")
    result = desk.use(move_file, source="a.txt", destination="new/b.txt")
    assert result.output == "Moved a.txt to new/b.txt."
    assert (desk.root / "new" / "b.txt").read_text() == "text"
    assert not (desk.root / "a.txt").exists()
    assert (desk.preview.change_type, desk.preview.file_path) == ("move", "new/b.txt")
    assert desk.preview.original_hash == desk.preview.new_hash == sha(b"text")
    assert desk.preview.diff_lines == []


def test_move_overwrites_nothing(desk: Desk) -> None:
    desk.put("a", "1")
    desk.put("b", "2")
    with pytest.raises(ToolExecutionError, match="there already"):
        desk.use(move_file, source="a", destination="b")
    assert (desk.root / "b").read_text() == "2"
    assert desk.events == []


def test_delete_shows_what_is_lost(desk: Desk) -> None:
    desk.put("a", "one\n")
    result = desk.use(delete_file, path="a")
    assert result.data == {"path": "a", "original_hash": sha(b"one\n"), "new_hash": ""}
    assert list(desk.root.iterdir()) == []
    assert desk.preview.change_type == "delete"
    assert [(line.type, line.content) for line in desk.preview.diff_lines] == [("remove", "one")]


def test_delete_of_a_folder_takes_all_in_it_but_of_a_link_only_the_link(desk: Desk) -> None:
    desk.put("folder/deep/f", "")
    desk.put("kept", "")
    (desk.root / "link").symlink_to("kept")
    desk.use(delete_file, path="folder")
    desk.use(delete_file, path="link")
    assert [path.name for path in desk.root.iterdir()] == ["kept"]


def test_delete_of_nothing_names_what_comes_near(desk: Desk) -> None:
    desk.put("notes.md", "")
    with pytest.raises(ToolExecutionError, match=r"Did you mean notes\.md"):
        desk.use(delete_file, path="note.md")


OUT = ["../outside", "/etc/passwd", "link/f", "link"]


@pytest.mark.parametrize("path", OUT)
def test_no_tool_leads_out(desk: Desk, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret")
    (desk.root / "link").symlink_to(tmp_path / "outside")
    desk.put("mine", "")
    calls: list[tuple[BaseTool, dict[str, Any]]] = [
        (read_file, {"path": path}),
        (write_file, {"path": path, "content": "x"}),
        (edit_file, {"path": path, "old_text": "secret", "new_text": "x"}),
        (list_directory, {"path": path}),
        (move_file, {"source": "mine", "destination": f"{path}/new"}),
        (delete_file, {"path": f"{path}/f"}),
    ]
    for tool, args in calls:
        with pytest.raises(PathEscapeError) as caught:
            desk.use(tool, **args)
        assert str(tmp_path) not in caught.value.message
        assert "secret" not in caught.value.message
    assert (tmp_path / "outside" / "f").read_text() == "secret"
    assert desk.events == []


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/config", "a/.git/x"])
def test_git_is_left_to_git(desk: Desk, path: str) -> None:
    desk.put(path, "old")
    desk.put("mine", "")
    calls: list[tuple[BaseTool, dict[str, Any]]] = [
        (write_file, {"path": path, "content": "x"}),
        (edit_file, {"path": path, "old_text": "old", "new_text": "x"}),
        (move_file, {"source": path, "destination": "x"}),
        (move_file, {"source": "mine", "destination": f"{path}2"}),
        (delete_file, {"path": path}),
    ]
    for tool, args in calls:
        with pytest.raises(RecoverableError, match="use git by run_command"):
            desk.use(tool, **args)
    assert (desk.root / path).read_text() == "old"


PIECES = st.sampled_from(["a", "ü", "\n", "\r\n", "\r", "\n\n", "x" * 150, "\x85", "\u2028", "\t", "🧵"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1), limit=st.integers(1, 7), encoding=st.sampled_from(ENCODINGS))
def test_pages_put_together_are_the_file(desk: Desk, pieces: list[str], limit: int, encoding: str) -> None:
    text = "".join(pieces)
    desk.put("f", text.encode(encoding))
    lines, offset = list[str](), 1
    while True:
        result = desk.use(read_file, path="f", offset=offset, limit=limit)
        rows = re.split(r"^ *\d+\t", result.output, flags=re.MULTILINE)[1:]
        lines += [row.partition("\n[cut: ")[0].removesuffix("\n") for row in rows]
        offset = result.data["last_line"] + 1
        if offset > result.data["lines"]:
            break
    assert lines == split_lines(text)


def test_end_of_a_long_line_is_read_by_the_name_that_stands_there(desk: Desk) -> None:
    desk.put("f", "short\n" + "x" * 9_000 + "end\n")
    (spilled,) = re.findall(r"spill:[0-9a-f]{16}", desk.use(read_file, path="f").output)
    assert desk.use(read_file, path=spilled).output.endswith("xend")


def test_list_says_how_to_read_what_it_does_not_show(desk: Desk) -> None:
    for number in range(203):
        desk.put(f"f{number:03}", "")
    (spilled,) = re.findall(r"spill:[0-9a-f]{16}", desk.use(list_directory).output)
    assert desk.use(read_file, path=spilled).output.endswith("f202")
