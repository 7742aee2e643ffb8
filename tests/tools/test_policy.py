"""The whole table of what may run, cell by cell."""

from typing import get_args

import pytest

from lockstitch.state.settings import Mode
from lockstitch.tools.policy import TABLE, Effect, judge

MODES = ("plan", "ask", "auto")
EXPECTED = {
    #            plan        ask         auto
    "read": ("run", "run", "run"),
    "state": ("run", "run", "run"),
    "person": ("question", "question", "question"),
    "edit": ("refuse", "run", "run"),
    "delete": ("refuse", "ask", "run"),
    "command": ("refuse", "ask", "ask"),
    "network": ("ask", "ask", "run"),
    "unknown": ("refuse", "ask", "ask"),
}
CELLS = [(mode, effect, row[at]) for effect, row in EXPECTED.items() for at, mode in enumerate(MODES)]


@pytest.mark.parametrize(("mode", "effect", "verdict"), CELLS)
def test_the_verdict_on_each_effect_in_each_mode(mode: Mode, effect: Effect, verdict: str) -> None:
    assert judge(effect, mode=mode, unsandboxed_commands="ask").verdict == verdict


@pytest.mark.parametrize(("mode", "effect", "verdict"), CELLS)
def test_allowing_unsandboxed_commands_changes_commands_in_auto_alone(
    mode: Mode, effect: Effect, verdict: str
) -> None:
    judged = judge(effect, mode=mode, unsandboxed_commands="allow")
    assert judged.verdict == ("run" if (mode, effect) == ("auto", "command") else verdict)


def test_the_table_above_and_the_real_one_name_every_mode_and_effect() -> None:
    assert set(MODES) == set(get_args(Mode)) == set(TABLE)
    assert set(EXPECTED) == set(get_args(Effect))
    assert all(set(row) == set(EXPECTED) for row in TABLE.values())


@pytest.mark.parametrize(("mode", "effect", "verdict"), CELLS)
def test_whatever_asks_or_is_refused_says_why_and_nothing_else_does(
    mode: Mode, effect: Effect, verdict: str
) -> None:
    note = judge(effect, mode=mode, unsandboxed_commands="ask").note
    assert bool(note) == (verdict in ("ask", "refuse"))
