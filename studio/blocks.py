"""Calls, results and diffs as blocks of text: short enough for a terminal, safe to print."""

import json
from collections.abc import Sequence
from typing import Any, Final

from rich.text import Text

from lockstitch.state.events import AgentDiffPreview
from lockstitch.studio.visible import make_visible, one_line

RESULT_HEAD: Final = 4  # lines: enough to see what came back; the whole is in the thread
RESULT_TAIL: Final = 2  # lines: how a command came out stands at its end
DIFF_LINES: Final = 60  # of one file: a screen and a half
VALUE_CHARS: Final = 100  # of one argument: a path or a command is seen whole, a file's content is not
LINE_CHARS: Final = 400  # of one shown line, five rows of a terminal

_DIFF: Final = {"add": ("+", "green"), "remove": ("-", "red"), "context": (" ", "dim")}


def is_free(model: str) -> bool:
    """Whether the model costs nothing at all: a scripted one replays a file."""
    return model.startswith("scripted:")


def cost_words(cost_usd: float | None) -> str:
    """What was spent: `$0.0123`, or that nobody knows."""
    return "cost unknown" if cost_usd is None else f"${cost_usd:,.4f}"


def call_text(tool: str, args: dict[str, Any]) -> str:
    """A call in one line: `read_file path=src/a.py limit=20`."""
    shown = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in args.values()
    )
    pairs = (
        f"{make_visible(name)}={one_line(text, max_chars=VALUE_CHARS)}"
        for name, text in zip(args, shown, strict=True)
    )
    return " ".join((make_visible(tool), *pairs))


def short_text(lines: Sequence[str], style: str) -> Text:
    """First and last lines of a result, and how many stand between them."""
    cut = len(lines) - RESULT_HEAD - RESULT_TAIL
    shown = list(lines)
    if cut > 1:
        shown = [*lines[:RESULT_HEAD], f"... {cut} more lines", *lines[-RESULT_TAIL:]]
    text = "\n".join(make_visible(line)[:LINE_CHARS].expandtabs() for line in shown)
    return Text(text, style, overflow="ellipsis", no_wrap=True)


def diff_text(event: AgentDiffPreview) -> Text:
    """What changed in one file, in colours."""
    added = sum(line.type == "add" for line in event.diff_lines)
    removed = sum(line.type == "remove" for line in event.diff_lines)
    title = f"{event.change_type} {one_line(event.file_path, max_chars=LINE_CHARS)}  +{added} -{removed}"
    text = Text(overflow="fold").append(title, "bold")
    for line in event.diff_lines[:DIFF_LINES]:
        sign, style = _DIFF[line.type]
        text.append(f"\n{line.line_number:>5} {sign} {make_visible(line.content.rstrip(chr(10)))}", style)
    cut = len(event.diff_lines) - DIFF_LINES
    return text.append(f"\n... {cut} more lines", "dim") if cut > 0 else text
