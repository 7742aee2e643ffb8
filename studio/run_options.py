"""What `run` and `chat` have in common on the command line, and what it means for settings and context."""

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

import click
from pydantic import TypeAdapter, ValidationError

from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import (
    STEPS_AT_COMMAND_LINE,
    STEPS_MAX,
    STEPS_MIN,
    CommandNetwork,
    Mode,
    Settings,
    load_settings,
)

Function = TypeVar("Function", bound=Callable[..., Any])


LIMITS: Final = ("max_steps", "cost_limit", "token_limit", "time_limit")
KEPT: Final = (
    "model",
    "preset",
    "strategy",
    "mode",
    "network",
    *LIMITS,
    "temperature",
)  # what a thread goes on with


def _number(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):  # nan compares with nothing, so no range refuses it
        raise click.BadParameter(f"{value} is no number to measure by.", ctx, param)
    return value


def _network(ctx: click.Context, param: click.Parameter, value: str | None) -> CommandNetwork | None:
    if value is None:
        return None
    try:
        return TypeAdapter[CommandNetwork](CommandNetwork).validate_python(value)
    except ValidationError as error:
        raise click.BadParameter(
            "write off, on, or domains such as pypi.org,*.npmjs.org.", ctx, param
        ) from error


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options as given; None is what nobody gave."""

    home: Path | None = None
    workspace: Path | None = None
    thread: str | None = None
    latest: bool = False
    model: str | None = None
    preset: str | None = None
    strategy: str | None = None
    mode: Mode | None = None
    network: CommandNetwork | None = None
    max_steps: int | None = None
    cost_limit: float | None = None
    token_limit: int | None = None
    time_limit: float | None = None
    temperature: float | None = None
    use_cgrag: bool | None = None
    indexes: tuple[str, ...] = ()
    unsandboxed_commands: Literal["allow"] | None = None  # no option: the demo's, for its own folder

    def load(self) -> Settings:
        """The settings under these options.

        Raises:
            SettingsError: a value does not fit.
        """
        return load_settings(home=self.home, unsandboxed_commands=self.unsandboxed_commands)

    def context(self) -> RunContext:
        """The run's context; a workspace that was not named stays the thread's own."""
        return RunContext(
            workspace=str(self.workspace.expanduser().absolute()) if self.workspace else None,
            model=self.model,
            preset=self.preset,
            strategy=self.strategy,
            mode=self.mode,
            network=self.network,
            max_steps=self.max_steps,
            cost_limit_usd=self.cost_limit,
            token_limit=self.token_limit,
            time_limit_s=self.time_limit,
            temperature=self.temperature,
            use_cgrag=self.use_cgrag,
            indexes=list(self.indexes) or None,
            door="cli",
        )

    def command_for(self, thread_id: str) -> str:
        """The command that goes on with the thread under the same choices, open at its end."""
        words = ["lockstitch"]
        words += ["--home", str(self.home)] if self.home else []
        words += ["run", "--thread", thread_id]
        for name in KEPT:
            value = getattr(self, name)
            written = ",".join(value) if isinstance(value, tuple) else str(value)
            words += [f"--{name.replace('_', '-')}", written] if value is not None else []
        words += [word for name in self.indexes for word in ("--index", name)]
        return shlex.join(words)


_OPTIONS = (
    click.option(
        "--workspace",
        type=click.Path(path_type=Path),
        help="Folder to work in. Default: the thread's own, else the current one.",
    ),
    click.option("--thread", metavar="ID", help="Go on with this thread."),
    click.option("--continue", "latest", is_flag=True, help="Go on with this workspace's latest thread."),
    click.option("--model", metavar="M", help="NAME, PROVIDER:NAME, or scripted:FILE."),
    click.option("--preset", metavar="P", help="A named set of models; `lockstitch models` lists them."),
    click.option("--strategy", metavar="S", help="How the agent thinks, for example react."),
    click.option(
        "--mode",
        type=click.Choice(get_args(Mode)),
        help="plan changes nothing, ask asks before what is risky, auto asks least.",
    ),
    click.option(
        "--network",
        metavar="off|on|DOMAIN,...",
        callback=_network,
        help="That commands in the sandbox reach; default off.",
    ),
    click.option(
        "--max-steps",
        type=click.IntRange(STEPS_MIN, STEPS_MAX),
        help=f"Steps this run may take; default {STEPS_AT_COMMAND_LINE}.",
    ),
    click.option(
        "--cost-limit",
        type=click.FloatRange(min=0, min_open=True),
        callback=_number,
        metavar="USD",
        help="Of this run.",
    ),
    click.option("--token-limit", type=click.IntRange(min=1), help="Of this run, read and written."),
    click.option(
        "--time-limit",
        type=click.FloatRange(min=0, min_open=True),
        callback=_number,
        metavar="S",
        help="Seconds of work, without the time a person takes to answer.",
    ),
    click.option(
        "--use-cgrag/--no-use-cgrag",
        default=None,
        help="Begin with what the index of the workspace finds for the prompt.",
    ),
    click.option(
        "--index",
        "indexes",
        metavar="NAME",
        multiple=True,
        help="An index that may be searched; may be repeated, the first is the default.",
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(0, 2),
        callback=_number,
        help="Of the model; default is its own.",
    ),
)


def run_options(function: Function) -> Function:
    """Add the shared options to a command's function."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
