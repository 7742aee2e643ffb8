"""Where the calls of one step work: workspace, journal, ground for judging, and what a call is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lockstitch.graph.audited import open_trail
from lockstitch.graph.judging import open_ground
from lockstitch.graph.memory.history import history_of
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import begun_before, find_layers, open_step_journal
from lockstitch.state.journal import Effect
from lockstitch.state.run_state import PlannedCall, RunState
from lockstitch.state.todos import TodoList
from lockstitch.tools.changes.call_journal import StepJournal
from lockstitch.tools.context import ToolContext
from lockstitch.tools.history import HistoryEntry
from lockstitch.tools.permission.judge import Ground
from lockstitch.tools.permission.policy import LAYERED
from lockstitch.tools.trail import Trail
from lockstitch.tools.workspace import Workspace


@dataclass(frozen=True)
class StepPlace:
    """Where the calls of one step work, opened.

    Attributes:
        journal: None where nothing is kept.
        begun: what its calls had changed when the run was cut off, by call.
        layers: our home, where commands run in layers; None where they write into the workspace.
    """

    workspace: Workspace
    todos: TodoList
    history: Callable[[], Sequence[HistoryEntry]]
    trail: Trail
    ground: Ground
    journal: StepJournal | None
    begun: dict[str, list[Effect]]
    layers: Path | None

    def context(self, call: PlannedCall, run: Run) -> ToolContext:
        """What a call is given beside its arguments."""
        decision = call.get("decision")
        journal = self.journal.of_call(call["id"], call["tool"]) if self.journal else None
        return ToolContext(
            workspace=self.workspace.journaled(journal) if journal else self.workspace,
            settings=run.parts.settings,
            spill=run.spill,
            thread_id=run.stamp.thread_id,
            call_id=call["id"],
            tool=call["tool"],
            todos=self.todos,
            emit=run.emit,
            answer=decision.get("message", "") if decision and call["verdict"] == "question" else None,
            history=self.history,
            facts=run.parts.facts,
            find_sandbox=run.parts.find_sandbox,
            journal=journal,
            layers=self.layers,
            scans=run.parts.home.path if self._is_scanned(call, run) else None,
            hold=call["verdict"] == "try",
            approved=run.mode == "ask" or call["verdict"] == "ask",
            discard=run.mode == "plan",
            network=run.network,
            processes=run.parts.processes.of(run.process_owner),
            is_denied=self.ground.rules.denial(call["tool"]),
            indexes=run.context.indexes,
            trail=self.trail,
        )

    def _is_scanned(self, call: PlannedCall, run: Run) -> bool:
        """Whether the call may change the workspace past the journal."""
        return call["tool"] in LAYERED and self.layers is None and run.mode != "plan"


def open_place(state: RunState, run: Run, todos: TodoList, has_commands: bool) -> StepPlace:  # noqa: FBT001  through a thread
    """The place of the step's calls; its workspace is to be closed. Waits for the disk."""
    root = Path(state["workspace"])
    journal = open_step_journal(state, run)
    return StepPlace(
        journal=journal,
        layers=find_layers(root, run) if journal and _has_layered(state["calls"], run) else None,
        begun=begun_before(journal) if journal else {},
        workspace=Workspace(root, hidden=(run.parts.home.path,)),
        todos=todos,
        history=partial(history_of, state["messages"]),
        trail=open_trail(state, run),
        ground=open_ground(run, state["workspace"], commands=has_commands),
    )


def _has_layered(calls: Sequence[PlannedCall], run: Run) -> bool:
    return run.mode != "plan" and any(call["tool"] in LAYERED for call in calls)
