"""One command of a shell, from its text to its answer: enclosed, watched, ended."""

import asyncio
import codecs
import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.events import AgentToolProgress
from lockstitch.tools.changes.commit import commit, find_effects, read_changes
from lockstitch.tools.changes.held_changes import hold
from lockstitch.tools.changes.scan import Baseline
from lockstitch.tools.changes.scanned import begin_scan, end_scan, note_scanned
from lockstitch.tools.changes.transaction import Layer
from lockstitch.tools.commands.command_answer import answer_of
from lockstitch.tools.commands.enclosure import Enclosure, Job, Shell, open_enclosure
from lockstitch.tools.commands.process import OutputWatcher, ProcessResult, run_process
from lockstitch.tools.context import ToolContext
from lockstitch.tools.paths import ROOT
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.diffs import diff_preview

KEEP_BYTES: Final = 4 * 1024 * 1024  # of a command's output; what the conversation has no room for is spilled
PROGRESS_EVERY_S: Final = 0.5  # so that a person sees it move, and no chatty command floods the doors
PROGRESS_CHARS: Final = 2_000  # a screen of the newest output


async def run_shell(
    shell: Shell, command: str, call: ToolContext, *, folder: str, timeout_s: float | None
) -> ToolResult:
    """Run a command in a folder of the workspace, for at most `timeout_s` or what the settings say.

    Raises:
        RecoverableError: the command is empty, the folder is none, or nothing could be started.
    """
    check_command(command)
    limit_s = min(timeout_s or call.settings.command_timeout_s, call.settings.command_timeout_max_s)
    job = Job(shell, command, folder=folder, timeout_s=limit_s, keep_bytes=KEEP_BYTES)
    baseline = await asyncio.to_thread(begin_scan, call) if call.scans else None
    async with open_enclosure(job, call) as enclosure:
        with contextlib.closing(_Progress(call)) as progress:
            result = await run_job(job, enclosure, on_output=progress.add)
        answer = partial(answer_of, result, call, limit_s=limit_s, refused=enclosure.refused)
        return await enclosure.settle(lambda: _settle(answer, enclosure.layer, call, baseline))


def check_command(command: str) -> None:
    """Raise ToolValidationError where there is nothing to run."""
    if not command.strip():
        raise ToolValidationError("command is empty: write what the shell is to run.")


async def run_job(job: Job, enclosure: Enclosure, *, on_output: OutputWatcher) -> ProcessResult:
    """Run it in the enclosure that was opened for it.

    Raises:
        RecoverableError: nothing could be started.
    """
    result = await run_process(
        enclosure.argv,
        folder_fd=enclosure.folder_fd,
        env=enclosure.environment,
        timeout_s=job.timeout_s,
        keep_bytes=job.keep_bytes,
        on_output=on_output,
        tree=enclosure.tree,
    )
    enclosure.check(result)
    return result


def bash(command: str, env: Mapping[str, str]) -> list[str]:
    """The command as bash, or else sh, is given it."""
    return [shutil.which("bash", path=env.get("PATH", os.defpath)) or "/bin/sh", "-c", "--", command]


def _settle(
    answer: Callable[..., ToolResult], layer: Layer | None, call: ToolContext, baseline: Baseline | None
) -> ToolResult:
    """What the command came to, once the workspace has what it changed."""
    if baseline is not None and call.journal is not None:
        effects = end_scan(call, baseline)
        told = answer(effects=effects)
        note_scanned(effects, call.journal, result=told.output)
        return told
    if layer is None or call.journal is None:
        return answer()
    with call.workspace.open_folder(ROOT) as root:
        effects = find_effects(layer, root, call.is_denied)
        if call.hold and effects:
            told = answer(effects=effects)
            return replace(told, pending=hold(effects, layer, root, told=told.output, owner=call.thread_id))
        for change in read_changes(effects, layer, root):
            call.emit(diff_preview(change, call_id=call.call_id))
        told = answer(effects=effects)
        left = commit(effects, layer, root, call.journal, result=told.output)
    return answer(effects=replace(effects, remarks=[*effects.remarks, *left])) if left else told


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
        self._call.emit(AgentToolProgress(call_id=self._call.call_id, tool=self._call.tool, content=content))
