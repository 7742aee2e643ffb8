"""One command of a shell, from its text to its answer: enclosed, watched, ended."""

import asyncio
import codecs
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.events import AgentToolProgress
from lockstitch.tools.changes.commit import commit, find_effects, read_changes
from lockstitch.tools.changes.held_changes import hold
from lockstitch.tools.changes.scan import Baseline
from lockstitch.tools.changes.scanned import begin_scan, end_scan, note_scanned
from lockstitch.tools.changes.transaction import Layer
from lockstitch.tools.commands.command_answer import answer_of
from lockstitch.tools.commands.enclosure import Enclosure, Job, Shell, open_enclosure, open_way_out
from lockstitch.tools.commands.hearing import Stop, in_worker
from lockstitch.tools.commands.process import OutputWatcher, ProcessResult, run_process
from lockstitch.tools.context import ToolContext
from lockstitch.tools.paths import ROOT
from lockstitch.tools.result import ToolResult
from lockstitch.tools.texts.diffs import diff_preview

if TYPE_CHECKING:
    from lockstitch.tools.commands.domain_proxy import Proxy

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
    progress = _Progress(call)
    async with open_way_out(call) as proxy:
        return await in_worker(lambda stop: _run(job, call, proxy=proxy, progress=progress, stop=stop))


def _run(
    job: Job, call: ToolContext, *, proxy: "Proxy | None", progress: "_Progress", stop: Stop
) -> ToolResult:
    """From beginning to end in one thread: each way to the event loop and back costs 0.3 ms."""
    baseline = begin_scan(call) if call.scans else None
    with open_enclosure(job, call, proxy=proxy) as enclosure:
        try:
            result = run_job(job, enclosure, on_output=progress.add, stop=stop)
        finally:
            progress.end()
        answer = partial(answer_of, result, call, limit_s=job.timeout_s, refused=enclosure.refused)
        return _settle(answer, enclosure.layer, call, baseline)


def check_command(command: str) -> None:
    """Raise ToolValidationError where there is nothing to run."""
    if not command.strip():
        raise ToolValidationError("command is empty: write what the shell is to run.")


def run_job(job: Job, enclosure: Enclosure, *, on_output: OutputWatcher, stop: Stop) -> ProcessResult:
    """Run it in the enclosure that was opened for it.

    Raises:
        RecoverableError: nothing could be started.
    """
    result = run_process(
        enclosure.argv,
        folder_fd=enclosure.folder_fd,
        env=enclosure.environment,
        timeout_s=job.timeout_s,
        keep_bytes=job.keep_bytes,
        on_output=on_output,
        tree=enclosure.tree,
        stop=stop,
    )
    enclosure.check(result)
    return result


def bash(command: str, env: Mapping[str, str]) -> list[str]:
    """The command as bash, or else sh, is given it."""
    return [_find_shell(env.get("PATH", os.defpath)), "-c", "--", command]


@lru_cache(maxsize=8)
def _find_shell(path: str) -> str:
    return shutil.which("bash", path=path) or "/bin/sh"


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
    """Reports the newest output of a running command, now and then. It comes in a worker thread."""

    def __init__(self, call: ToolContext) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._newest = ""
        self._is_due = False
        self._is_over = False

    def add(self, data: bytes) -> None:
        """Take a piece of output; it is reported within `PROGRESS_EVERY_S`."""
        with self._lock:
            text = self._decoder.decode(data[-4 * PROGRESS_CHARS :])
            self._newest = (self._newest + text)[-PROGRESS_CHARS:]
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon_threadsafe(self._loop.call_later, PROGRESS_EVERY_S, self._report)

    def end(self) -> None:
        """The command has ended: its result says the rest."""
        self._is_over = True

    def _report(self) -> None:
        with self._lock:
            self._is_due = False
            newest, self._newest = self._newest, ""
        if not self._is_over:
            content = newest.replace("\0", "\N{REPLACEMENT CHARACTER}")
            self._call.emit(
                AgentToolProgress(call_id=self._call.call_id, tool=self._call.tool, content=content)
            )
