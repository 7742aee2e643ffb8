"""Which folders of a command's changes are left to be made again, as git would ignore them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.state.tree_change import Change, Node
from lockstitch.tools.changes import ignored_changes
from lockstitch.tools.changes.ignored_changes import large_ignored

SMALL, LARGE = Node("file", 0o644, "d", 10), Node("file", 0o644, "d", 20 * 1024**2)


def made(path: str, node: Node = SMALL) -> Change:
    return Change(path, None, node)


def reader(**rules: str) -> ignored_changes.ReadFile:
    folders = {"" if name == "top" else f"{name}/": text for name, text in rules.items()}
    return {f"{folder}.gitignore": text.encode() for folder, text in folders.items()}.get


def test_a_large_ignored_folder_is_named_once_at_its_top() -> None:
    changes = [Change("node_modules", None, Node("folder", 0o755)), made("node_modules/a/b/big.js", LARGE)]
    assert large_ignored(changes, reader(top="node_modules/\n")) == ["node_modules"]


def test_small_ones_and_those_that_are_not_ignored_stay() -> None:
    assert large_ignored([made("build/x")], reader(top="build\n")) == []
    assert large_ignored([made("src/big.bin", LARGE)], reader(top="build\n")) == []
    assert large_ignored([made("src/big.bin", LARGE)], reader()) == []


def test_many_files_count_as_much_as_big_ones() -> None:
    changes = [made(f"dist/{number}.js") for number in range(ignored_changes.FILES_MAX + 1)]
    assert large_ignored(changes, reader(top="dist\n")) == ["dist"]


def test_the_nearest_rules_have_the_last_word() -> None:
    rules = reader(top="out/\n", web="!out/\n")
    assert large_ignored([made("web/out/x", LARGE)], rules) == []
    assert large_ignored([made("api/out/x", LARGE)], rules) == ["api/out"]


def test_a_folder_that_is_taken_back_in_is_not_ignored() -> None:
    assert large_ignored([made("out/x", LARGE)], reader(top="*\n!out/\n")) == []


NAMES = st.sampled_from(["a", "b", "out", "lib"])
FOLDERS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = ["out/", "out", "/out", "a/out/", "lib/*", "!out/", "**/b/", "*", "!a/", "# x", "", "o*"]
PATTERNS = st.lists(st.sampled_from(LINES), max_size=4)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git, the judge of what is ignored")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(folder=FOLDERS, top=PATTERNS, below=PATTERNS)
def test_as_git_itself_says(
    tmp_path_factory: pytest.TempPathFactory, folder: str, top: list[str], below: list[str]
) -> None:
    root = tmp_path_factory.mktemp("ws")
    first = folder.split("/", maxsplit=1)[0]
    (root / folder).mkdir(parents=True)
    (root / ".gitignore").write_text("\n".join(top))
    (root / first / ".gitignore").write_text("\n".join(below))
    (root / folder / "x").write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    ask = ["git", "check-ignore", "-q", "--no-index", folder]
    wanted = subprocess.run(ask, cwd=root, check=False).returncode == 0

    def read(path: str) -> bytes | None:
        place = Path(root / path)
        return place.read_bytes() if place.is_file() else None

    assert ignored_changes._Rules(read).name(folder) == wanted
