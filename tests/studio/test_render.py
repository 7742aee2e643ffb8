import io
import json
from typing import Any

import pytest
from rich.console import Console

from lockstitch.state.events import (
    AgentAnswer,
    AgentCompletion,
    AgentDelta,
    AgentDiffPreview,
    AgentErrorEvent,
    AgentNotice,
    AgentReason,
    AgentStart,
    AgentTodos,
    AgentToolComplete,
    AgentToolError,
    AgentToolStart,
    AgentTurnStart,
    AgentUsage,
    DiffLine,
    Event,
    parse_event,
)
from lockstitch.studio.render import JsonLines, LiveView
from lockstitch.studio.terminal import open_console
from lockstitch.studio.writing import Writing

START = AgentStart(max_steps=50, model="m", strategy="react", mode="ask", workspace="/w", thread_id="t" * 36)


class Clock:
    """Gives one second more at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def rendered(*events: Event, **console: Any) -> tuple[str, str]:
    out = Console(file=io.StringIO(), width=80, markup=False, highlight=False, **console)
    err = Console(file=io.StringIO(), width=80, markup=False, highlight=False)
    view = LiveView(out, err, monotonic=Clock())
    step = 0
    for event in events:
        step = event.step or step
        view.show(event.model_copy(update={"step": step}))
    return out.file.getvalue(), err.file.getvalue()  # type: ignore[attr-defined]


def started(call_id: str, tool: str = "read_file", **args: Any) -> AgentToolStart:
    return AgentToolStart(call_id=call_id, tool=tool, args=args)


def completed(call_id: str, result: str, tool: str = "read_file") -> AgentToolComplete:
    return AgentToolComplete(call_id=call_id, tool=tool, result=result, time_ms=1)


def test_a_whole_run_reads_as_numbered_blocks():
    out, err = rendered(
        START,
        AgentTurnStart(step=1),
        AgentReason(content="Look first."),
        started("a", path="src/a.py"),
        completed("a", "text of a"),
        AgentTodos(tasks=[{"id": "1", "content": "Fix it", "status": "in_progress"}]),
        AgentUsage(model="m", input_tokens=1, output_tokens=1, run_input_tokens=1200, run_output_tokens=34),
        AgentTurnStart(step=2),
        AgentAnswer(content="**Done.**"),
        AgentCompletion(steps=2, reason="answered"),
    )
    lines = [line.rstrip() for line in out.splitlines()]
    assert "  1  Look first." in lines
    assert "     read_file path=src/a.py" in lines
    assert "     text of a" in lines
    assert "     [~] 1. Fix it" in lines
    assert "Done." in lines
    assert "answered · 2 steps · 1,200 tokens in, 34 out · cost unknown · 1.0 s" in lines
    assert max(map(len, lines)) <= 80
    assert err == ""


def test_an_answer_that_was_no_end_is_shown():
    out, _ = rendered(
        START,
        AgentTurnStart(step=1),
        AgentReason(content="First answer."),
        AgentTurnStart(step=2),  # a person had said something meanwhile
        AgentReason(content="Second answer."),
        AgentAnswer(content="Second answer."),
    )
    assert "  1  First answer." in out
    assert out.index("First answer.") < out.index("Second answer.")
    assert out.count("Second answer.") == 1


def test_one_step_is_no_plural():
    out, _ = rendered(START.model_copy(update={"max_steps": 1}))
    assert "at most 1 step" in out
    assert "1 steps" not in out


def test_markup_and_escapes_of_others_are_shown_as_text():
    out, _ = rendered(
        START,
        AgentTurnStart(step=1),
        AgentReason(content="[red]think[/red]\x1b[2J :smile:"),
        started("a", "run_command", command="echo \x1b]0;title\x07"),
        completed("a", "out\x9b31m", "run_command"),
        AgentAnswer(content="[bold]x[/bold] \x1b]8;;http://evil\x1b\\"),
    )
    assert "[red]think[/red]" in out
    assert ":smile:" in out
    assert r"\x1b]0;title\x07" in out
    assert r"out\x9b31m" in out
    assert not {"\x1b", "\x07", "\x9b"} & set(out)


def test_results_of_parallel_calls_name_their_call():
    out, _ = rendered(
        START,
        AgentTurnStart(step=1),
        started("a", path="a.py"),
        started("b", "grep_files", pattern="x"),
        completed("a", "of a"),
        completed("b", "of b", "grep_files"),  # had it come first, its line would have too
    )
    lines = [line.strip() for line in out.splitlines()][-4:]
    assert lines == ["1  read_file path=a.py", "of a", "grep_files pattern=x", "of b"]


def test_a_diff_is_shown_once_and_in_colours():
    lines = [
        DiffLine(line_number=3, type="remove", content="old"),
        DiffLine(line_number=3, type="add", content="new"),
    ]
    diff = AgentDiffPreview(
        call_id="a", file_path="x.py", change_type="modify", diff_lines=lines, original_hash="", new_hash=""
    )
    out, _ = rendered(
        START,
        started("a", "edit_file"),
        diff,
        completed("a", "Edited x.py\n-old\n+new", "edit_file"),
        force_terminal=True,
    )
    assert "modify x.py  +1 -1" in out
    assert "3 - old" in out
    assert "3 + new" in out
    assert "-old" not in out
    assert "\x1b[32m" in out


def test_a_refused_call_that_never_began_is_named():
    out, _ = rendered(
        START, AgentToolError(call_id="a", tool="write_file", message="Error: mode plan", time_ms=0)
    )
    assert "write_file" in out
    assert "Error: mode plan" in out


def test_an_error_that_ends_the_run_is_told_once_and_on_stderr():
    out, err = rendered(
        START,
        AgentErrorEvent(message="no endpoint"),
        AgentAnswer(content="The run ended: no endpoint"),
        AgentCompletion(steps=0, reason="model_error"),
    )
    assert err == "lockstitch: no endpoint\n"
    assert "no endpoint" not in out
    assert "the model could not be reached" in out


def test_time_a_person_took_is_not_counted():
    out, _ = rendered(
        START,
        AgentCompletion(steps=1, reason="waiting"),  # worked 1 s
        AgentReason(content="and on"),  # the clock began again
        AgentCompletion(steps=2, reason="answered"),  # 1 s more
    )
    assert "· 2.0 s" in out
    assert "waiting" not in out


def test_json_lines_are_events_and_words_go_to_stderr(capsys: pytest.CaptureFixture[str]):
    view = JsonLines(open_console(to_stderr=True))
    view.show(AgentReason(content="é\x1b"))
    view.show(AgentErrorEvent(message="broken"))
    view.say("words")
    out, err = capsys.readouterr()
    assert [parse_event(json.loads(line)).type for line in out.splitlines()] == [
        "agent_reason",
        "agent_error",
    ]
    assert "\x1b" not in out
    assert err == "lockstitch: broken\nwords\n"


def usage(model: str, run_cost_usd: float | None) -> AgentUsage:
    return AgentUsage(
        model=model,
        input_tokens=1,
        output_tokens=1,
        run_input_tokens=1,
        run_output_tokens=1,
        run_cost_usd=run_cost_usd,
    )


@pytest.mark.parametrize(
    ("model", "cost_usd", "told"),
    [
        ("m", 0.0123, " · $0.0123 · "),
        ("m", None, " · cost unknown · "),
        ("scripted:x", None, "1 out · 1.0 s"),
    ],
)
def test_totals_tell_the_cost_or_that_nobody_knows_it(model: str, cost_usd: float | None, told: str):
    out, _ = rendered(START, usage(model, cost_usd), AgentCompletion(steps=1, reason="answered"))
    assert told in out


def test_a_notice_is_a_line_of_text():
    out, _ = rendered(START, AgentNotice(content="m: rate limit\x1b[2J; again in 2 s"))
    assert r"m: rate limit\x1b[2J; again in 2 s" in out


def test_pieces_of_a_reply_are_shown_for_the_moment_at_a_terminal_and_nowhere_else():
    events = (
        START,
        AgentDelta(kind="text", content="half a th"),
        AgentCompletion(steps=1, reason="answered"),
    )
    assert "half a th" not in rendered(*events)[0]
    out, _ = rendered(*events, force_terminal=True)
    assert "\x1b[?25l" in out  # a line is drawn, and the cursor would jump
    assert out.index("\x1b[?25h") < out.index("answered · ")  # gone before the end is told


def test_the_moment_says_what_is_written_and_never_more_than_fits():
    writing = Writing(monotonic=lambda: 0.0)
    assert writing.line(80).endswith("waiting for the model")
    writing.hear(AgentDelta(kind="text", content="I look at\nthe \x1b[2Jfile 世界"))
    assert writing.line(80).endswith(r"writing · I look at the \x1b[2Jfile 世界")
    assert len(writing.line(30)) <= 30
    writing.hear(AgentDelta(kind="tool_call", tool="edit_file", content="x" * 1000))
    writing.hear(AgentDelta(kind="tool_call", tool="edit_file", content="x" * 234))
    assert writing.line(80).endswith("writing edit_file … 1,234 characters")
    writing.hear(started("a", "run_command"))
    assert writing.line(80).endswith("running run_command")
    writing.rest()
    assert writing.line(80) == ""
