"""The whole table of what may run, cell by cell."""

from pathlib import Path
from typing import get_args

import pytest

from lockstitch.state.settings import Mode
from lockstitch.tools.commands.sandbox import NO_SANDBOX, Sandbox
from lockstitch.tools.permission.policy import COMMANDS, TABLE, Effect, Shelter, cell, shelter_of

MODES = ("plan", "ask", "auto")
EXPECTED = {
    #            plan        ask         auto
    "read": ("run", "run", "run"),
    "state": ("run", "run", "run"),
    "person": ("question", "question", "question"),
    "edit": ("refuse", "run", "run"),
    "delete": ("refuse", "ask", "run"),
    "network": ("ask", "ask", "run"),
    "unknown": ("refuse", "ask", "ask"),
}
COMMANDS_EXPECTED = {
    #            plan        ask         auto
    "layer": ("run", "try", "run"),
    "overlay": ("run", "ask", "run"),
    "sandbox": ("refuse", "ask", "run"),
    "landlock": ("run", "ask", "run"),
    "none": ("refuse", "ask", "ask"),
}
CELLS = [
    *(
        (mode, effect, shelter, row[at])
        for effect, row in EXPECTED.items()
        for at, mode in enumerate(MODES)
        for shelter in COMMANDS_EXPECTED
    ),
    *(
        (mode, "command", shelter, row[at])
        for shelter, row in COMMANDS_EXPECTED.items()
        for at, mode in enumerate(MODES)
    ),
]


@pytest.mark.parametrize(("mode", "effect", "shelter", "verdict"), CELLS)
def test_the_verdict_on_each_effect_in_each_mode_and_sandbox(
    mode: Mode, effect: Effect, shelter: Shelter, verdict: str
) -> None:
    found = cell(effect, mode=mode, shelter=shelter, unsandboxed_commands="ask")
    assert found.verdict == verdict
    assert bool(found.note) == (verdict in ("try", "ask", "refuse"))


@pytest.mark.parametrize(("mode", "effect", "shelter", "verdict"), CELLS)
def test_allowing_unsandboxed_commands_changes_commands_in_auto_alone(
    mode: Mode, effect: Effect, shelter: Shelter, verdict: str
) -> None:
    found = cell(effect, mode=mode, shelter=shelter, unsandboxed_commands="allow")
    assert found.verdict == ("run" if (mode, effect) == ("auto", "command") else verdict)


def test_the_tables_above_and_the_real_ones_name_every_mode_effect_and_sandbox() -> None:
    assert set(MODES) == set(get_args(Mode)) == set(TABLE) == set(COMMANDS)
    assert {*EXPECTED, "command"} == set(get_args(Effect))
    assert set(COMMANDS_EXPECTED) == set(get_args(Shelter))
    assert all(set(row) == set(EXPECTED) for row in TABLE.values())
    assert all(set(row) == set(COMMANDS_EXPECTED) for row in COMMANDS.values())


def test_a_sandbox_counts_by_what_it_can_throw_away() -> None:
    there = Sandbox(backend="bubblewrap", overlay=True, reason="", program=Path("/usr/bin/bwrap"))
    plain = Sandbox(backend="bubblewrap", overlay=False, reason="", program=Path("/usr/bin/bwrap"))
    landlock = Sandbox(backend="landlock", overlay=False, reason="")
    found = [shelter_of(sandbox) for sandbox in (there, plain, landlock, NO_SANDBOX)]
    assert found == ["overlay", "sandbox", "landlock", "none"]
