"""A hundred and more commands in a data file, each with what must happen to it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lockstitch.state.settings import Mode
from lockstitch.tools.permission.judge import Call, Ground, Judgement, judge
from lockstitch.tools.permission.policy import Shelter
from lockstitch.tools.permission.rule_book import Rules
from lockstitch.tools.permission.rules import Rule

TABLE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "contracts" / "commands.yaml").read_text(encoding="utf-8")
)
RULES = Rules(home=tuple(Rule.model_validate(fields) for fields in TABLE["rules"]))
COMMANDS = TABLE["commands"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def judged(
    command: str,
    workspace: Path,
    *,
    mode: Mode,
    shelter: Shelter = "overlay",
    rules: Rules = RULES,
    **args: Any,
) -> Judgement:
    ground = Ground(mode=mode, shelter=shelter, unsandboxed_commands="ask", rules=rules, workspace=workspace)
    return judge(Call(tool="run_command", effect="command", args={"command": command, **args}), ground)


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len({row["command"] for row in COMMANDS}) == len(COMMANDS) >= 60


@pytest.mark.parametrize("row", COMMANDS, ids=[row["command"] for row in COMMANDS])
def test_what_happens_to_a_command(row: dict[str, str], workspace: Path) -> None:
    assert judged(row["command"], workspace, mode="auto").verdict == row["auto"]
    asked = judged(row["command"], workspace, mode="ask")
    assert asked.verdict == row.get("ask", "refuse")
    assert (asked.rule or {}).get("command") == row.get("offer")


@pytest.mark.parametrize("row", [row for row in COMMANDS if "offer" in row], ids=lambda row: row["command"])
def test_the_offered_rule_covers_the_command_it_was_offered_for(row: dict[str, str], workspace: Path) -> None:
    offered = Rule.model_validate(judged(row["command"], workspace, mode="ask").rule)
    more = Rules(home=(*RULES.home, offered))
    assert judged(row["command"], workspace, mode="ask", rules=more).verdict == "run"


def test_doubt_says_what_it_comes_from(workspace: Path) -> None:
    asked = judged("$'git' push", workspace, mode="auto")
    assert asked.note.startswith(
        "what it runs is known only when it runs; so this rule may be about it: deny"
    )
