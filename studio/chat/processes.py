"""The slash commands about long-lived processes of the thread: list, keep, end."""

from lockstitch.state.errors import ToolValidationError, UsageError
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.visible import one_line
from lockstitch.tools.commands.long_process import LongProcess
from lockstitch.tools.commands.processes import ThreadProcesses

COMMAND_CHARS = 60  # of 80 columns


async def list_processes(talk: Talk, _: str) -> None:
    """Those that run, and those that ended a moment ago."""
    lines = [_line(process) for process in _processes(talk)]
    talk.say(*(lines or ["No process runs."]))


async def keep_process(talk: Talk, process_id: str) -> None:
    """Let a process go on after its run, until this program ends."""
    process = _named(talk, process_id)
    if not process.running:
        raise UsageError(f"{process.process_id} has ended: there is nothing to keep.")
    process.kept = True
    talk.say(f"{process.process_id} goes on after the run, and ends when you leave, or by /end.")


async def end_process(talk: Talk, process_id: str) -> None:
    """End a process with all it started."""
    process = _named(talk, process_id)
    await process.end()
    process.kept = False
    talk.say(f"{process.process_id} has ended.")


def _processes(talk: Talk) -> ThreadProcesses:
    session = talk.session
    return session.service.parts.processes.of(session.thread_id)


def _named(talk: Talk, process_id: str) -> LongProcess:
    if not process_id:
        raise UsageError("name a process: /processes lists them.")
    try:
        return _processes(talk).find(process_id)
    except ToolValidationError:
        ids = ", ".join(process.process_id for process in _processes(talk)) or "none"
        raise UsageError(
            f"there is no process {one_line(process_id, max_chars=20)}. There are: {ids}."
        ) from None


def _line(process: LongProcess) -> str:
    state = "running" if process.running else "ended"
    kept = ", kept" if process.kept else ""
    return f"{process.process_id}  {state}{kept}  {one_line(process.command, max_chars=COMMAND_CHARS)}"
