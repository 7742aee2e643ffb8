"""Where the calls of a run are judged: its mode and workspace, the sandbox, and the rules in force."""

from pathlib import Path

from lockstitch.graph.run import Run
from lockstitch.state.run_state import PlannedCall
from lockstitch.tools.judge import Call, Ground, judge
from lockstitch.tools.policy import Shelter, shelter_of
from lockstitch.tools.registry import RegisteredTool


def open_ground(run: Run, workspace: str, *, commands: bool) -> Ground:
    """The ground on which calls stand now; quick, but for the first look for a sandbox.

    That is taken where there are `commands` among the calls; elsewhere nothing asks for it.

    Raises:
        SettingsError: a file of rules does not fit, so nothing may run.
    """
    return Ground(
        mode=run.mode,
        shelter=_shelter(run, Path(workspace)) if commands else "none",
        unsandboxed_commands=run.parts.settings.unsandboxed_commands,
        rules=run.parts.rules.rules(Path(workspace)),
        workspace=Path(workspace),
    )


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
