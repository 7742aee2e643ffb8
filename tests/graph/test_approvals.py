"""Approvals through the graph: bound to what was shown, judged again, written down for always."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from tests.fakes import Bench, FakeModel, call, says

from lockstitch.graph.builder import build_graph
from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.errors import SettingsError
from lockstitch.tools.commands.sandbox import find_sandbox

MAKE = call("run_command", command="touch made")
DENY_PUSH = '[[rule]]\ndecision = "deny"\ncommand = "git push"\nreason = "a person publishes"\n'


def bench(tmp_path: Path, *replies: Any, rules: str = "") -> Bench:
    made = Bench(tmp_path, FakeModel(*replies, says("ok")))
    if rules:
        made.parts.rules.file.write_text(rules)
    return made


def results(state: dict[str, Any]) -> list[str]:
    return [message.text for message in state["messages"] if message.type == "tool"]


def _project_rules(at: Bench, text: str) -> None:
    (at.workspace / ".lockstitch").mkdir()
    (at.workspace / ".lockstitch" / "policy.toml").write_text(text)


async def test_a_request_shows_its_digest_and_the_rule_that_always_would_write(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE))
    await at.run("go")
    request, (event,) = await at.waits_for(), at.of_type("agent_approval_request")
    rule = {"decision": "allow", "tool": "run_command", "command": "touch made"}
    assert request["rule"] == event["rule"] == rule
    assert len(request["digest"]) == 64
    assert request["digest"] == event["digest"]


async def test_always_writes_that_rule_and_asks_no_more(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE), says("", {**MAKE, "id": "c2"}))
    await at.run("go")
    request = await at.waits_for()
    state = await at.run(Command(resume={"type": "approve", "always": True, "digest": request["digest"]}))
    assert state["phase"] == "completed"
    assert [rule.as_fields() for rule in at.parts.rules.rules().all] == [request["rule"]]
    assert len(at.of_type("agent_approval_request")) == 1


async def test_approving_once_writes_nothing(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE))
    await at.run("go")
    await at.run(Command(resume={"type": "approve"}))
    assert (at.workspace / "made").exists()
    assert not at.parts.rules.file.exists()


async def test_always_writes_nothing_where_no_rule_was_shown(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", call("run_command", command="sh -c 'touch a' | touch b")))
    await at.run("go")
    assert "rule" not in await at.waits_for()
    await at.run(Command(resume={"type": "approve", "always": True}))
    assert not at.parts.rules.file.exists()


async def test_an_approval_of_another_call_counts_as_no(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE))
    await at.run("go")
    state = await at.run(Command(resume={"type": "approve", "always": True, "digest": "0" * 64}))
    assert "was for another call" in results(state)[0]
    assert not (at.workspace / "made").exists()
    assert not at.parts.rules.file.exists()


async def test_a_denied_call_never_asks(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", call("run_command", command="true && git push")), rules=DENY_PUSH)
    state = await at.run("go", mode="auto")
    assert "a person publishes" in results(state)[0]
    assert at.of_type("agent_tool_start") == []


async def test_arguments_a_person_edits_are_judged_again(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE), rules=DENY_PUSH)
    await at.run("go")
    state = await at.run(Command(resume={"type": "edit", "args": {"command": "touch made; git push"}}))
    assert "a person publishes" in results(state)[0]
    assert not (at.workspace / "made").exists()


async def test_a_rule_written_while_a_call_waited_holds(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE))
    await at.run("go")
    at.parts.rules.file.write_text('[[rule]]\ndecision = "deny"\ncommand = "touch"\n')
    state = await at.run(Command(resume={"type": "approve"}))
    assert "forbids this" in results(state)[0]
    assert not (at.workspace / "made").exists()


async def test_a_link_made_after_judging_leads_nowhere_new(tmp_path: Path) -> None:
    rules = '[[rule]]\ndecision = "deny"\npath = "secret"\n[[rule]]\ndecision = "allow"\ncommand = "ln"\n'
    calls = call("run_command", command="ln -s sec* link"), call("read_file", id="c2", path="link")
    at = bench(tmp_path, says("", *calls), rules=rules)
    (at.workspace / "secret").write_text("word")
    await at.run("go")
    state = await at.run(Command(resume={"type": "approve"}))
    assert (at.workspace / "link").is_symlink()
    assert "word" not in results(state)[1]


@pytest.mark.parametrize("place", ["home", "project"])
async def test_rules_that_do_not_fit_stop_the_run_before_a_model_is_asked(tmp_path: Path, place: str) -> None:
    at = bench(tmp_path, rules="[[rule]]\n" if place == "home" else "")
    if place == "project":
        _project_rules(at, "[[rule]]\n")
    state = await at.run("go")
    assert (state["phase"], state["reason"]) == ("error", "system_error")
    assert "line 1, rule 1 does not fit" in state["error"]
    assert "agent_reason" not in at.types()


async def test_rules_that_break_during_a_run_let_nothing_more_run(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE))
    await at.run("go")
    at.parts.rules.file.write_text("[[rule]]\n")
    state = await at.run(Command(resume={"type": "approve"}))
    assert state["reason"] == "system_error"
    assert list(at.workspace.iterdir()) == []


async def test_a_projects_rules_narrow_and_its_allowances_are_said_to_be_ignored(tmp_path: Path) -> None:
    at = bench(tmp_path, says("", MAKE, call("read_file", id="c2", path="dist/a")))
    text = '[[rule]]\ndecision = "allow"\ntool = "*"\n[[rule]]\ndecision = "deny"\npath = "dist"\n'
    _project_rules(at, text)
    state = await at.run("go")
    assert state["phase"] == "waiting"
    assert [event["content"] for event in at.of_type("agent_notice")] == [
        "1 allow rules of .lockstitch/policy.toml of the project are ignored: a project can only narrow."
    ]
    state = await at.run(Command(resume=True))
    assert "policy.toml of the project forbids this" in results(state)[1]


def test_rules_of_the_home_that_do_not_fit_stop_the_program_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "policy.toml").write_text("x")
    with pytest.raises(SettingsError) as refused:
        Bench(tmp_path, FakeModel())
    assert refused.value.exit_code == 2


async def test_always_is_kept_across_a_closed_and_reopened_checkpointer(tmp_path: Path) -> None:
    async with open_checkpointer(tmp_path / "threads.db") as saver:
        at = bench(tmp_path, says("", MAKE))
        at.graph = build_graph(at.parts).compile(checkpointer=saver)
        await at.run("go")
        request = await at.waits_for()
    async with open_checkpointer(tmp_path / "threads.db") as saver:
        later = bench(tmp_path)
        later.graph = build_graph(later.parts).compile(checkpointer=saver)
        reply = {"type": "approve", "always": True, "digest": request["digest"]}
        state = await later.run(Command(resume=reply))
    assert (state["phase"], (later.workspace / "made").exists()) == ("completed", True)
    assert [rule.as_fields() for rule in later.parts.rules.rules().all] == [request["rule"]]


@pytest.mark.skipif(
    find_sandbox("landlock").backend != "landlock", reason="needs a Linux with Landlock switched on"
)
async def test_approved_command_has_more_room_under_landlock_than_an_unasked_one(tmp_path: Path) -> None:
    command = call("run_command", command="touch top; echo on")
    at = Bench(
        tmp_path, FakeModel(says("", command), says("Done.")), mode="auto", sandbox=find_sandbox("landlock")
    )
    await at.run("go")
    assert at.types().count("agent_tool_complete") == 1
    assert not (at.workspace / "top").exists()
    asking = Bench(tmp_path, FakeModel(says("", command), says("Done.")), sandbox=find_sandbox("landlock"))
    await asking.run("go", mode="ask")
    await asking.run(Command(resume={"type": "approve"}))
    assert (at.workspace / "top").exists()
