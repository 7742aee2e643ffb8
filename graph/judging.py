"""Where the calls of a run are judged: its mode and workspace, the sandbox, and the rules in force."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from lockstitch.graph.run import Run
from lockstitch.state.run_state import PlannedCall, Shown
from lockstitch.tools.changes.rehearsal import rehearse
from lockstitch.tools.context import ToolContext
from lockstitch.tools.permission.judge import Call, Ground, judge
from lockstitch.tools.permission.policy import Shelter, shelter_of
from lockstitch.tools.registry import RegisteredTool
from lockstitch.tools.workspace import Workspace


def open_ground(run: Run, workspace: str, *, commands: bool) -> Ground:
    """The ground on which calls stand now; quick, but for the first look for a sandbox.

    That is taken where there are `commands` among the calls; elsewhere nothing asks for it.

    Raises:
        SettingsError: a file of rules does not fit, so nothing may run.
    """
    folder = _path(workspace)
    return Ground(
        mode=run.mode,
        shelter=_shelter(run, folder) if commands else "none",
        unsandboxed_commands=run.parts.settings.unsandboxed_commands,
        rules=run.parts.rules.rules(folder),
        workspace=folder,
    )


_path = lru_cache(maxsize=64)(Path)  # parsed once, and so are those below it: 0.1 ms a step


def _shelter(run: Run, workspace: Path) -> Shelter:
    """What holds the run's commands back. What reaches the network is no less done when it is thrown away."""
    shelter = shelter_of(run.parts.sandbox)
    keeps_apart = run.parts.journal and run.stamp.thread_id and run.network == "off"
    if shelter != "overlay" or not keeps_apart:
        return shelter
    return "overlay" if _trouble(run, workspace) else "layer"


def _trouble(run: Run, workspace: Path) -> str:
    return run.parts.layers.trouble(workspace, run.parts.sandbox, run_id=run.stamp.run_id)


def judge_call(call: PlannedCall, tool: RegisteredTool, ground: Ground) -> PlannedCall:
    """The call with policy's verdict, and the rule that "always" would write down."""
    judged = judge(Call(tool=tool.name, effect=tool.effect, args=call["args"]), ground)
    found: PlannedCall = {**call, "verdict": judged.verdict, "note": judged.note}
    return {**found, "rule": judged.rule} if judged.rule else found


def show_asked(calls: Sequence[PlannedCall], run: Run, workspace: str) -> list[PlannedCall]:
    """The calls, those that a person is asked about with what they would change. Waits for the disk."""
    with Workspace(Path(workspace), hidden=(run.parts.home.path,)) as opened:
        context = ToolContext(workspace=opened, settings=run.parts.settings, spill=run.spill)
        return [_shown(call, run, context) if call["verdict"] == "ask" else call for call in calls]


def _shown(call: PlannedCall, run: Run, context: ToolContext) -> PlannedCall:
    seen = _rehearsed(call, run, context)
    return {**call, "shown": seen} if seen else call


def is_stale(call: PlannedCall, run: Run, context: ToolContext) -> bool:
    """Whether an approved call would change something else by now than the person was shown."""
    if call.get("decision", {}).get("type") != "approve":
        return False
    now = _rehearsed(call, run, context)
    return now is not None and now["digest"] != call["shown"]["digest"]


def _rehearsed(call: PlannedCall, run: Run, context: ToolContext) -> Shown | None:
    tool = next((tool for tool in run.tools if tool.name == call["tool"]), None)
    return rehearse(tool, call["args"], context) if tool else None


def forbidden_now(call: PlannedCall, tool: RegisteredTool, ground: Ground) -> str:
    """Why a call that was judged before must not run after all; empty when it may. Waits for the disk.

    A person may have edited it, or written a rule since, and a link may lead elsewhere by now.
    """
    judged = judge(Call(tool=tool.name, effect=tool.effect, args=call["args"]), ground)
    if judged.verdict == "refuse":
        return judged.note
    if judged.verdict == "ask" and call["verdict"] in ("run", "try"):
        return f"{judged.note}. It did not ask a moment ago: make the call again."
    return ""
