"""`rewind`, `undo`, `redo`, `diff` and `fork` at the command line: shown, asked about, then made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lockstitch = Callable[..., Any]
TURNS = """
- calls: [{tool: write_file, args: {path: a.txt, content: "one\\n"}}]
- calls: [{tool: write_file, args: {path: a.txt, content: "two\\e[2J\\n"}}]
- say: Done.
- calls: [{tool: write_file, args: {path: b.txt, content: "three\\n"}}]
- say: Again.
"""


@pytest.fixture
def thread_id(lockstitch: Lockstitch, scenario: Callable[[str], str]) -> str:
    scenario(TURNS)
    thread = str(lockstitch("run", "go", "--json").events[0]["thread_id"])
    assert lockstitch("run", "--thread", thread, "on").code == 0
    return thread


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_steps_are_numbered_through_the_thread_with_their_files(
    lockstitch: Lockstitch, thread_id: str
) -> None:
    out = lockstitch("show", thread_id).out
    assert [line[:3].strip() for line in out.splitlines() if line[:3].strip().isdigit()] == list("12345")
    assert "\n     M a.txt +1 -1\n" in out
    [body] = lockstitch("show", thread_id, "--json").events
    assert [step["number"] for step in body["steps"]] == [1, 2, 3, 4, 5]
    assert body["steps"][3]["files"] == [{"path": "b.txt", "letter": "A", "added": 1, "removed": 0}]


def test_a_rewind_is_shown_and_made(lockstitch: Lockstitch, thread_id: str, workspace: Path) -> None:
    done = lockstitch("rewind", thread_id, "--to", "1", "--yes")
    assert done.code == 0
    assert done.out.startswith("rewind: step 5 -> step 1\n  M a.txt +1 -1\n  D b.txt +0 -1\n  ")
    assert f"Take it back: lockstitch undo {thread_id}\n" in done.out
    assert (names(workspace), (workspace / "a.txt").read_text()) == (["a.txt"], "one\n")
    assert "  <  rewind: step 5 -> step 1\n" in lockstitch("show", thread_id).out
    assert lockstitch("undo", thread_id, "--yes").code == 0
    assert names(workspace) == ["a.txt", "b.txt"]
    assert lockstitch("redo", thread_id, "--yes").code == 0
    assert names(workspace) == ["a.txt"]
    [row] = lockstitch("threads", "--json").events
    assert (row["steps"], row["phase"]) == (1, "cancelled")


def test_nothing_is_done_unasked(lockstitch: Lockstitch, thread_id: str, workspace: Path) -> None:
    for words in (("rewind", thread_id, "--to", "0"), ("undo", thread_id)):
        done = lockstitch(*words)
        assert (done.code, "--yes" in done.err) == (2, True)
        assert lockstitch(*words, "--dry-run").code == 0
    assert names(workspace) == ["a.txt", "b.txt"]
    assert len(lockstitch("show", thread_id, "--json").events[0]["steps"]) == 5


def test_a_dry_run_as_json_is_the_preview(lockstitch: Lockstitch, thread_id: str) -> None:
    [body] = lockstitch("rewind", thread_id, "--to", "3", "--files", "--dry-run", "--json").events
    assert (body["kind"], body["what"], body["step"], body["from_step"]) == ("rewind", "files", 3, 5)
    assert body["files"] == [{"path": "b.txt", "letter": "D", "added": 0, "removed": 1}]


def test_a_conflict_is_refused_even_with_yes(lockstitch: Lockstitch, thread_id: str, workspace: Path) -> None:
    (workspace / "a.txt").write_text("mine\n")
    done = lockstitch("rewind", thread_id, "--to", "1", "--yes")
    assert (done.code, "--keep-changed" in done.err) == (2, True)
    assert names(workspace) == ["a.txt", "b.txt"]
    done = lockstitch("rewind", thread_id, "--to", "1", "--yes", "--keep-changed")
    assert (done.code, "Left as it is: a.txt\n" in done.out) == (0, True)
    assert (names(workspace), (workspace / "a.txt").read_text()) == (["a.txt"], "mine\n")


@pytest.mark.parametrize(("typed", "left"), [("y", ["a.txt"]), ("n", ["a.txt", "b.txt"])])
def test_a_person_at_the_terminal_is_asked(
    terminal: Callable[..., Any], thread_id: str, workspace: Path, typed: str, left: list[str]
) -> None:
    person = terminal("undo", thread_id)
    person.expect("step 5 -> step 4")
    person.expect("[y/N] ")
    person.type("y")
    assert person.code() == 0
    person = terminal("undo", thread_id)
    person.expect("D b.txt")
    person.expect("[y/N] ")
    person.type(typed)
    assert person.code() == 0
    assert names(workspace) == left


def test_a_diff_has_the_bytes_for_a_pipe(lockstitch: Lockstitch, thread_id: str) -> None:
    out = lockstitch("diff", thread_id, "1", "2").out
    assert out.splitlines()[0] == "diff --git a/a.txt b/a.txt"
    assert "\n-one\n+two\x1b[2J\n" in out
    assert lockstitch("diff", thread_id, "0", "--stat").out == "A a.txt +1 -0\nA b.txt +1 -0\n"
    assert lockstitch("diff", thread_id, "5", "0", "--name-only").out == "a.txt\nb.txt\n"
    assert lockstitch("diff", thread_id).out == ""
    [body] = lockstitch("diff", thread_id, "3", "4", "--json").events
    assert (body["from_step"], body["to_step"], [each["path"] for each in body["files"]]) == (3, 4, ["b.txt"])
    assert body["files"][0]["diff"].endswith("+three\n")
    assert lockstitch("diff", thread_id, "1", "9").code == 2


def test_a_diff_at_a_terminal_is_safe(terminal: Callable[..., Any], thread_id: str) -> None:
    person = terminal("diff", thread_id, "1", "2")
    person.expect(r"+two\x1b[2J")
    assert person.code() == 0


def test_a_fork_is_told_and_goes_on(lockstitch: Lockstitch, thread_id: str, tmp_path: Path) -> None:
    done = lockstitch("fork", thread_id, "--at", "1", "--workspace", str(tmp_path / "copy"))
    assert (done.code, done.out.splitlines()[0].startswith("Forked at step 1: ")) == (0, True)
    new = done.out.splitlines()[0].split()[-1]
    assert names(tmp_path / "copy") == ["a.txt"]
    assert f"forked from step 1 of thread {thread_id}" in lockstitch("show", new).out
    assert lockstitch("run", "--thread", new, "on").code == 0
    [body] = lockstitch("fork", thread_id, "--json").events
    assert (body["step"], body["own_folder"], body["source"]) == (5, False, thread_id)


def test_an_unknown_thread_is_refused(lockstitch: Lockstitch) -> None:
    for words in (("rewind", "--to", "0"), ("undo",), ("redo",), ("diff",), ("fork",)):
        done = lockstitch(words[0], "11111111-1111-4111-8111-111111111111", *words[1:])
        assert (done.code, "there is no thread" in done.err) == (2, True)
