import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstitch.studio.commands import demo

Lockstitch = Callable[..., Any]


def test_the_demo_fixes_the_bug_and_its_last_line_works(lockstitch: Lockstitch, tmp_path: Path):
    done = lockstitch("demo", "--keep", str(tmp_path / "kept"))
    assert (done.code, done.err) == (0, "")
    assert str(tmp_path / "kept") in done.out
    before, after = done.out.index("FAILED (failures=1)\nFAIL\n"), done.out.index("\nOK\nPASS\n")
    assert before < done.out.index("what changed") < after
    assert "reverse=True" in (tmp_path / "kept" / "fairsplit" / "shares.py").read_text()
    assert "no AI was at work" in done.out
    program, *words = shlex.split(done.out.splitlines()[-1])
    assert (program, words[0], words[-1]) == ("lockstitch", "run", "And now?")
    assert lockstitch(*words).code == 0


def test_the_demo_fails_when_the_tests_do_not_change(
    lockstitch: Lockstitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[str], str]
):
    monkeypatch.setattr(demo, "MODEL", scenario("- say: I did nothing."))
    assert lockstitch("demo", "--keep", str(tmp_path / "kept")).code == 1


def test_a_folder_that_is_there_already_is_refused(lockstitch: Lockstitch, tmp_path: Path):
    done = lockstitch("demo", "--keep", str(tmp_path))
    assert (done.code, done.out) == (2, "")


def test_changes_are_told_by_kind():
    before, after = {"a": b"1", "b": b"1", "c": b"1"}, {"a": b"1", "b": b"2", "d": b"1"}
    kinds = [(change.path, change.change_type) for change in demo.changes(before, after)]
    assert kinds == [("b", "modify"), ("c", "delete"), ("d", "create")]
