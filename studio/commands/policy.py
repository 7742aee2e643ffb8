"""`lockstitch policy`: which rules are in force and where they stand, and what would happen to a command."""

import sys
from pathlib import Path
from typing import Any, get_args

import click

from lockstitch.state.errors import ToolValidationError, UsageError
from lockstitch.state.settings import Mode, Settings, load_settings
from lockstitch.studio.terminal import write_json
from lockstitch.studio.visible import make_visible
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.permission.judge import Call, Ground, judge
from lockstitch.tools.permission.policy import shelter_of
from lockstitch.tools.permission.rule_book import RuleBook, Rules
from lockstitch.tools.permission.rules import Rule

EXITS = {"run": 0, "ask": 7, "question": 7, "refuse": 8}
"""As a run would end: 7 waits for a person, 8 is against the rules."""


@click.command(name="policy")
@click.argument("tested", metavar="[COMMAND]", required=False)
@click.option("--tool", help="Judge a call of this tool; default run_command.")
@click.option("--path", help="Judge a call with this path, of the tool that --tool names.")
@click.option("--mode", type=click.Choice(get_args(Mode)), help="Of the run; default what is set.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Default the current folder.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.pass_obj
def command(home: Path | None, /, *, as_json: bool, **given: Any) -> int:
    """List the rules, or say what would happen to a command.

    It is not run. `lockstitch policy "git push"` ends with 0 when it would run, 7 when it asks, 8 when it is
    refused.
    """
    _check_given(given)
    settings = load_settings(home=home, workspace=given["workspace"], mode=given["mode"])
    folder = (settings.workspace or Path.cwd()).resolve()
    book = RuleBook(settings.home)
    rules = book.rules(folder)
    if given["tested"] is None and given["tool"] is None:
        _list(rules, book, as_json=as_json)
        return 0
    return _check(_call(given), _ground(settings, rules, folder), as_json=as_json)


def _check_given(given: dict[str, Any]) -> None:
    """Refuse what names no call: an answer to another question than was asked would mislead."""
    if given["path"] is not None and given["tool"] is None:
        raise UsageError("--path needs --tool, the tool that is called with it: --tool write_file.")
    if given["path"] is not None and given["tested"] is not None:
        raise UsageError("COMMAND and --path do not go together: a call has one or the other.")
    if given["tested"] is not None and not given["tested"].strip():
        raise UsageError("COMMAND is empty: write the command to judge, or none to list the rules.")


def _list(rules: Rules, book: RuleBook, *, as_json: bool) -> None:
    for rule in rules.all:
        if as_json:
            write_json({**rule.as_fields(), "source": rules.source(rule)})
        else:
            click.echo(f"{_line(rule)}  [{rules.source(rule)}]")
    if as_json:
        return
    if not rules.all:
        click.echo(
            f"There are no rules. Write them into {make_visible(str(book.file))}; docs/policy.md says how."
        )
    for words in rules.notices:
        click.echo(words, err=True)


def _line(rule: Rule) -> str:
    fields = rule.as_fields()
    about = "  ".join(
        f"{name} {value!r}" for name, value in fields.items() if name not in ("decision", "reason")
    )
    reason = f"  ({rule.reason})" if rule.reason else ""
    return make_visible(f"{rule.decision:<6}{about}{reason}")


def _call(given: dict[str, Any]) -> Call:
    """The call that is judged; the effect of a named tool is the catalogue's."""
    if given["tool"] is None:
        return Call(tool="run_command", effect="command", args={"command": given["tested"]})
    from lockstitch.tools.catalog import build_registry  # loads every tool

    try:
        effect = build_registry().get(given["tool"]).effect
    except ToolValidationError as error:
        raise UsageError(error.message) from error
    args = {"path": given["path"], "command": given["tested"]}
    return Call(
        tool=given["tool"],
        effect=effect,
        args={name: value for name, value in args.items() if value is not None},
    )


def _ground(settings: Settings, rules: Rules, folder: Path) -> Ground:
    return Ground(
        mode=settings.mode,
        shelter=shelter_of(find_sandbox(settings.command_sandbox)),
        unsandboxed_commands=settings.unsandboxed_commands,
        rules=rules,
        workspace=folder,
    )


def _check(call: Call, ground: Ground, *, as_json: bool) -> int:
    judged = judge(call, ground)
    if as_json:
        write_json({"verdict": judged.verdict, "note": judged.note, "rule": judged.rule})
    else:
        note = f": {make_visible(judged.note)}" if judged.note else ""
        click.echo(f"{judged.verdict} in mode {ground.mode}{note}")
        if judged.rule and sys.stdout.isatty():
            click.echo(f"Always would write: {make_visible(str(Rule.model_validate(judged.rule)))}")
    return EXITS[judged.verdict]
