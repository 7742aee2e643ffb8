"""begin: opens a run. Fresh budget, whole conversation, a folder that exists, and what there is to know."""

import asyncio
import threading
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final, cast, get_args

from langchain_core.messages import AnyMessage, ToolMessage

from lockstitch.graph.budget import check_price
from lockstitch.graph.context.gather import NOTHING, Gathered, gather_context
from lockstitch.graph.context.retrieval import Retrieved, Source, retrieve
from lockstitch.graph.conversation import answers_at_hand, repair_unanswered
from lockstitch.graph.fork_files import find_parted, keep, take_along
from lockstitch.graph.memory.pins import CONTEXT
from lockstitch.graph.models.wish import Phase
from lockstitch.graph.nodes.approve import ask_to_restore
from lockstitch.graph.note import note, since_question
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import made_meanwhile, position, recover_thread
from lockstitch.state.errors import SettingsError, ToolValidationError, WorkspaceError
from lockstitch.state.events import AgentContext, AgentNotice, AgentStart
from lockstitch.state.run_context import HandedContext
from lockstitch.state.run_state import RunState
from lockstitch.tools.changes.call_journal import describe_changes
from lockstitch.tools.changes.held_changes import drop_held
from lockstitch.tools.code_index.build import Watch
from lockstitch.tools.code_index.telling import Telling, until_stopped
from lockstitch.tools.workspace import Workspace

SHOWING: Final = ("search_code", "read_file")  # what either must not show is not retrieved


async def begin(state: RunState, run: Run) -> RunState:
    """Check the run's choices, mend what an earlier run left open, announce the start, and look around.

    Raises:
        UsageError: the workspace, the model, the strategy, a tool or a limit cannot be what was asked for,
            or a file of rules does not fit.
    """
    await run.parts.processes.end_run(run.process_owner)  # of a run that waited, and was given up
    workspace = await asyncio.to_thread(check_workspace, run.workspace(state), home=run.parts.home.path)
    rules = await asyncio.to_thread(run.parts.rules.rules, workspace)
    _check(run)
    fresh = _fresh(run)
    run.step = 0
    _announce(state, run, workspace)
    for words in (*run.models.notices(run.wish), *rules.notices):
        run.emit(AgentNotice(content=words))
    finished, made = await asyncio.to_thread(_settle_files, state, run)
    told = await _look_around(state, run, workspace)
    mended = repair_unanswered(state.get("messages", []), made | answers_at_hand(state))
    here = RunState({**state, "workspace": str(workspace)})
    aligned = await asyncio.to_thread(_align, here, run, finished)
    notes = [*told["messages"], *aligned.get("messages", [])]
    messages = cast("list[AnyMessage]", [*mended, *notes])  # with removals, as the reducer takes
    return RunState({**fresh, **told, **aligned, "messages": messages, "workspace": str(workspace)})


def _check(run: Run) -> None:
    _check_tools(run)
    run.model("plan")
    run.thinking  # noqa: B018  raises where there is none of that name
    if run.context.cost_limit_usd or run.parts.settings.cost_limit_usd:
        for phase in get_args(Phase):
            check_price(run.model(phase))


def _announce(state: RunState, run: Run, workspace: Path) -> None:
    run.emit(
        AgentStart(
            max_steps=run.max_steps,
            model=run.model("plan").name,
            strategy=run.thinking.name,
            mode=run.mode,
            workspace=str(workspace),
            prompt="".join(message.text for message in since_question(state.get("messages", []))[:1]),
        )
    )


def _align(state: RunState, run: Run, finished: Collection[str]) -> RunState:
    """Where the files are not the checkpoint's: take them there, leave them, or have a person asked."""
    parted = find_parted(state, run, finished=finished)
    if parted is None or not parted.changes:
        return position(run)
    match run.parts.settings.files_on_fork:
        case "restore":
            return take_along(parted, state, run)
        case "keep":
            return keep(parted, run)
        case "ask":
            return ask_to_restore(parted, run)


def _settle_files(state: RunState, run: Run) -> tuple[set[str], dict[str, ToolMessage]]:
    """Finish what an earlier run was changing: the effects by id, and the answers of calls that were made."""
    recovered = recover_thread(run)
    for one in recovered:
        run.emit(AgentNotice(content=f"Finished what was cut off: {describe_changes(one.effect.changes)}."))
    for call in state.get("calls", []):
        if "pending" in call:
            drop_held(call["pending"], Path(state["workspace"]))
    return {one.effect.id for one in recovered}, made_meanwhile(state, run)


def _fresh(run: Run) -> RunState:
    """The state of a run that has done nothing yet, under its own limits."""
    asked, settings = run.context, run.parts.settings
    return RunState(
        run_id=run.stamp.run_id,
        phase="planning",
        step=0,
        max_steps=run.max_steps,
        cost_limit_usd=asked.cost_limit_usd or settings.cost_limit_usd,
        token_limit=asked.token_limit or settings.token_limit,
        time_limit_s=asked.time_limit_s or settings.time_limit_s,
        pause=None,
        sum_up=False,
        calls=[],
        outcomes=[],
        draft=None,
        ending=None,
        empty_replies=0,
        traces=[],
        input_tokens=0,
        output_tokens=0,
        cost_usd=0.0,
        worked_s=0.0,
        reason=None,
        error="",
        final_answer="",
    )


async def _look_around(state: RunState, run: Run, workspace: Path) -> RunState:
    """What the model is told beside the prompt: what is handed in each time, the rest when it is new."""
    asked = since_question(state.get("messages", []))
    stop = threading.Event()
    gather = partial(_gather, asked[0].text if asked else "", run, workspace, stop)
    found = await until_stopped(gather, stop)
    is_news = found.lasting != state.get("context_told")
    parts = [found.handed, *([found.workspace] if is_news else [])]
    told = "\n".join(part.told for part in parts if part.told)
    if told:
        run.emit(AgentContext(content=told))
    notes: list[AnyMessage] = [note(found.handed.text)] if found.handed.text else []
    if is_news and found.workspace.text:
        notes.append(note(found.workspace.text, mark=CONTEXT))
    return RunState(messages=notes, context_told=found.lasting)


def _gather(prompt: str, run: Run, root: Path, stop: threading.Event) -> Gathered:
    facts = run.parts.facts.facts(str(root)) if run.parts.facts else []
    with Workspace(root, hidden=(run.parts.home.path,)) as workspace:
        return gather_context(
            workspace,
            prompt=prompt,
            handed=run.context.handed or HandedContext(),
            max_steps=run.max_steps,
            budget_tokens=run.parts.settings.context_tokens,
            facts=[fact.text for fact in facts],
            retrieved=_retrieve(prompt, run, workspace, stop) if run.use_cgrag else NOTHING,
        )


def _retrieve(prompt: str, run: Run, workspace: Workspace, stop: threading.Event) -> Retrieved:
    """What the index finds, but for what a rule keeps from the tools that would show it."""
    rules, settings = run.parts.rules.rules(workspace.root), run.parts.settings
    denials = [denial for tool in SHOWING if (denial := rules.denial(tool))]
    source = Source(settings, run.context.indexes, lambda path: any(denial(path) for denial in denials))
    tell = Telling(lambda words: run.emit(AgentNotice(content=words)))
    watch = Watch(tell=tell, is_stopped=stop.is_set, limit_s=settings.index_step_s)
    return retrieve(prompt, workspace, source, watch)


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
