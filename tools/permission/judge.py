"""Judges one call: the table by mode and sandbox, then the rules. Deny beats all, and ask beats allow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from lockstitch.state.run_state import Verdict
from lockstitch.state.settings import Mode
from lockstitch.tools.permission.call_paths import forms, patch_deletes, paths_of
from lockstitch.tools.permission.policy import LAYERED, Effect, Shelter, cell
from lockstitch.tools.permission.rule_book import Rules
from lockstitch.tools.permission.rules import Answer, Rule

MAY_RUN: Final = ("run", "try", "ask")


class Judgement(NamedTuple):
    """What policy says of a call.

    Attributes:
        verdict: whether it may run.
        note: why it does not simply run.
        rule: the fields of the rule that "always" would write down; None where none is offered.
    """

    verdict: Verdict
    note: str = ""
    rule: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where a call is judged."""

    mode: Mode
    shelter: Shelter
    unsandboxed_commands: Literal["ask", "allow"]
    rules: Rules
    workspace: Path


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call as it is judged; `effect` is its tool's."""

    tool: str
    effect: Effect
    args: Mapping[str, Any]

    @property
    def touches(self) -> Effect:
        """The effect of this very call: a patch that deletes is a delete."""
        return "delete" if self.effect == "edit" and patch_deletes(self.args) else self.effect


class Facts(Protocol):
    """What rules look at in a call."""

    @property
    def risk(self) -> str:
        """What a person should look at; empty when nothing stands out."""

    def answer(self, rule: Rule) -> Answer:
        """Whether a rule that holds back is about the call."""

    def allowed(self, rules: Sequence[Rule]) -> bool:
        """Whether allowances cover the whole of it."""

    def offer(self, rules: Sequence[Rule]) -> dict[str, str] | None:
        """The rule that would cover it beside those; None where there is none to offer."""


def judge(call: Call, ground: Ground) -> Judgement:
    """The verdict on a call. Waits for the disk where a rule names a path."""
    shelter: Shelter = "overlay" if ground.shelter == "layer" and call.tool not in LAYERED else ground.shelter
    verdict, note = cell(
        call.touches,
        mode=ground.mode,
        shelter=shelter,
        unsandboxed_commands=ground.unsandboxed_commands,
    )
    judged = Judgement(verdict, note)
    holding = [rule for rule in ground.rules.all if rule.holds_back]
    if holding or verdict in ("ask", "try"):
        facts = _facts(call, ground)
        judged = _held_back(judged, facts, holding, ground.rules) or _weighed(
            judged, facts, ground.rules.home
        )
    return judged


def _held_back(judged: Judgement, facts: Facts, holding: list[Rule], rules: Rules) -> Judgement | None:
    """What the rules say that hold back; None when they leave the call alone."""
    answers = [
        (rule, facts.answer(rule)) for rule in sorted(holding, key=lambda rule: rule.decision != "deny")
    ]
    for rule, answer in answers:  # those that deny come first
        if answer == "yes" and rule.decision == "deny":
            return Judgement("refuse", _told(rule, rules))
        if answer == "yes" and judged.verdict in MAY_RUN:
            return Judgement("ask", _told(rule, rules))
    doubtful = next((rule for rule, answer in answers if answer == "maybe"), None)
    if doubtful is None or judged.verdict not in MAY_RUN:
        return None
    why = facts.risk or judged.note or "what it runs is known only when it runs"
    return Judgement("ask", f"{why}; so this rule may be about it: {doubtful}")


def _weighed(judged: Judgement, facts: Facts, rules: Iterable[Rule]) -> Judgement:
    """What the table asks about and an allowance covers may run; else the rule that would cover it."""
    if judged.verdict not in ("ask", "try"):
        return judged
    allowances = [rule for rule in rules if rule.decision == "allow"]
    if facts.allowed(allowances):
        return Judgement("run")
    offer = facts.offer(allowances)
    note = judged.note if offer or not facts.risk else f"{judged.note}; look closely: {facts.risk}"
    return judged._replace(note=note, rule=offer)


def _told(rule: Rule, rules: Rules) -> str:
    """Why a rule holds the call back, with its source, so that a person finds it."""
    reason = f": {rule.reason}" if rule.reason else ""
    word = "forbids this" if rule.decision == "deny" else "asks about this"
    return f"a rule in {rules.source(rule)} {word} ({rule}){reason}"


def _facts(call: Call, ground: Ground) -> Facts:
    if call.effect == "command" and isinstance(call.args.get("command"), str):
        from lockstitch.tools.permission.command_facts import (
            CommandFacts,  # commands alone pay for reading shell
        )

        return CommandFacts(call.tool, call.args, ground.workspace)
    return CallFacts(call, ground.workspace)


@dataclass(frozen=True)
class CallFacts:
    """What rules look at in a call of a tool that runs no command."""

    call: Call
    workspace: Path
    risk: str = ""

    @cached_property
    def paths(self) -> list[set[str]]:
        """Each path the call names, in all its forms."""
        return [found for path in paths_of(self.call.args) if (found := forms(path or ".", self.workspace))]

    def answer(self, rule: Rule) -> Answer:
        """Whether the rule is about the tool, and one of the paths."""
        if rule.command or not rule.names_tool(self.call.tool):
            return "no"
        hits = rule.path is None or any(rule.names_path(form) for path in self.paths for form in path)
        return "yes" if hits else "no"

    def allowed(self, rules: Sequence[Rule]) -> bool:
        """Whether the tool, and all of its paths in each form, are allowed."""
        mine = [rule for rule in rules if not rule.command and rule.names_tool(self.call.tool)]
        if any(rule.path is None for rule in mine):
            return True
        return bool(self.paths) and all(
            any(rule.names_path(form) for rule in mine) for path in self.paths for form in path
        )

    def offer(self, rules: Sequence[Rule]) -> dict[str, str] | None:  # noqa: ARG002  the protocol's
        """An allowance for this tool; with its path where it names one."""
        fields = {"decision": "allow", "tool": self.call.tool}
        if not self.paths:
            return fields if self.call.touches in ("network", "unknown") else None
        if len(self.paths) != 1 or len(self.paths[0]) != 1:
            return None
        (path,) = self.paths[0]
        plain = not any(char in path for char in "*?[]\\") and path != "."
        return {**fields, "path": path if "/" in path else f"./{path}"} if plain else None
