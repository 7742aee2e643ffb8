"""bench/tasks.py: some of its tasks by every strategy, and that it sees a task that was not done."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

BENCH = Path(__file__).parents[1] / "bench"
QUICK = ("crlf_file", "todo_list", "tool_errors")  # no tests of a project to run, and most kinds of call


def run_bench(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Its exit code and its figure."""
    command = [sys.executable, str(BENCH / "tasks.py"), "--figures", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout.splitlines()[-1].removeprefix("FIGURE "))


def test_every_strategy_does_the_same_tasks() -> None:
    code, figure = run_bench("--only", *QUICK)
    assert (code, figure["holds"], figure["seen"]) == (0, True, "3 of 3 each")


def test_a_task_that_was_not_done_is_seen(tmp_path: Path) -> None:
    edit = {"tool": "edit_file", "args": {"path": "a.txt", "old_text": "one", "new_text": "two"}}
    whole = {
        "prompt": "Make it two.",
        "files": {"a.txt": "one\n"},
        "script": [{"think": "So.", "calls": [edit]}],
        "answer": "It is two.",
        "check": {"files": {"a.txt": "two\n"}},
    }
    changes: dict[str, dict[str, Any]] = {
        "done": {},
        "other-file": {"check": {"files": {"a.txt": "three\n"}}},
        "nothing-to-do": {"check": {"files": {}}},
        "passes-before": {"check": {"files": {"a.txt": "two\n"}, "python": ["-c", ""]}},
        "fails-after": {"check": {"files": {"a.txt": "two\n"}, "python": ["-c", "raise SystemExit(3)"]}},
        "other-result": {"script": [{"think": "So.", "calls": [{**edit, "gives": "nonsense"}]}]},
        "no-error": {"script": [{"think": "So.", "calls": [{**edit, "fails": True}]}]},
    }
    for name, change in changes.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**whole, **change}))
    code, figure = run_bench("--folder", str(tmp_path))
    assert (code, figure["holds"]) == (1, False)
    assert figure["seen"].startswith(
        "react 1, reason-act-observe 1, plan-and-execute 1, tool-first 1, llm-only 1;"
    )
    assert "other-file by react: a.txt is b'two" in figure["seen"]
    assert "nothing-to-do by react: the files of the check are there before the run" in figure["seen"]
    assert "passes-before by react: the check's command passes before the run" in figure["seen"]
    assert "fails-after by react: the check's command ended with 3" in figure["seen"]
    assert "other-result by react: call 1 came to" in figure["seen"]
    assert "no-error by llm-only: call 1 came to" in figure["seen"]
