"""The tool `run_command`: one shell command in the workspace."""

from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.tools.commands.shell import bash, run_shell
from lockstitch.tools.context import CallContext
from lockstitch.tools.result import ToolResult


@tool(extras={"effect": "command"})
async def run_command(
    command: Annotated[str, Field(description="read by bash")],
    call: CallContext,
    *,
    working_directory: Annotated[str, Field(description="a folder of the workspace")] = ".",
    timeout_s: Annotated[float | None, Field(description="seconds; 60 if left out", gt=0)] = None,
) -> ToolResult:
    """Run a shell command in the workspace: tests, builds, git, programs. The answer begins `Exit code: N`.

    Not for reading, searching or editing files: read_file, grep_files and edit_file are safer and can be
    undone. Each call is a new shell, so cd and variables do not last: use working_directory, or join by
    &&. In a sandbox only the workspace keeps what is written (not /tmp, not the home folder, not git's
    hooks and config), and the network is off unless a person turned it on. Nobody answers questions and
    stdin is empty: pass options such as --yes. Everything the command started ends with it: start_process is
    for servers and watchers. stdout and stderr come together; of long output beginning and end are shown. A
    non-zero exit code is an answer, no error.
    Example: run_command(command="python -m pytest -q tests/test_app.py", timeout_s=120).
    """
    return await run_shell(bash, command, call, folder=working_directory, timeout_s=timeout_s)
