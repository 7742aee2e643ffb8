"""The tool `run_powershell`: one command in the workspace, where PowerShell is the shell."""

import base64
import shutil
from collections.abc import Mapping
from typing import Annotated, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.commands.shell import run_shell
from lockstitch.tools.context import CallContext
from lockstitch.tools.result import ToolResult

ARGUMENT_CHARS: Final = 30_000  # of the encoded command; Windows takes 32,767 for a whole command line
# Around the command: UTF-8, no progress bars, and the exit code of its last program or failed cmdlet.
BEFORE: Final = (
    "$ProgressPreference = 'SilentlyContinue'\n"
    "[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)\n"
    "$global:LASTEXITCODE = 0\n& {\n"
)
AFTER: Final = "\n}\n$done = $?\nif ($LASTEXITCODE) { exit $LASTEXITCODE }\nexit [int](-not $done)\n"


@tool(extras={"effect": "command"})
async def run_powershell(
    command: Annotated[str, Field(description="read by PowerShell")],
    call: CallContext,
    *,
    working_directory: Annotated[str, Field(description="a folder of the workspace")] = ".",
    timeout_s: Annotated[float | None, Field(description="seconds; 60 if left out", gt=0)] = None,
) -> ToolResult:
    """Run a PowerShell command in the workspace: tests, builds, git. The answer begins `Exit code: N`.

    Not for reading, searching or editing files: read_file, grep_files and edit_file are safer and can be
    undone. Each call is a new shell, so locations and variables do not last: use working_directory. Nobody
    answers questions and stdin is empty: pass options such as -Confirm:$false. Output and errors come
    together; of long output beginning and end are shown. A non-zero exit code is an answer, no error.
    Example: run_powershell(command="python -m pytest -q tests/test_app.py", timeout_s=120).
    """
    return await run_shell(powershell_arguments, command, call, folder=working_directory, timeout_s=timeout_s)


def powershell_arguments(command: str, env: Mapping[str, str]) -> list[str]:
    """The program and its arguments; encoded, so that no quoting stands between the model and PowerShell.

    Raises:
        ToolValidationError: the command is too long for Windows, or holds half a surrogate pair.
    """
    try:
        script = f"{BEFORE}{command}{AFTER}".encode("utf-16-le")
    except UnicodeEncodeError as error:
        raise ToolValidationError("the command holds half of a surrogate pair.") from error
    encoded = base64.b64encode(script).decode("ascii")
    if len(encoded) > ARGUMENT_CHARS:
        raise ToolValidationError("the command is too long: write it to a .ps1 file, and run that.")
    path = env.get("PATH")
    program = shutil.which("pwsh", path=path) or shutil.which("powershell", path=path) or "powershell.exe"
    return [program, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", encoded]
