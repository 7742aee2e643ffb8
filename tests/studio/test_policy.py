"""`lockstitch policy`: which rules are in force, and what would happen."""

import json
from pathlib import Path

import pytest

from lockstitch.studio.cli import main

RULES = """[[rule]]
decision = "deny"
command = "git push"
reason = "a person \\u001b publishes"
"""


@pytest.fixture
def ruled(home: Path, tmp_path: Path) -> Path:
    (home / "policy.toml").write_text(RULES)
    (tmp_path / ".lockstitch").mkdir()
    text = '[[rule]]\ndecision = "allow"\ntool = "*"\n[[rule]]\ndecision = "ask"\npath = "dist"\n'
    (tmp_path / ".lockstitch" / "policy.toml").write_text(text)
    return tmp_path


def test_rules_are_listed_with_their_source(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "--workspace", str(ruled)]) == 0
    shown = capsys.readouterr()
    assert "deny  command 'git push'" in shown.out
    assert "[policy.toml in the home folder]" in shown.out
    assert "ask   path 'dist'  [.lockstitch/policy.toml of the project]" in shown.out
    assert "1 allow rules of .lockstitch/policy.toml of the project are ignored" in shown.err
    assert "\x1b" not in shown.out


def test_rules_as_json(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "--json", "--workspace", str(ruled)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["decision"], line["source"].split()[0]) for line in lines] == [
        ("deny", "policy.toml"),
        ("ask", ".lockstitch/policy.toml"),
    ]


@pytest.mark.parametrize(
    ("args", "code", "verdict"),
    [
        (["git push"], 8, "refuse"),
        (["ls | git push", "--mode", "auto"], 8, "refuse"),
        (["make"], 7, "ask"),
        (["--tool", "write_file", "--path", "src/a"], 0, "run"),
        (["--tool", "write_file", "--path", "dist/a"], 7, "ask"),
        (["--tool", "delete_file", "--path", "a", "--mode", "plan"], 8, "refuse"),
    ],
)
def test_what_would_happen_is_told_and_is_the_exit_code(
    ruled: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, verdict: str
) -> None:
    assert main(["policy", *args, "--workspace", str(ruled)]) == code
    assert capsys.readouterr().out.startswith(f"{verdict} in mode ")


def test_a_tool_alone_is_judged(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "--tool", "delete_file", "--workspace", str(ruled)]) == 7
    assert capsys.readouterr().out.startswith("ask in mode ask: it deletes")


@pytest.mark.parametrize(
    "args",
    [["--path", "dist/a"], ["ls", "--tool", "write_file", "--path", "a"], [" "], ["--tool", "write_fil"]],
)
def test_what_names_no_call_is_wrong_usage(
    ruled: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert main(["policy", *args, "--workspace", str(ruled)]) == 2
    assert capsys.readouterr().out == ""


def test_a_file_that_does_not_fit_is_wrong_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "policy.toml").write_text('[[rule]]\ndecision = "perhaps"\n')
    assert main(["policy"]) == 2
    assert "policy.toml in the home folder: line 1, rule 1" in capsys.readouterr().err


def test_without_rules_it_says_where_to_write_them(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "--workspace", str(tmp_path)]) == 0
    assert str(home / "policy.toml") in capsys.readouterr().out
