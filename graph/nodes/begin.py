"""begin: opens a run. Fresh budget, whole conversation, a workspace that exists."""

import asyncio
from pathlib import Path

from lockstitch.graph.conversation import answers_at_hand, repair_unanswered
from lockstitch.graph.run import Run
from lockstitch.graph.strategies.registry import choose_strategy
from lockstitch.state.errors import SettingsError, ToolValidationError, WorkspaceError
from lockstitch.state.events import AgentStart
from lockstitch.state.run_state import RunState


async def begin(state: RunState, run: Run) -> RunState:
    """Check the run's choices, mend what an earlier run left open, and announce the start.

    Raises:
        UsageError: the workspace, the model, the strategy or a tool cannot be what was asked for.
    """
    workspace = await asyncio.to_thread(check_workspace, run.workspace(state), home=run.parts.home.path)
    choose_strategy(run.strategy)
    _check_tools(run)
    model = run.parts.models.open(run.context.model, temperature=run.context.temperature)
    run.step = 0
    run.emit(
        AgentStart(
            max_steps=run.max_steps,
            model=model.name,
            strategy=run.strategy,
            mode=run.mode,
            workspace=str(workspace),
        )
    )
    return RunState(
        messages=repair_unanswered(state.get("messages", []), answers_at_hand(state)),  # type: ignore[typeddict-item]
        workspace=str(workspace),
        run_id=run.stamp.run_id,
        phase="planning",
        step=0,
        max_steps=run.max_steps,
        calls=[],
        outcomes=[],
        draft=None,
        ending=None,
        empty_replies=0,
        traces=[],
        input_tokens=0,
        output_tokens=0,
        reason=None,
        error="",
        final_answer="",
    )


def _check_tools(run: Run) -> None:
    try:
        run.parts.guard.registry.select(run.context.tools)
    except ToolValidationError as error:
        raise SettingsError(f"the run's tools do not fit: {error.message}") from error


def check_workspace(folder: Path, *, home: Path) -> Path:
    """The folder, absolute and without links.

    Raises:
        WorkspaceError: it is missing, no folder, or the agent's own home.
    """
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, in Python 3.11 and 3.12
        raise WorkspaceError(
            f"there is no folder {folder}: name an existing one with --workspace."
        ) from error
    if not resolved.is_dir():
        raise WorkspaceError(f"{folder} is no folder: name one with --workspace.")
    if resolved == home.resolve() or home.resolve() in resolved.parents:
        raise WorkspaceError(f"{folder} is Lockstitch's own home: choose another folder with --workspace.")
    return resolved
