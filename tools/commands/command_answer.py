"""What the model is told of a command: `Exit code: N`, then its output, held to size."""

import re
import signal
from collections.abc import Mapping
from typing import Any, Final

from lockstitch.tools.changes.call_journal import describe_changes, letter_of
from lockstitch.tools.changes.commit import Effects
from lockstitch.tools.commands.kept_output import KeptOutput
from lockstitch.tools.commands.process import ProcessResult
from lockstitch.tools.context import ToolContext
from lockstitch.tools.output import clip_middle, cut_note
from lockstitch.tools.paths import shown
from lockstitch.tools.result import ToolResult

QUESTION: Final = re.compile(rb"(\?|:|\[y/n\]|\(y/n\)|\(yes/no\))[ \t]*\Z", re.IGNORECASE)
TOLD_MAX: Final = 100  # changes that programs are told of; the journal has them all
DENIED: Final = re.compile(rb"permission denied|operation not permitted|EACCES|EPERM", re.IGNORECASE)
LANDLOCK_REFUSES: Final = (
    "[Landlock holds commands here: no sockets, not even local ones, unless the network is on; nothing is "
    "written outside of the workspace but to $TMPDIR, also not to /tmp.]"
)
LANDLOCK_REFUSES_UNASKED: Final = (
    "[Unasked commands make and delete files in folders of the workspace, not in its top folder: "
    "use write_file there. git cannot commit.]"
)
END_BYTES: Final = 80  # of the output: a question is short, and no line's end follows it

Output = ProcessResult | KeptOutput


def answer_of(
    result: ProcessResult,
    call: ToolContext,
    *,
    limit_s: float,
    refused: Mapping[str, str],
    effects: Effects | None = None,
) -> ToolResult:
    """The answer; output that the conversation has no room for is spilled.

    Args:
        result: how the command ended.
        call: whose conversation it is.
        limit_s: seconds it had.
        refused: hosts it asked for in vain, each with the reason.
        effects: what it changed, where that is known.
    """
    remarks = [*_unanswered(result), *map(_refusal, refused.items()), *_refused_by_landlock(result, call)]
    changes = effects.real if effects else []
    if effects is not None:
        remarks += [f"[changed {describe_changes(changes)}]"] * bool(changes)
        remarks += [f"[{words}]" for words in effects.remarks]
    head = "\n".join([f"Exit code: {_exit_line(result, limit_s)}", *remarks])
    data: dict[str, Any] = {
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_s": round(result.duration_s, 3),
        "total_bytes": result.total_bytes,
    }
    if effects is not None:
        data["changes"] = [
            {"path": shown(change.path), "change": letter_of(change)} for change in changes[:TOLD_MAX]
        ]
    return ToolResult(output=below(head, result, call), data=data)


def below(head: str, output: Output, call: ToolContext) -> str:
    """The head of an answer with the output below it, the two held to a result's size; the rest is spilled.

    Raises:
        SystemFaultError: it could not be kept.
    """
    room = max(1, call.settings.output_chars - len(head) - 1)
    body = clip_middle(_text_of(output), max_chars=room, spill=call.spill)
    return f"{head}\n{body}" if body else head


def _exit_line(result: ProcessResult, limit_s: float) -> str:
    if result.timed_out:
        return f"none (timed out after {limit_s:g} s, its processes were ended)"
    return describe_exit(result)


def describe_exit(result: ProcessResult) -> str:
    """The exit code; with the signal where one ended it."""
    if result.signal_number is not None:
        return f"{result.exit_code} (ended by {_signal_name(result.signal_number)})"
    return str(result.exit_code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _text_of(output: Output) -> str:
    """The output as text, with a note where it was cut; bytes that are no UTF-8 are replaced."""
    if not output.cut_bytes:
        return _decode(output.head + output.tail)
    note = cut_note(
        shown=len(output.head) + len(output.tail),
        total=output.total_bytes,
        unit="bytes",
        rest="sending the output to a file keeps all of it",
    )
    return f"{_decode(output.head)}\n{note}\n{_decode(output.tail)}"


def _decode(data: bytes) -> str:
    # NUL is no text either: databases and endpoints refuse it
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _unanswered(result: ProcessResult) -> list[str]:
    """A word on a command that failed, or hung, at what looks like a question."""
    end = (result.tail or result.head)[-END_BYTES:]
    if result.exit_code == 0 or not QUESTION.search(end):
        return []
    return [
        "[it seems to have asked something; nobody answers and stdin is empty: pass the answer as an option]"
    ]


def _refused_by_landlock(result: ProcessResult, call: ToolContext) -> list[str]:
    """What Landlock refuses looks like the machine's own refusal, and is no fault to look for."""
    if not DENIED.search(result.head + result.tail) or call.find_sandbox().backend != "landlock":
        return []
    return [LANDLOCK_REFUSES if call.approved else f"{LANDLOCK_REFUSES} {LANDLOCK_REFUSES_UNASKED}"]


def _refusal(place: tuple[str, str]) -> str:
    return f"[the network refused {place[0]}: {place[1]}]"
