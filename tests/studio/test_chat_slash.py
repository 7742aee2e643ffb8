import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.studio.chat.slash import COMMANDS, parse_line, spoken

Lockstitch = Callable[..., Any]
Scenario = Callable[[str], str]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("/help", ("help", "")),
        ("/model  gpt-5 ", ("model", "gpt-5")),
        ("/bogus\tx y", ("bogus", "x y")),
        ("/", ("", "")),
        ("//text", None),
        ("text /help", None),
    ],
)
def test_a_line_is_a_command_or_words(line: str, read: tuple[str, str] | None):
    assert parse_line(line) == read


@given(st.text())
def test_words_behind_two_slashes_are_said_with_one(text: str):
    assert parse_line("//" + text) is None
    assert spoken("//" + text) == "/" + text


def test_a_wrong_name_is_answered_with_near_ones_and_not_sent(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.")
    done = lockstitch("chat", stdin="/modle x\n/zzz\n")
    assert "there is no command /modle: try /mode" in done.err
    assert "there is no command /zzz: try /help" in done.err
    assert "One." not in done.out
    assert lockstitch("threads", "--json").events == []


def test_text_behind_two_slashes_reaches_the_model(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.")
    assert "One." in lockstitch("chat", stdin="//usr is what?\n").out
    assert lockstitch("threads", "--json").events[0]["title"] == "/usr is what?"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/mode wild", "there is no mode 'wild'. Choose one of: plan, ask, auto."),
        ("/strategy wild", "there is no strategy 'wild'"),
        ("/preset wild", "there is no preset 'wild'"),
        ("/model gpt-5", "no model is configured"),
        ("/steps 0", "/steps takes a number from 1 to 500."),
        ("/steps many", "/steps takes a number from 1 to 500."),
        ("/help me", "/help takes no argument."),
        ("/threads zzz", "there is no thread 'zzz': /threads lists them."),
        ("/compact", "this thread has not begun"),
        ("/clear yes", "this thread has not begun"),
        ("/clear", "say /clear yes"),
    ],
)
def test_a_value_that_does_not_fit_is_told_at_once(
    lockstitch: Lockstitch, scenario: Scenario, line: str, told: str
):
    scenario("- say: One.")
    done = lockstitch("chat", stdin=f"{line}\nfirst\n")
    assert told in done.err
    assert "react, mode ask, at most 50 steps" in done.out  # and nothing was changed


def test_choices_hold_for_the_runs_that_follow(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.")
    choices = "/strategy tool-first\n/mode plan\n/steps 7\n"
    out = lockstitch("chat", stdin=f"{choices}first\n").out
    assert "tool-first, mode plan, at most 7 steps" in out
    assert "--strategy tool-first --mode plan" in out


def test_a_talk_moves_between_threads(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.\n- say: Two.")
    lines = ("first", "/new", "other", "/threads", "/threads 2", "second", "/show", "/cost", "/context")
    out = lockstitch("chat", stdin="\n".join((*lines, ""))).out
    rows = lockstitch("threads", "--json").events
    assert sorted(row["title"] for row in rows) == ["first", "other"]
    assert out.count("One.") == 2
    assert out.count("Two.") == 1
    assert "free of cost" in out
    assert "ctx 0 % of 128k" in out


def test_a_cleared_thread_remembers_nothing(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- say: One.\n- say: Two.")
    out = lockstitch("chat", stdin="first\n/clear yes\n/show\nsecond\n").out
    assert "no step yet" in out
    assert out.count("One.") == 2  # the scripted model counts the replies that the thread holds


def test_what_a_thread_cost_counts_the_call_that_sums_up(lockstitch: Lockstitch, scenario: Scenario):
    scenario("- calls: [{tool: list_directory, args: {path: .}}]\n- say: One.")
    out = lockstitch("chat", "--max-steps", "1", stdin="first\n/cost\n").out
    run = re.search(r"run +([0-9,]+) tokens in, ([0-9,]+) out", out)
    thread = re.search(r"thread +([0-9,]+) tokens", out)
    assert run
    assert thread
    told = [int(number.replace(",", "")) for number in (*run.groups(), thread[1])]
    assert told[0] + told[1] == told[2] > 0


def test_help_tells_every_command(lockstitch: Lockstitch, scenario: Scenario, workspace: Path):
    scenario("- say: One.")
    out = lockstitch("chat", stdin="/help\n/todos\n/facts\n").out
    assert [name for name in COMMANDS if f"/{name}" not in out] == []
    assert "This thread has no TODO list." in out
    assert "Nothing is remembered of this workspace." in out
