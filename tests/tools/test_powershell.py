"""The arguments PowerShell is started with: nothing of the command is left to quoting."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.powershell import powershell_arguments, run_powershell

NOWHERE = {"PATH": "/nowhere"}


def script_of(arguments: list[str]) -> str:
    assert arguments[-2] == "-EncodedCommand"
    return base64.b64decode(arguments[-1]).decode("utf-16-le")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_command_arrives_as_it_was_written(command: str) -> None:
    arguments = powershell_arguments(command, NOWHERE)
    assert script_of(arguments).count(f"& {{\n{command}\n}}\n") == 1
    assert arguments[-1].isascii()


def test_nobody_is_asked_and_no_profile_is_read() -> None:
    arguments = powershell_arguments("Get-ChildItem", NOWHERE)
    assert arguments[:-1] == ["powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand"]


def test_exit_code_is_that_of_the_last_program_or_of_a_failed_cmdlet() -> None:
    script = script_of(powershell_arguments("git status", NOWHERE))
    assert script.endswith("$done = $?\nif ($LASTEXITCODE) { exit $LASTEXITCODE }\nexit [int](-not $done)\n")


@pytest.mark.parametrize(("command", "words"), [("x" * 30_000, "too long"), ("\ud800", "surrogate")])
def test_command_that_cannot_be_handed_over_is_refused(command: str, words: str) -> None:
    with pytest.raises(ToolValidationError, match=words):
        powershell_arguments(command, NOWHERE)


def test_contract_is_that_of_run_command() -> None:
    assert run_powershell.extras == {"effect": "command"}
    assert set(run_powershell.args) - {"call"} == {"command", "working_directory", "timeout_s"}
