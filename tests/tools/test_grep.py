"""Searching: which lines are found, in which files, in which form, and that it always comes to an end."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import (
    PathEscapeError,
    ResourceLimitError,
    ToolExecutionError,
    ToolValidationError,
)
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools import grep as grep_module
from lockstitch.tools.commands.landlock import has_landlock
from lockstitch.tools.context import ToolContext
from lockstitch.tools.found_lines import BUFFER_BYTES, LINE_CHARS, FoundLines
from lockstitch.tools.grep import (
    FIXED_OPTIONS,
    TIMEOUT_S,
    check_search,
    expand_braces,
    grep_files,
)
from lockstitch.tools.result import ToolResult
from lockstitch.tools.ripgrep import find_ripgrep
from lockstitch.tools.workspace import Workspace

FILES = {
    ".gitignore": "build/\n*.log\n!keep.log\n",
    ".hidden": "needle\n",
    ".git/config": "needle\n",
    "app.py": "import os\n\ndef needle():\n    return 1\n",
    "build/out.py": "needle\n",
    "keep.log": "needle\n",
    "run.log": "needle\n",
    "src/deep/größe.ts": "a\nb\nnadel ist needle 🧵\nc\nd\n",
    "src/lib.py": "NEEDLE\na.b(c)\naxb(c)\n",
    "src/sub/lib.tsx": "needle\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("needle\n")
    (root / "out").symlink_to("../outside")
    (root / "out.txt").symlink_to("../outside/file")
    return root


@pytest.fixture
def context(root: Path, tmp_path: Path) -> Iterator[ToolContext]:
    with Workspace(root) as workspace:
        yield context_of(workspace, tmp_path)


def context_of(workspace: Workspace, tmp_path: Path) -> ToolContext:
    settings = load_settings(home=tmp_path / "home", output_chars=2000)
    return ToolContext(workspace=workspace, settings=settings, spill=SpillStore(tmp_path / "spill", "t"))


async def grep(context: ToolContext, pattern: str, **given: Any) -> ToolResult:
    result = await grep_files.ainvoke({"pattern": pattern, "call": context, **given})
    assert isinstance(result, ToolResult)
    assert result.success
    return result


async def paths(context: ToolContext, pattern: str = "needle", **given: Any) -> list[str]:
    return [line.split(":")[0] for line in (await grep(context, pattern, **given)).output.splitlines()]


async def test_matches_come_by_path_with_line_and_text(context: ToolContext) -> None:
    result = await grep(context, "needle")
    assert result.output.splitlines() == [
        ".hidden:1: needle",
        "app.py:3: def needle():",
        "keep.log:1: needle",
        "src/deep/größe.ts:3: nadel ist needle 🧵",
        "src/sub/lib.tsx:1: needle",
    ]
    assert result.data == {"match_count": 5, "file_count": 5, "cut": False}


async def test_paths_of_a_subfolder_are_relative_to_the_workspace(context: ToolContext) -> None:
    expected = ["src/deep/größe.ts", "src/sub/lib.tsx"]
    assert await paths(context, path="src") == expected
    assert await paths(context, path=str(context.workspace.root / "src")) == expected
    assert await paths(context, path="src/sub/../deep/größe.ts") == expected[:1]


async def test_one_file_is_searched_alone_even_if_ignored(context: ToolContext) -> None:
    assert await paths(context, path="run.log", file_pattern="*.py") == ["run.log"]


async def test_ignored_files_and_the_git_folder_are_left_out_whatever_the_glob(context: ToolContext) -> None:
    for glob in ("*", "**", "**/*", "*.py", "*.{py,log}", "**/*.log", "build/*.py", ".git/*"):
        found = await paths(context, file_pattern=glob)
        assert not {"build/out.py", "run.log", ".git/config"} & set(found), glob


async def test_ignore_file_counts_without_a_git_repository(context: ToolContext) -> None:
    shutil.rmtree(context.workspace.root / ".git")
    assert not {"build/out.py", "run.log"} & set(await paths(context))


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["app.py"]),
        ("*.{ts,tsx}", ["src/deep/größe.ts", "src/sub/lib.tsx"]),
        ("src/**/*.{ts,tsx}", ["src/deep/größe.ts", "src/sub/lib.tsx"]),
        ("src/*.tsx", ["No line matches in the workspace."]),
        ("./src/sub/", ["src/sub/lib.tsx"]),
        ("[ak]*", ["app.py", "keep.log"]),
        ("a:b", ["No line matches in the workspace."]),
        ("größe.*", ["src/deep/größe.ts"]),
    ],
)
async def test_glob_chooses_files(glob: str, expected: list[str], context: ToolContext) -> None:
    assert await paths(context, file_pattern=glob) == expected


async def test_case_can_be_ignored(context: ToolContext) -> None:
    assert "src/lib.py" in await paths(context, case_sensitive=False)
    assert "src/lib.py" not in await paths(context)


async def test_literal_takes_every_character_as_itself(context: ToolContext) -> None:
    assert (await grep(context, "a.b(c)", literal=True)).output == "src/lib.py:2: a.b(c)"
    assert (await grep(context, r"a.b\(c\)")).data["match_count"] == 2


async def test_pattern_that_looks_like_an_option_is_a_pattern(context: ToolContext) -> None:
    (context.workspace.root / "doc.md").write_text("use --files or -e\n")
    assert (await grep(context, "--files")).output == "doc.md:1: use --files or -e"
    assert (await grep(context, "-e", literal=True)).data["match_count"] == 1


async def test_context_lines_are_marked_and_groups_are_parted(context: ToolContext) -> None:
    (context.workspace.root / "list").write_text("".join(f"{n}\n" for n in range(1, 21)))
    result = await grep(context, "^(3|4|12)$", path="list", context_lines=1)
    assert result.output.splitlines() == [
        *("list-2- 2", "list:3: 3", "list:4: 4", "list-5- 5", "--"),
        *("list-11- 11", "list:12: 12", "list-13- 13"),
    ]
    assert result.data["match_count"] == 3


async def test_no_match_is_a_sentence(context: ToolContext) -> None:
    result = await grep(context, "nowhere", path="src")
    assert result.output == "No line matches in src."
    assert result.data == {"match_count": 0, "file_count": 0, "cut": False}


async def test_what_is_cut_is_counted(context: ToolContext) -> None:
    (context.workspace.root / "many").write_text("needle\n" * 50)
    result = await grep(context, "needle", max_results=3, context_lines=1)
    *lines, note = result.output.splitlines()
    assert sum(":" in line for line in lines) == 3
    assert note.startswith("[cut: 3 of 55 matching lines shown; ")
    assert result.data == {"match_count": 55, "file_count": 6, "cut": True}


async def test_context_of_a_match_left_out_is_left_out(context: ToolContext) -> None:
    (context.workspace.root / "list").write_text("x\na\nb\nc\nd\nx\n")
    result = await grep(context, "x", path="list", context_lines=2, max_results=1)
    assert result.output.splitlines()[:-1] == ["list:1: x", "list-2- a", "list-3- b"]


async def test_huge_result_keeps_both_ends_and_the_rest_is_spilled(context: ToolContext) -> None:
    (context.workspace.root / "many").write_text("".join(f"needle {n}\n" for n in range(500)))
    result = await grep(context, "needle", path="many", max_results=1000)
    assert len(result.output) <= context.settings.output_chars
    assert result.data["cut"]
    spill_id = result.output.partition("spill:")[2].partition('"')[0]
    assert len(context.spill.read(spill_id).splitlines()) == 500


async def test_long_line_is_cut(context: ToolContext) -> None:
    (context.workspace.root / "min.js").write_text("ü" * 100_000 + "needle\n" + "é" * LINE_CHARS + "\n")
    long, whole, note = (await grep(context, "ü|é", path="min.js")).output.splitlines()
    assert long == "min.js:1: " + "ü" * LINE_CHARS + " [...]"
    assert whole == "min.js:2: " + "é" * LINE_CHARS
    assert note.startswith("[cut: 1 of 2 whole lines shown; read_file with")


async def test_bytes_that_are_no_text_and_odd_names_are_shown(context: ToolContext) -> None:
    (context.workspace.root / "latin").write_bytes(b"needle \xff\r\n")
    (context.workspace.root / "esc\x1b[31m").write_text("needle\n")
    output = (await grep(context, "needle")).output
    assert "latin:1: needle \ufffd\n" in output
    assert "esc\\x1b[31m:1: needle\n" in output


async def test_binary_file_is_named_and_not_shown(context: ToolContext) -> None:
    (context.workspace.root / "data.bin").write_bytes(b"needle\0" * 10)
    result = await grep(context, "needle", path="data.bin")
    assert "binary files that match, not shown: 1" in result.output
    assert "data.bin" not in await paths(context)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "unclosed group"),
        ("[z-a]", "invalid character class range"),
        (r"(?<=a)b", "look-around"),
        (r"(a)\1", "backreferences"),
        (r"a\nb", "not allowed in a regex"),
        ("((a{500}){500}){500}", "size limit"),
    ],
)
async def test_pattern_that_cannot_be_is_explained_in_one_line(
    pattern: str, reason: str, context: ToolContext
) -> None:
    with pytest.raises(ToolValidationError, match=reason) as caught:
        await grep(context, pattern)
    assert "\n" not in caught.value.message


async def test_glob_that_cannot_be_is_explained(context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="unclosed character class"):
        await grep(context, "x", file_pattern="[a")
    with pytest.raises(ToolValidationError, match="fewer braces"):
        await grep(context, "x", file_pattern="{a,b}" * 20)


async def test_pattern_that_ruins_a_backtracking_engine_answers(context: ToolContext) -> None:
    (context.workspace.root / "bad").write_text("a" * 50_000 + "b\n")
    began = time.monotonic()
    await grep(context, "^(a+)+$", path="bad")
    await grep(context, "(x+x+)+y|(a|a)*c", path="bad")
    assert time.monotonic() - began < 20


async def test_links_out_of_the_workspace_are_not_followed(context: ToolContext) -> None:
    assert not [path for path in await paths(context) if path.startswith("out")]
    with pytest.raises(PathEscapeError):
        await grep(context, "needle", path="out")
    for path in ("out.txt", "../outside", "/etc"):
        with pytest.raises(PathEscapeError):
            await grep(context, "needle", path=path)


async def test_missing_path_and_fifo_are_errors_for_the_model(context: ToolContext) -> None:
    os.mkfifo(context.workspace.root / "fifo")
    with pytest.raises(ToolExecutionError, match="there is no src/libb"):
        await grep(context, "x", path="src/libb.py")
    with pytest.raises(ToolExecutionError):
        await grep(context, "x", path="fifo")
    await grep(context, "needle")  # a FIFO on the way does not hold it


async def test_what_a_rule_denies_is_not_found_from_a_folder_above(context: ToolContext) -> None:
    denied = replace(context, is_denied=lambda path: path.startswith("src/sub") or path == ".hidden")
    assert {"src/sub/lib.tsx", ".hidden"} <= set(await paths(context))
    assert set(await paths(context)) - set(await paths(denied)) == {"src/sub/lib.tsx", ".hidden"}
    assert "src/sub/lib.tsx" not in await paths(denied, path="src")
    assert (await grep(denied, "needle", file_pattern="src/**/*.tsx")).output.startswith("No line matches")


async def test_hidden_folders_of_ours_are_not_searched(root: Path, tmp_path: Path) -> None:
    home = root / "src" / "[home] {a,b}!"
    home.mkdir()
    (home / "threads").write_text("needle\n")
    (root / "near").symlink_to("src")
    with Workspace(root, hidden=[home]) as workspace:
        context = context_of(workspace, tmp_path)
        for path in (".", "src", "near"):
            assert not [found for found in await paths(context, path=path) if "threads" in found], path


async def test_ignore_files_above_a_subfolder_count(context: ToolContext) -> None:
    (context.workspace.root / "src" / "trace.log").write_text("needle\n")
    assert "src/trace.log" not in await paths(context, path="src")


async def test_ignore_file_above_the_workspace_counts(context: ToolContext) -> None:
    (context.workspace.root.parent / ".gitignore").write_text("app.*\n")
    assert "app.py" not in await paths(context)


@pytest.mark.skipif(
    not Path("/proc/self/wchan").exists(), reason="needs a system that says what a program waits for"
)
async def test_ignore_file_that_is_a_pipe_is_told_at_once(context: ToolContext) -> None:
    os.mkfifo(context.workspace.root / "src" / ".gitignore")
    began = time.monotonic()
    with pytest.raises(ToolExecutionError, match=r"a pipe \(FIFO\).*such as .gitignore. Delete it"):
        await paths(context)
    assert time.monotonic() - began < TIMEOUT_S / 2


@pytest.mark.skipif(not has_landlock(), reason="needs a Linux with Landlock switched on")
async def test_ripgrep_itself_is_held_inside(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_module, "FIXED_OPTIONS", (*FIXED_OPTIONS, "--follow"))  # as after a lost race
    found = await paths(context)
    assert "app.py" in found
    assert not [path for path in found if path.startswith("out")]


def test_own_ripgrep_comes_first_and_none_is_taken_from_the_workspace(tmp_path: Path) -> None:
    root, system, own = tmp_path / "ws", tmp_path / "system", tmp_path / "own"
    for folder in (root, system, own):
        folder.mkdir()
        (folder / "rg").touch(mode=0o755)
    nowhere = tmp_path / "python"
    assert find_ripgrep(root, beside=own / "python", path=str(system)) == str(own / "rg")
    assert find_ripgrep(root, beside=nowhere, path=str(system)) == str(system / "rg")
    for path in (str(root), str(tmp_path / "empty")):
        with pytest.raises(ToolExecutionError, match="pip install ripgrep"):
            find_ripgrep(root, beside=nowhere, path=path)


def test_search_that_broke_down_is_told_from_an_answer() -> None:
    found = FoundLines(max_matches=1, context_lines=0)
    for exit_code in (0, 1, 2):
        check_search(exit_code, found)
    with pytest.raises(ToolExecutionError, match="139"):
        check_search(139, found)
    with pytest.raises(ResourceLimitError, match="20 s"):
        check_search(None, found)
    found.feed(b"./a\x001:x\n")
    check_search(None, found)


@pytest.mark.parametrize("max_matches", [1, 2, 5])
def test_output_is_read_in_any_pieces(max_matches: int) -> None:
    text = (
        b"./a\x001:x:y-2-\n2:z: binary file matches\n\n"
        b"./b: binary file matches (found)\n\n./c\x0010:\n./c: WARNING: stopped searching binary file after\n"
        b"\n./d\x007:\n"
    )
    whole = ["d/a:1: x:y-2-", "d/a:2: z: binary file matches", "d/c:10: ", "d/d:7: "]
    for size in range(1, len(text)):
        found = FoundLines(max_matches=max_matches, context_lines=0)
        for at in range(0, len(text), size):
            found.feed(text[at : at + size])
        assert found.render("d/").splitlines() == whole[:max_matches]
        assert (found.match_count, found.file_count, found.binary_count) == (4, 3, 2), size


def test_files_that_are_not_wanted_are_not_counted() -> None:
    text = b"./a\x001:x\n\n./no\x001:x\n2:x\n\n./b\x001:x\n2:x\n"
    for size in range(1, len(text)):
        found = FoundLines(max_matches=1, context_lines=0, is_wanted=lambda path: path != "no")
        for at in range(0, len(text), size):
            found.feed(text[at : at + size])
        assert (found.match_count, found.file_count, len(found.lines)) == (3, 2, 1)


def test_context_is_no_match() -> None:
    found = FoundLines(max_matches=5, context_lines=1)
    found.feed(b"./a\x001:x\n2-z\n\n./c\x009-\n10:\n")
    assert found.render("d/") == "d/a:1: x\nd/a-2- z\n--\nd/c-9- \nd/c:10: "
    assert (found.match_count, found.file_count) == (2, 2)


def test_line_without_end_is_held_to_a_size() -> None:
    found = FoundLines(max_matches=5, context_lines=0)
    for _ in range(4):
        found.feed(b"x" * BUFFER_BYTES)
    found.feed(b"\n" + b"./a\x001:x\n")
    assert len(found.messages[0]) <= 2 * BUFFER_BYTES
    assert found.match_count == 1


def test_braces_stand_for_globs() -> None:
    assert expand_braces("*.py") == ["*.py"]
    assert sorted(expand_braces("{a,{b,c}}/*.{x,y}")) == [
        "a/*.x",
        "a/*.y",
        "b/*.x",
        "b/*.y",
        "c/*.x",
        "c/*.y",
    ]


def test_model_sees_the_arguments_and_not_the_context() -> None:
    assert grep_files.extras == {"effect": "read"}
    schema: Any = grep_files.tool_call_schema
    names = "pattern path file_pattern case_sensitive literal context_lines max_results"
    assert set(schema.model_json_schema()["properties"]) == set(names.split())
    assert "Example:" in grep_files.description
