"""Rules over the table: deny beats all, ask beats allow, and no spelling of a path gets around them."""

from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.settings import Mode
from lockstitch.tools.permission.judge import Call, Ground, Judgement, judge
from lockstitch.tools.permission.policy import Effect
from lockstitch.tools.permission.rule_book import Rules
from lockstitch.tools.permission.rules import Rule

DELETES = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch\n"


def rule(decision: str, **fields: str) -> Rule:
    return Rule.model_validate({"decision": decision, **fields})


def judged(
    workspace: Path,
    tool: str,
    effect: Effect,
    *rules: Rule,
    mode: Mode = "ask",
    project: tuple[Rule, ...] = (),
    **args: Any,
) -> Judgement:
    ground = Ground(
        mode=mode,
        shelter="none",
        unsandboxed_commands="ask",
        rules=Rules(home=rules, project=project),
        workspace=workspace,
    )
    return judge(Call(tool=tool, effect=effect, args=args), ground)


@pytest.mark.parametrize("mode", ["plan", "ask", "auto"])
def test_deny_holds_in_every_mode_over_every_allowance(tmp_path: Path, mode: Mode) -> None:
    rules = rule("allow", tool="web_search"), rule("deny", tool="web_*", reason="no network")
    found = judged(tmp_path, "web_search", "network", *rules, mode=mode, query="x")
    assert found.verdict == "refuse"
    assert "no network" in found.note
    assert "policy.toml in the home folder" in found.note


def test_ask_beats_allow_and_offers_no_rule(tmp_path: Path) -> None:
    rules = rule("allow", tool="web_search"), rule("ask", tool="web_search")
    found = judged(tmp_path, "web_search", "network", *rules, mode="auto", query="x")
    assert (found.verdict, found.rule) == ("ask", None)


def test_deny_beats_an_ask_that_stands_before_it(tmp_path: Path) -> None:
    rules = rule("ask", path="a"), rule("deny", tool="write_file")
    assert judged(tmp_path, "write_file", "edit", *rules, path="a/b").verdict == "refuse"


def test_a_projects_rule_narrows_and_is_named(tmp_path: Path) -> None:
    found = judged(
        tmp_path, "write_file", "edit", project=(rule("ask", path="dist"),), mode="auto", path="dist/a"
    )
    assert found.verdict == "ask"
    assert ".lockstitch/policy.toml of the project" in found.note


def test_an_allowance_lifts_a_question_and_no_refusal(tmp_path: Path) -> None:
    allow = rule("allow", tool="*")
    assert judged(tmp_path, "delete_file", "delete", allow, path="a").verdict == "run"
    assert judged(tmp_path, "delete_file", "delete", allow, mode="plan", path="a").verdict == "refuse"
    assert judged(tmp_path, "request_input", "person", allow, question="?").verdict == "question"


@pytest.mark.parametrize(
    "path", [".env", "./.env", "a/../.env", "sub/.env", ".ENV", "link", "deep/.env", "{root}/.env"]
)
def test_a_denied_path_is_denied_in_every_spelling(tmp_path: Path, path: str) -> None:
    (tmp_path / ".env").write_text("x")
    (tmp_path / "link").symlink_to(".env")
    (tmp_path / "deep").symlink_to(".")
    path = path.replace("{root}", str(tmp_path))
    deny = rule("deny", path=".env")
    assert judged(tmp_path, "read_file", "read", deny, path=path).verdict == "refuse"
    assert judged(tmp_path, "move_file", "edit", deny, source=path, destination="b").verdict == "refuse"


def test_a_patch_is_judged_by_every_file_it_touches(tmp_path: Path) -> None:
    deny = rule("deny", path="a.py")
    assert judged(tmp_path, "apply_patch", "edit", deny, mode="auto", patch=DELETES).verdict == "refuse"


def test_a_patch_that_deletes_is_a_delete(tmp_path: Path) -> None:
    assert judged(tmp_path, "apply_patch", "edit", patch=DELETES).note == "it deletes"
    assert judged(tmp_path, "apply_patch", "edit", patch=DELETES.replace("Delete", "Add")).verdict == "run"
    assert judged(tmp_path, "apply_patch", "edit", patch="nonsense").verdict == "run"  # the tool says so


def test_an_allowed_folder_is_not_left_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "tmp" / "link").symlink_to("../src")
    allow = rule("allow", tool="delete_file", path="tmp/**")
    assert judged(tmp_path, "delete_file", "delete", allow, path="tmp/a").verdict == "run"
    assert judged(tmp_path, "delete_file", "delete", allow, path="tmp/link/a").verdict == "ask"


@pytest.mark.parametrize(
    ("tool", "effect", "args", "offer"),
    [
        ("delete_file", "delete", {"path": "a/b.py"}, {"tool": "delete_file", "path": "a/b.py"}),
        ("delete_file", "delete", {"path": "b.py"}, {"tool": "delete_file", "path": "./b.py"}),
        ("delete_file", "delete", {"path": "[x].py"}, None),
        ("web_search", "network", {"query": "x"}, {"tool": "web_search"}),
        ("mine", "unknown", {"x": 1}, {"tool": "mine"}),
        ("run_command", "command", {"command": "make x"}, {"tool": "run_command", "command": "make x"}),
        ("run_command", "command", {"command": "sudo make x"}, None),
        ("run_powershell", "command", {"command": "dir"}, None),
    ],
)
def test_always_offers_exactly_one_rule_which_then_holds(
    tmp_path: Path, tool: str, effect: Effect, args: dict[str, Any], offer: dict[str, str] | None
) -> None:
    found = judged(tmp_path, tool, effect, **args)
    assert found.verdict == "ask"
    assert found.rule == (None if offer is None else {"decision": "allow", **offer})
    if found.rule:
        assert judged(tmp_path, tool, effect, Rule.model_validate(found.rule), **args).verdict == "run"


def test_a_risk_is_told_to_the_person_who_is_asked(tmp_path: Path) -> None:
    found = judged(tmp_path, "run_command", "command", command="find . -delete")
    assert "look closely: `find -delete` deletes what it finds" in found.note


def test_a_command_works_in_its_own_folder(tmp_path: Path) -> None:
    deny = rule("deny", path="a/key")
    args = {"command": "cat key", "working_directory": "a"}
    assert judged(tmp_path, "run_command", "command", deny, **args).verdict == "refuse"
    assert judged(tmp_path, "run_command", "command", deny, command="cat key").verdict == "ask"


def test_powershell_is_not_read_as_bash_and_so_asks_where_a_rule_is_about_commands(tmp_path: Path) -> None:
    deny = rule("deny", command="git push")
    ground = {"mode": "auto", "command": "Get-Item x"}
    assert judged(tmp_path, "run_powershell", "command", deny, **ground).verdict == "ask"
