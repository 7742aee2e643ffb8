import io
import os
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lockstitch.state.interrupts import (
    GoOn,
    approval_request,
    limit_request,
    question_request,
    read_answer,
    read_approval,
    read_go_on,
)
from lockstitch.state.run_state import Pause, PlannedCall
from lockstitch.studio.ask import ask_person, describe_request, read_amount
from lockstitch.studio.terminal import within


def planned(tool: str = "run_command", **args: Any) -> PlannedCall:
    return PlannedCall(id="c1", tool=tool, args=args, verdict="ask", note="every command asks")


APPROVAL = approval_request(planned(command="make\x1b[2J all", name="x"))
QUESTION = question_request(planned("request_input", question="Which\x1b title?"))


LIMIT = limit_request(
    Pause(reason="step_limit", limit="max_steps", at=50, more=50),
    action_id="p1",
    description="The run has used its 50 steps.",
)


class Typist:
    """Types line after line; remembers what stood there already."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.prefilled: list[str] = []
        self.prompts: list[str] = []

    def __call__(self, prompt: str, *, prefill: str = "") -> str:
        self.prefilled.append(prefill)
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def ask(request: Any, *lines: str) -> tuple[Any, str, Typist]:
    console, typist = Console(file=io.StringIO(), width=80), Typist(*lines)
    reply = ask_person(request, console=console, read_line=typist)
    return reply, console.file.getvalue(), typist  # type: ignore[attr-defined]


def test_approval_shows_the_whole_call_safely():
    _, shown, _ = ask(APPROVAL, "a")
    assert r"command: make\x1b[2J all" in shown
    assert "every command asks" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("lines", "decision"),
    [
        (["a"], {"type": "approve"}),
        (["yes"], {"type": "approve"}),
        (["n", "no need"], {"type": "reject", "message": "no need"}),
        (["nonsense", "", "A"], {"type": "approve"}),
        (["r", "too risky"], {"type": "reject", "message": "too risky"}),
        (["s", "done by hand"], {"type": "respond", "message": "done by hand"}),
        (["e", '{"name": "y", "args": {}}'], {"type": "edit", "args": {"name": "y", "args": {}}}),
        (["e", "{broken", "r", "no"], {"type": "reject", "message": "no"}),
        (["e", "[1]", "r", "no"], {"type": "reject", "message": "no"}),
    ],
)
def test_what_is_typed_becomes_the_decision_the_graph_reads(lines: list[str], decision: Any):
    reply, _, _ = ask(APPROVAL, *lines)
    assert read_approval(reply, digest=APPROVAL["digest"]) == decision


RULED = approval_request(
    {**planned(command="make\x1b all"), "rule": {"decision": "allow", "command": "a\x1b"}}
)


def test_always_shows_the_rule_it_would_write_and_is_another_key_than_approve():
    reply, shown, typist = ask(RULED, "A")
    assert read_approval(reply, digest=RULED["digest"]) == {"type": "approve", "always": True}
    assert r'would write this rule into policy.toml: decision "allow", command "a\u001b"' in shown
    assert "[A]lways" in typist.prompts[0]
    assert read_approval(ask(RULED, "a")[0]) == {"type": "approve"}


def test_always_is_not_offered_without_a_rule():
    reply, shown, typist = ask(APPROVAL, "A")
    assert "always" not in reply
    assert "lways" not in shown + typist.prompts[0]


def test_arguments_stand_there_to_be_edited():
    _, _, typist = ask(APPROVAL, "e", "{}")
    assert typist.prefilled[1] == '{"command": "make\\u001b[2J all", "name": "x"}'


def test_q_and_end_of_input_leave_it_waiting():
    assert ask(APPROVAL, "q")[0] is None
    assert ask(APPROVAL)[0] is None
    assert ask(QUESTION)[0] is None


def test_any_text_answers_a_question():
    reply, shown, _ = ask(QUESTION, "approve")
    assert read_answer(reply) == {"type": "respond", "message": "approve"}
    assert r"Which\x1b title?" in shown


def test_a_value_of_several_lines_cannot_forge_a_line_of_ours():
    shown = describe_request(approval_request(planned(command="ls\nrun_command waits: harmless")))
    assert "\n      run_command waits: harmless" in shown


def test_the_time_limit_ends_a_read_that_waits():
    reader, writer = os.pipe()
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(TimeoutError), within(0.02):
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["g"], GoOn(go_on=True)),
        (["?", "yes"], GoOn(go_on=True)),
        (["r", "1,000"], GoOn(go_on=True, more=1000)),
        (["r", "-5", "r", "7"], GoOn(go_on=True, more=7)),
        (["c"], GoOn(go_on=True, more=50, compact=True)),
        (["t", "leave the tests alone"], GoOn(go_on=True, message="leave the tests alone")),
        (["s"], GoOn(go_on=False)),
    ],
)
def test_a_run_at_its_limit_goes_on_as_the_person_says(lines: list[str], word: GoOn):
    reply, shown, typist = ask(LIMIT, *lines)
    assert read_go_on(reply) == word
    assert "used its 50 steps" in shown
    assert typist.prompts[0].startswith("[g]o on by 50 more, [r]aise, ")


def test_a_run_at_its_limit_can_be_left_waiting():
    assert ask(LIMIT, "q")[0] is None


def test_a_run_that_goes_in_a_circle_has_no_amount_to_raise():
    pause = Pause(reason="stuck", limit="stuck", at=0, more=0)
    reply, _, typist = ask(limit_request(pause, action_id="p", description="It repeats itself."), "r", "g")
    assert read_go_on(reply) == GoOn(go_on=True)
    assert typist.prompts[0].startswith("[g]o on, [t]ell it what to do, ")


@given(st.text(max_size=20))
def test_an_amount_is_a_number_above_zero_or_nothing(text: str):
    amount = read_amount(text)
    assert amount is None or 0 < amount < 1e13


@given(st.integers(1, 10**9))
def test_an_amount_may_have_its_thousands_marked(number: int):
    assert read_amount(f" {number:,} ") == number


def test_ctrl_d_ends_the_line_of_the_question():
    reply, shown, _ = ask(LIMIT)
    assert (reply, shown.endswith("steps.\n\n")) == (None, True)


def test_an_amount_may_be_in_dollars():
    assert read_amount("$0.5") == 0.5
