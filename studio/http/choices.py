"""What a client chose for a run, checked against what this server has and allows."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from lockstitch.graph.models.choice import parse_model
from lockstitch.graph.models.source import ConfiguredModels, ModelSource
from lockstitch.graph.models.wish import ModelWish
from lockstitch.graph.nodes.begin import check_workspace
from lockstitch.graph.strategies.registry import choose_strategy, strategy_names
from lockstitch.state.errors import SettingsError, WorkspaceError
from lockstitch.state.run_context import HandedContext, RunContext
from lockstitch.studio.http.desk import Desk, key_of
from lockstitch.studio.http.problems import RefusedError
from lockstitch.studio.http.roots import allowed_folder
from lockstitch.studio.http.schemas import RunChoices

NO_NAMES: Final[Mapping[str, str]] = {}


async def run_context(
    choices: RunChoices,
    desk: Desk,
    *,
    max_steps: int | None = None,
    handed: HandedContext | None = None,
    agent_mode: bool = True,
    names: Mapping[str, str] = NO_NAMES,
) -> RunContext:
    """The run's context; `names` are the client's own for our fields.

    Raises:
        NoModelError: none is configured.
        RefusedError: names the field that this server cannot follow.
    """
    check_strategy(choices.strategy, field=names.get("strategy", "strategy"))
    check_model(choices.model)
    check_tools(choices.tools, desk)
    await asyncio.to_thread(_open_model, choices, desk)
    folder = None
    if choices.workspace:
        folder = await asyncio.to_thread(
            find_workspace, choices.workspace, desk, field=names.get("workspace", "workspace")
        )
    return RunContext(
        workspace=str(folder) if folder else None,
        model=choices.model,
        preset=choices.preset,
        strategy=choices.strategy,
        agent_mode=agent_mode,
        temperature=choices.temperature,
        max_steps=max_steps,
        mode=choices.mode,
        tools=choices.tools,
        use_cgrag=choices.use_cgrag,
        handed=handed,
        door="http",
    )


def find_workspace(path: str, desk: Desk, *, field: str) -> Path:
    """The folder, in which a run may work; looks at the disk.

    Raises:
        RefusedError: it is none.
    """
    folder = allowed_folder(path, desk.roots, field=field)
    try:
        return check_workspace(folder, home=desk.parts.home.path)
    except WorkspaceError as error:
        raise RefusedError(400, "invalid", "The folder cannot be worked in.", field=field) from error


def open_models(key: SecretStr | None, desk: Desk, **changes: object) -> ModelSource:
    """The server's models; with a key of the client's own, or changed settings, new ones for this run."""
    if key is None and not changes:
        return desk.parts.models
    return ConfiguredModels(desk.settings.model_copy(update=changes), key)


def check_model(name: str | None, *, field: str = "model") -> None:
    """A scripted model replays a file of this machine, so none is chosen from outside.

    Raises:
        RefusedError: it is one.
    """
    if name is not None and parse_model(name.strip()).provider == "scripted":
        raise RefusedError(400, "invalid", "A scripted model cannot be chosen by a request.", field=field)


def check_strategy(name: str | None, *, field: str = "strategy") -> None:
    """Raise RefusedError where there is no such strategy."""
    if name is None:
        return
    try:
        choose_strategy(name)
    except SettingsError as error:
        words = f"There is no such strategy. Choose one of: {', '.join(strategy_names())}."
        raise RefusedError(400, "invalid", words, field=field) from error


def check_tools(names: Sequence[str] | None, desk: Desk, *, field: str = "tools") -> None:
    """Raise RefusedError where one of the tools is none."""
    known = [tool.name for tool in desk.parts.guard.registry.list()]
    if not set(names or ()) <= set(known):
        words = f"There is no such tool. Choose among: {', '.join(known)}."
        raise RefusedError(400, "invalid", words, field=field)


def _open_model(choices: RunChoices, desk: Desk) -> None:
    """Find out whether there is a model, before a thread is begun."""
    wish = ModelWish(model=choices.model, preset=choices.preset, temperature=choices.temperature)
    open_models(key_of(choices.user_api_keys), desk).open(wish)
