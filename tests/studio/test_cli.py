import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from lockstitch.state.errors import ModelError, ThreadBusyError
from lockstitch.studio.cli import COMMANDS, CommandGroup, cli, main

HEAVY = ["rich", "pydantic", "langgraph", "langchain_core", "openai", "sqlite_utils", "faiss"]
NEVER = "11111111-1111-4111-8111-111111111111"


def failing(error: BaseException) -> click.Group:
    """The real group with a command in it that raises."""

    class Group(CommandGroup):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command("fail", callback=self.fail)

        def fail(self) -> None:
            raise error

    return Group("lockstitch", params=cli.params, callback=cli.callback)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_help_and_the_table_repeats_its_first_line(
    name: str, capsys: pytest.CaptureFixture[str]
):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert (command.help or "").partition("\n")[0] == COMMANDS[name]
    assert command.name == name
    assert main([name, "--help"]) == 0
    assert "Usage: lockstitch" in capsys.readouterr().out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out and about in out for name, about in COMMANDS.items())
    assert max(map(len, out.splitlines())) <= 80


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from lockstitch.studio.cli import main; main(['--help']); "
        f"sys.exit(' '.join(m for m in {HEAVY} if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_listing_threads_does_not_load_the_graph(home: Path):
    program = (
        "import sys; from lockstitch.studio.cli import main; main(['threads']); "
        "sys.exit(' '.join(m for m in ('langgraph', 'langchain_core') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No threads yet" in done.stdout


def test_version_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("lockstitch")


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "--nonsense"],
        ["nonsense"],
        ["run"],
        ["run", ""],
        ["run", "x", "--max-steps", "0"],
        ["run", "x", "--mode", "wild"],
        ["run", "--approve"],
        ["run", "--thread", NEVER, "--approve", "--answer", "x"],
        ["run", "x", "--thread", NEVER, "--approve"],
        ["run", "x", "--thread", NEVER, "--continue"],
        ["chat", "--thread", NEVER, "--continue"],
        ["show"],
        ["threads", "--limit", "0"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_a_line_of_help(
    argv: list[str], lockstitch: Callable[..., Any], home: Path
):
    done = lockstitch(*argv)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lockstitch: ")
    assert done.err.count("\n") == 1
    assert "--help` shows how." in done.err
    assert not list(home.iterdir())


def test_an_error_of_ours_is_one_line_and_its_exit_code(capsys: pytest.CaptureFixture[str]):
    for error, code in ((ModelError("the endpoint is\x1b gone"), 9), (ThreadBusyError("busy"), 10)):
        assert failing(error).main(["fail"], standalone_mode=False) == code
    assert capsys.readouterr().err == "lockstitch: the endpoint is\\x1b gone\nlockstitch: busy\n"


def test_a_bug_is_one_line_that_says_how_to_see_more(capsys: pytest.CaptureFixture[str]):
    assert failing(KeyError("oh")).main(["fail"], standalone_mode=False) == 1
    err = capsys.readouterr().err
    assert err == "lockstitch: this is a bug: KeyError: 'oh'. Run again with --debug for the stack trace.\n"


def test_debug_lets_the_error_through(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(KeyError):
        failing(KeyError("oh")).main(["--debug", "fail"], standalone_mode=False)
    monkeypatch.setenv("LOCKSTITCH_DEBUG", "1")
    with pytest.raises(ModelError):
        failing(ModelError("gone")).main(["fail"], standalone_mode=False)


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("LOCKSTITCH_MAX_STEPS", "many")
    assert main(["threads"]) == 2
    assert "max_steps" in capsys.readouterr().err.lower()


def test_a_home_that_cannot_be_one_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = tmp_path / "file"
    place.write_text("")
    assert main(["--home", str(place), "threads"]) == 2
    assert capsys.readouterr().err.startswith("lockstitch: ")


def test_json_of_nothing_is_nothing(capsys: pytest.CaptureFixture[str]):
    assert main(["threads", "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == []
