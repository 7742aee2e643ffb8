"""The slash commands of a talk: one table, their reading, and what each does.

A line that begins with `/` is never sent to a model; `//text` sends `/text`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, get_args

from lockstitch.graph.models.presets import load_presets
from lockstitch.graph.strategies.registry import STRATEGIES
from lockstitch.state.errors import UsageError
from lockstitch.state.settings import Mode
from lockstitch.studio.chat.choices import (
    choose_mode,
    choose_model_name,
    choose_preset,
    choose_steps,
    choose_strategy_name,
)
from lockstitch.studio.chat.moves import (
    THREADS_SHOWN,
    TITLE_CHARS,
    begin_thread,
    clear_thread,
    compact_thread,
    leave,
    list_or_switch,
)
from lockstitch.studio.chat.processes import end_process, keep_process, list_processes
from lockstitch.studio.chat.reports import show_context, show_cost, show_facts, show_steps, show_todos
from lockstitch.studio.chat.talk import Talk
from lockstitch.studio.visible import one_line


@dataclass(frozen=True)
class SlashCommand:
    """One command; `when_running` tells that it may be given while a run goes on."""

    name: str
    argument: str
    help: str
    act: Callable[[Talk, str], Awaitable[None]]
    when_running: bool = True


def parse_line(line: str) -> tuple[str, str] | None:
    """Name and argument of a slash command; None for words that are meant for the model."""
    if not line.startswith("/") or line.startswith("//"):
        return None
    name, *argument = re.split(r"\s", line[1:], maxsplit=1)
    return name, "".join(argument).strip()


def spoken(line: str) -> str:
    """What a line says to the model: `//text` is `/text`."""
    return line[1:] if line.startswith("//") else line


async def obey(talk: Talk, line: str) -> None:
    """Do what the command says, or name those that are near.

    Raises:
        UsageError: there is no such command, or it cannot do that.
    """
    name, argument = parse_line(line) or ("", "")
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=3)
        words = " or ".join(f"/{one}" for one in near) if near else "/help, which lists all"
        raise UsageError(
            f"there is no command /{one_line(name, max_chars=40)}: try {words}. //text sends /text."
        )
    if talk.running and not command.when_running:
        raise UsageError(f"/{name} waits until the run is over; Ctrl-C stops it.")
    if argument and not command.argument:
        raise UsageError(f"/{name} takes no argument.")
    await command.act(talk, argument)


def values_of(talk: Talk, name: str) -> Sequence[tuple[str, str]]:
    """What the argument of a command can be, each with its help."""
    parts = talk.session.service.parts
    match name:
        case "strategy":
            return [(strategy, "") for strategy in STRATEGIES]
        case "mode":
            return [(mode, "") for mode in get_args(Mode)]
        case "preset":
            return [(preset, body.description) for preset, body in load_presets(parts.home.path).items()]
        case "model":
            settings = parts.settings
            known = (settings.model_fast, settings.model, settings.model_powerful, *settings.fallback_models)
            return [(model, "") for model in dict.fromkeys(known) if model]
        case "threads":
            rows = talk.session.service.threads.recent(THREADS_SHOWN)
            return [(row.thread_id, one_line(row.title, max_chars=TITLE_CHARS)) for row in rows]
        case "keep" | "end":
            processes = parts.processes.of(talk.session.thread_id)
            return [(one.process_id, one_line(one.command, max_chars=TITLE_CHARS)) for one in processes]
        case _:
            return []


async def _help(talk: Talk, _: str) -> None:
    rows = [(f"/{one.name} {one.argument}".rstrip(), one.help) for one in COMMANDS.values()]
    keys = (
        ("@", "completes a path of the workspace"),
        ("Enter", "sends; Alt-Enter, Ctrl-J or \\ before Enter begin a new line"),
        ("Ctrl-R", "finds what was typed before"),
        ("Ctrl-C", "stops the run, clears the line; twice leaves"),
    )
    width = max(len(name) for name, _ in rows) + 2
    talk.say(*(f"{name:<{width}}{words}" for name, words in (*rows, *keys)))


COMMANDS: Final[dict[str, SlashCommand]] = {
    one.name: one
    for one in (
        SlashCommand("help", "", "lists the commands and keys", _help),
        SlashCommand(
            "model", "[NAME]", "shows the model, or takes another from the next run on", choose_model_name
        ),
        SlashCommand(
            "preset", "[NAME]", "lists the presets, or takes one from the next run on", choose_preset
        ),
        SlashCommand(
            "strategy", "[NAME]", "how the agent thinks, from the next run on", choose_strategy_name
        ),
        SlashCommand(
            "mode", "[plan|ask|auto]", "what may be done without asking, from the next run on", choose_mode
        ),
        SlashCommand("steps", "N", "how many steps a run may take", choose_steps),
        SlashCommand(
            "threads", "[ID]", "lists threads, or goes on with one", list_or_switch, when_running=False
        ),
        SlashCommand("new", "", "begins a new thread", begin_thread, when_running=False),
        SlashCommand("show", "", "shows the thread's steps", show_steps),
        SlashCommand("todos", "", "shows the TODO list", show_todos),
        SlashCommand("cost", "", "shows tokens and cost of run and thread", show_cost),
        SlashCommand("context", "", "shows how full the context is", show_context),
        SlashCommand("facts", "", "shows what is remembered of this workspace", show_facts),
        SlashCommand("processes", "", "lists what start_process started", list_processes),
        SlashCommand("keep", "ID", "lets a process go on after its run", keep_process),
        SlashCommand("end", "ID", "ends a process", end_process),
        SlashCommand("compact", "", "has the older turns summarised", compact_thread, when_running=False),
        SlashCommand("clear", "yes", "makes the thread forget everything", clear_thread, when_running=False),
        SlashCommand("exit", "", "leaves; the thread is kept", leave),
        SlashCommand("quit", "", "the same", leave),
    )
}
