"""`lockstitch tool`: the tools as a person's own commands.

No model, no thread, and no policy: who types, decides.
"""

import asyncio
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click

from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.graph.parts import current_folder, open_audit, utc_now
from lockstitch.state.errors import ToolValidationError, UsageError
from lockstitch.state.facts import FactStore
from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.studio.stop_signals import on_stop_signals
from lockstitch.studio.terminal import person_is_here, read_line, write_json
from lockstitch.studio.tool_options import build_tool_command
from lockstitch.studio.visible import make_visible, one_line
from lockstitch.tools.catalog import build_registry
from lockstitch.tools.commands.sandbox import find_sandbox
from lockstitch.tools.context import ToolContext
from lockstitch.tools.guard import Guard
from lockstitch.tools.rate_limit import RateLimit
from lockstitch.tools.registry import RegisteredTool, Registry
from lockstitch.tools.result import ToolResult
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace

TODO_TOOLS: Final = frozenset({"create_tasks", "update_task_status", "get_tasks"})
SPILL_OF_DIRECT_CALLS: Final = "direct"  # the folder of results too long to print, in the place of a thread's
NAME_CHARS: Final = 20  # column of names; the longest of ours has 18
EFFECT_CHARS: Final = 8  # column of effects; `unknown` has 7
ABOUT_CHARS: Final = 50  # the rest of 80 columns


@click.command(
    name="tool",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--ARG VALUE]...")
@click.option(
    "--workspace", type=click.Path(path_type=Path), help="Folder to work in; default the current one."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON: the schemas, or the call's result.")
@click.pass_obj
def command(
    home: Path | None,
    /,
    *,
    name: str | None,
    arguments: tuple[str, ...],
    workspace: Path | None,
    as_json: bool,
) -> int:
    """List the tools, or call one directly without a model.

    `lockstitch tool read_file --path a.py --limit 10`; `lockstitch tool NAME --help` shows its arguments.
    Lists and objects are written as JSON.
    """
    settings = load_settings(home=home, workspace=workspace)
    registry = build_registry(settings.extra_tools)
    if name is None:
        _list(registry, as_json=as_json)
        return 0
    tool = _find(registry, name)
    inner = build_tool_command(tool, lambda **given: _call(settings, registry, tool, **given))
    given = [*(["--json"] if as_json else []), *arguments]
    code: int = inner.main(given, prog_name=f"lockstitch tool {name}", standalone_mode=False) or 0
    return code


def _list(registry: Registry, *, as_json: bool) -> None:
    for tool in registry.list():
        about = tool.schema["function"]["description"].strip().partition("\n")[0]
        if as_json:
            write_json({"name": tool.name, "effect": tool.effect, "schema": tool.schema["function"]})
        else:
            line = f"{make_visible(tool.name):<{NAME_CHARS}}{tool.effect:<{EFFECT_CHARS}}"
            click.echo(f"{line} {one_line(about, max_chars=ABOUT_CHARS)}")


def _find(registry: Registry, name: str) -> RegisteredTool:
    try:
        return registry.get(name)
    except ToolValidationError as error:
        raise UsageError(error.message) from error


def _call(
    settings: Settings,
    registry: Registry,
    tool: RegisteredTool,
    *,
    args: dict[str, Any],
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Make the call, print what came of it, and give the exit code."""
    home = prepare_home(settings.home)
    folder = check_workspace(
        (workspace or settings.workspace or current_folder()).expanduser(), home=home.path
    )
    if tool.name in TODO_TOOLS:
        click.echo("A call of its own has no thread: the TODO list is empty and is not kept.", err=True)
    with Workspace(folder, hidden=(home.path,)) as confined, open_ledger(home.ledger_db) as ledger:
        trail = Trail(
            audit=open_audit(ledger, settings), now=utc_now, door="tool", workspace=str(confined.root)
        )
        context = ToolContext(
            workspace=confined,
            settings=settings,
            spill=SpillStore(home.spill, SPILL_OF_DIRECT_CALLS),
            answer=_answer(args) if tool.effect == "person" else None,
            facts=FactStore(home.path),
            trail=trail,
            tool=tool.name,
            find_sandbox=lambda: find_sandbox(settings.command_sandbox),
            approved=True,
            network=settings.command_network,
        )
        guard = Guard(registry, RateLimit(settings.rate_limit_per_minute, monotonic=time.monotonic))
        result, signal_exit = asyncio.run(_run(guard, tool.name, args, context))
    if result is None:
        return signal_exit
    _print(result, as_json=as_json)
    return 0 if result.success else 1


async def _run(
    guard: Guard, name: str, args: dict[str, Any], context: ToolContext
) -> tuple[ToolResult | None, int]:
    """The result, or None and the exit code of the signal that ended the call."""
    task = asyncio.create_task(guard.run(name, args, context))
    with on_stop_signals(task.cancel) as signals:
        async with context.trail or nullcontext():
            await asyncio.wait([task])
    return (None, signals.exit_code or 1) if task.cancelled() else (task.result(), 0)


def _answer(args: dict[str, Any]) -> str | None:
    if not person_is_here():
        return None
    click.echo(make_visible(str(args.get("question", ""))))
    return read_line("your answer: ")


def _print(result: ToolResult, *, as_json: bool) -> None:
    if as_json:
        shown = ("success", "output", "error", "data", "metadata")
        write_json({name: getattr(result, name) for name in shown})
    else:
        click.echo(make_visible(result.text), err=not result.success)
