"""The demo shows a real bug and its real fix: one test fails before the scenario's edit and none after."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockstitch.graph.demo import PROJECT, SCENARIO, copy_project
from lockstitch.graph.models.scenario import load_scenario


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path / "project")


def edits() -> list[dict[str, Any]]:
    turns = load_scenario(SCENARIO).turns
    return [call.args for turn in turns for call in turn.calls if call.tool == "edit_file"]


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    # -S -B: nothing but the standard library, and no compiled file that outlives an edit.
    command = [sys.executable, "-S", "-B", "-m", "unittest", "-q"]
    return subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=60, check=False, env={}
    )


def test_exactly_one_test_fails_before_the_edit_and_none_after(project: Path) -> None:
    before = run_tests(project)
    assert before.returncode == 1
    assert "Ran 9 tests" in before.stderr
    assert "FAILED (failures=1)" in before.stderr
    for edit in edits():
        file = project / edit["path"]
        file.write_text(
            file.read_text(encoding="utf-8").replace(edit["old_text"], edit["new_text"]), encoding="utf-8"
        )
    after = run_tests(project)
    assert (after.returncode, "Ran 9 tests" in after.stderr) == (0, True), after.stderr


def test_every_edit_matches_exactly_one_place_and_changes_the_size() -> None:
    assert edits()
    for edit in edits():
        assert (PROJECT / edit["path"]).read_text(encoding="utf-8").count(edit["old_text"]) == 1
        # Python trusts a compiled file of the same second and size: an edit of equal length may seem undone.
        assert len(edit["old_text"]) != len(edit["new_text"])


def test_every_path_the_scenario_names_is_there(project: Path) -> None:
    calls = [call for turn in load_scenario(SCENARIO).turns for call in turn.calls]
    for path in (call.args["path"] for call in calls if "path" in call.args):
        assert (project / path).exists(), path


def test_the_last_words_say_that_no_ai_was_at_work_and_how_to_use_one() -> None:
    last = load_scenario(SCENARIO).turns[-1].say
    for word in ("scripted", "no AI", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LOCKSTITCH_MODEL"):
        assert word in last


def test_a_copy_brings_no_compiled_files_and_leaves_what_exists_alone(project: Path) -> None:
    assert not list(project.rglob("__pycache__"))
    with pytest.raises(FileExistsError):
        copy_project(project)


def test_the_readme_example_runs(project: Path) -> None:
    code = (project / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", code],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "Cem pays Ann 3000 cents\nBob pays Ann 2250 cents\n", done.stderr
