from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lockstitch = Callable[..., Any]


@pytest.fixture(autouse=True)
def poem(workspace: Path) -> Path:
    path = workspace / "poem.txt"
    path.write_text("one\ntwo\x1b[2J\nthree\n")
    return path


def test_tools_are_listed_with_their_effect(lockstitch: Lockstitch):
    out = lockstitch("tool").out
    assert "delete_file         delete" in out
    assert max(map(len, out.splitlines())) <= 80


def test_schemas_are_listed_as_json(lockstitch: Lockstitch):
    tools = {tool["name"]: tool for tool in lockstitch("tool", "--json").events}
    assert tools["read_file"]["effect"] == "read"
    assert "path" in tools["read_file"]["schema"]["parameters"]["properties"]


def test_a_tools_help_shows_its_arguments(lockstitch: Lockstitch):
    done = lockstitch("tool", "read_file", "--help")
    assert done.code == 0
    assert "lockstitch tool read_file" in done.out
    assert "--offset INTEGER" in done.out


@pytest.mark.parametrize("words", [["--path", "poem.txt", "--limit", "1"], ["--path=poem.txt", "--limit=1"]])
def test_a_call_prints_its_result(lockstitch: Lockstitch, words: list[str]):
    done = lockstitch("tool", "read_file", *words)
    assert done.code == 0
    assert "one" in done.out
    assert "three" not in done.out


def test_a_result_cannot_command_the_terminal(lockstitch: Lockstitch):
    out = lockstitch("tool", "read_file", "--path", "poem.txt").out
    assert r"two\x1b[2J" in out


def test_a_result_as_json_is_exact(lockstitch: Lockstitch):
    [result] = lockstitch("tool", "read_file", "--path", "poem.txt", "--json").events
    assert result["success"]
    assert "two\x1b[2J" in result["output"]
    assert (
        lockstitch("tool", "--json", "read_file", "--path", "poem.txt").events[0]["output"]
        == result["output"]
    )


def test_the_workspace_may_stand_on_either_side_of_the_name(lockstitch: Lockstitch, tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.txt").write_text("found")
    place = ["--workspace", str(tmp_path / "there")]
    assert "found" in lockstitch("tool", "read_file", "--path", "x.txt", *place).out
    assert "found" in lockstitch("tool", *place, "read_file", "--path", "x.txt").out


def test_a_failure_is_on_stderr_with_exit_code_1(lockstitch: Lockstitch):
    done = lockstitch("tool", "read_file", "--path", "../outside")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: ")


@pytest.mark.parametrize(
    "words",
    [["read_fiel"], ["read_file"], ["read_file", "--nonsense", "x"], ["create_tasks", "--tasks", "{"]],
)
def test_a_call_that_cannot_be_made_is_wrong_usage(lockstitch: Lockstitch, words: list[str]):
    done = lockstitch("tool", *words)
    assert (done.code, done.out) == (2, "")


def test_lists_are_json_and_a_list_of_its_own_is_said_to_be_lost(lockstitch: Lockstitch):
    done = lockstitch("tool", "create_tasks", "--tasks", '["Find it", "Fix it"]')
    assert done.code == 0
    assert "[ ] 2. Fix it" in done.out
    assert "is not kept" in done.err


@pytest.mark.parametrize(
    ("words", "found"), [(["--recursive"], True), (["--recursive=false"], False), ([], False)]
)
def test_a_boolean_alone_means_yes(lockstitch: Lockstitch, workspace: Path, words: list[str], found: bool):
    (workspace / "deep").mkdir()
    (workspace / "deep" / "leaf.txt").write_text("")
    done = lockstitch("tool", "list_directory", "--path", ".", *words)
    assert ("deep/leaf.txt" in done.out) is found


def test_no_policy_stands_between_a_person_and_their_files(lockstitch: Lockstitch, poem: Path):
    assert lockstitch("tool", "delete_file", "--path", "poem.txt").code == 0
    assert not poem.exists()


def test_nobody_at_a_pipe_can_be_asked(lockstitch: Lockstitch):
    done = lockstitch("tool", "request_input", "--question", "Which?")
    assert done.code == 1
    assert "nobody is here" in done.err


def test_a_person_at_a_terminal_is_asked(terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    person = terminal("tool", "request_input", "--question", "Which title?")
    person.expect("Which title?")
    person.expect("your answer: ")
    person.type("The Sea")
    person.expect("The Sea")
    assert person.code() == 0
