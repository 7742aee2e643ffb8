"""The tool `run_command`: one shell command in the workspace."""

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
from typing import Annotated, Final

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.events import AgentToolProgress
from lockstitch.tools.context import CallContext, ToolContext
from lockstitch.tools.output import clip_middle, cut_note
from lockstitch.tools.process import ProcessResult, command_environment, run_process
from lockstitch.tools.result import ToolResult

KEEP_BYTES: Final = 4 * 1024 * 1024  # of a command's output; what the conversation has no room for is spilled
PROGRESS_EVERY_S: Final = 0.5  # so that a person sees it move, and no chatty command floods the doors
PROGRESS_CHARS: Final = 2_000  # a screen of the newest output


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
    &&. Nobody answers questions and stdin is empty: pass options such as --yes. Everything the command
    started ends with it, so a server must be started and used in one call. stdout and stderr come
    together; of long output beginning and end are shown. A non-zero exit code is an answer, no error.
    Example: run_command(command="python -m pytest -q tests/test_app.py", timeout_s=120).
    """
    if not command.strip():
        raise ToolValidationError("command is empty: write what the shell is to run.")
    limit_s = min(timeout_s or call.settings.command_timeout_s, call.settings.command_timeout_max_s)
    result = await _run_in_shell(call, command, folder=working_directory, timeout_s=limit_s)
    return await asyncio.to_thread(_report, result, limit_s, call)


async def _run_in_shell(call: ToolContext, command: str, *, folder: str, timeout_s: float) -> ProcessResult:
    progress = _Progress(call)
    with contextlib.ExitStack() as stack, contextlib.closing(progress):
        folder_fd = await asyncio.to_thread(stack.enter_context, call.workspace.open_folder(folder))
        shell, env = await asyncio.to_thread(_shell_and_environment)
        return await run_process(
            [shell, "-c", "--", command],
            folder_fd=folder_fd,
            env=env,
            timeout_s=timeout_s,
            keep_bytes=KEEP_BYTES,
            on_output=progress.add,
        )


def _shell_and_environment() -> tuple[str, dict[str, str]]:
    env = command_environment(os.environ)  # handed on to a child, not read as a setting
    return shutil.which("bash", path=env["PATH"]) or "/bin/sh", env


def _report(result: ProcessResult, limit_s: float, call: ToolContext) -> ToolResult:
    head = f"Exit code: {_exit_line(result, limit_s)}"
    room = max(1, call.settings.output_chars - len(head) - 1)
    body = clip_middle(_output_text(result), max_chars=room, spill=call.spill)
    data = {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_s": round(result.duration_s, 3),
        "total_bytes": result.total_bytes,
    }
    return ToolResult(output=f"{head}\n{body}" if body else head, data=data)


def _exit_line(result: ProcessResult, limit_s: float) -> str:
    if result.timed_out:
        return f"none (timed out after {limit_s:g} s, its processes were ended)"
    if result.signal_number is not None:
        return f"{result.exit_code} (ended by {_signal_name(result.signal_number)})"
    return str(result.exit_code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _output_text(result: ProcessResult) -> str:
    """The output as text, with a note where it was cut; bytes that are no UTF-8 are replaced."""
    if not result.cut_bytes:
        return _decode(result.head + result.tail)
    note = cut_note(
        shown=len(result.head) + len(result.tail),
        total=result.total_bytes,
        unit="bytes",
        rest="sending the output to a file keeps all of it",
    )
    return f"{_decode(result.head)}\n{note}\n{_decode(result.tail)}"


def _decode(data: bytes) -> str:
    # NUL is no text either: databases and endpoints refuse it
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


class _Progress:
    """Reports the newest output of a running command, now and then."""

    def __init__(self, call: ToolContext) -> None:
        self._call = call
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._newest = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take a piece of output; it is reported within `PROGRESS_EVERY_S`."""
        self._newest = (self._newest + self._decoder.decode(data[-4 * PROGRESS_CHARS :]))[-PROGRESS_CHARS:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_EVERY_S, self._report)

    def close(self) -> None:
        """The command has ended: its result says the rest."""
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        self._timer = None
        content, self._newest = self._newest.replace("\0", "\N{REPLACEMENT CHARACTER}"), ""
        self._call.emit(AgentToolProgress(call_id=self._call.call_id, tool="run_command", content=content))
