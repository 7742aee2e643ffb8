"""Termination reasons and exit codes: complete, distinct, and those of the contract."""

import json
from pathlib import Path
from typing import Any, get_args

from lockstitch.state.reasons import (
    ENDINGS,
    EXIT_TERMINATED,
    EXIT_THREAD_BUSY,
    EXIT_USAGE,
    TerminationReason,
    exit_code_of,
)

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "contracts" / "events.json").read_text(encoding="utf-8")
)
GOOD_ENDS = {"answered", "todos_completed", "finished"}


def test_exit_codes_are_those_of_the_contract() -> None:
    assert {reason: exit_code_of(reason) for reason in get_args(TerminationReason)} == GOLDEN["exit_codes"]
    without_reason = {"usage": EXIT_USAGE, "thread_busy": EXIT_THREAD_BUSY, "terminated": EXIT_TERMINATED}
    assert without_reason == GOLDEN["exit_codes_without_reason"]


def test_every_reason_has_its_ending_and_no_other() -> None:
    assert set(ENDINGS) == set(get_args(TerminationReason))


def test_only_good_ends_exit_with_zero() -> None:
    assert {reason for reason, ending in ENDINGS.items() if ending.exit_code == 0} == GOOD_ENDS


def test_a_script_can_tell_every_bad_end_apart() -> None:
    bad = [ending.exit_code for reason, ending in ENDINGS.items() if reason not in GOOD_ENDS]
    bad += [EXIT_USAGE, EXIT_THREAD_BUSY, EXIT_TERMINATED]
    assert len(bad) == len(set(bad))
    assert all(0 < code < 256 for code in bad)


def test_every_ending_tells_a_person_something() -> None:
    meanings = [ending.meaning for ending in ENDINGS.values()]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)
