"""observe: folds results into the conversation, leaves the step's record, and decides whether to go on."""

from collections.abc import Sequence

from langchain_core.messages import HumanMessage

from lockstitch.graph.conversation import answer_of
from lockstitch.graph.limits import stuck_pause
from lockstitch.graph.loops import KEPT_TRACES, Progress, judge_progress, trace_step
from lockstitch.graph.nodes.approve import announce_pause
from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.run import Run
from lockstitch.graph.strategies.protocol import Observation
from lockstitch.graph.turn import StepTurn, count_spent
from lockstitch.state.errors import ContextOverflowError, ModelError, SecurityViolationError
from lockstitch.state.events import AgentNotice, AgentObserve
from lockstitch.state.run_state import CallOutcome, RunEnd, RunState, StepRecord, StepTrace
from lockstitch.state.todos import TodoList

ANSWERED = frozenset({"answered", "todos_completed", "finished"})  # ends by the model's own word
ESCAPES_ALLOWED = 2  # the third path out of the workspace ends the run
EMPTY_REPLIES_ALLOWED = 2  # in a row; a third has no reason to be better
STEPS_LEFT = 3  # at which the model is told: enough to round off what it is doing
UNCHANGING = frozenset({"read", "state", "person", "network"})  # effects that leave the files as they are
RECORD_CHARS = 1_000  # of one tool output in a step record; the message holds it all


async def observe(state: RunState, run: Run) -> RunState:
    """The end of a step.

    Raises:
        SecurityViolationError: the thread tried too many paths out of its workspace.
        ModelError: the model keeps answering nothing.
    """
    run.enter("observing")
    draft = state["draft"]
    assert draft is not None
    began = run.parts.monotonic()
    seen = await _look(state, run)
    looked_s = run.parts.monotonic() - began
    spent = count_spent(seen.replies, draft, state, run, phase="observe") if seen.replies else RunState()
    traces = [*state.get("traces", []), _trace(state, run, draft)][-KEPT_TRACES:]
    progress = judge_progress(traces)
    end = _end(state, seen, progress)
    empty = 0 if end or state.get("calls") else state.get("empty_replies", 0) + 1
    _check(escapes=state.get("escapes", 0), empty=empty)
    left = state["max_steps"] - run.step
    nudges = [] if end else _nudges(empty=bool(empty), progress=progress, left=left)
    summary = _summary(state, seen, empty=bool(empty), progress=progress)
    if summary:
        run.emit(AgentObserve(content=summary))
    record = _record(state, draft, summary)
    worked_ms = record["plan_ms"] + record["execute_ms"]
    return RunState(
        **spent,
        **_rest_or_go_on(state, run, end),
        messages=[*seen.messages, *nudges],
        steps=[record],
        calls=[],
        outcomes=[],
        draft=None,
        empty_replies=empty,
        traces=traces,
        worked_s=state.get("worked_s", 0.0) + worked_ms / 1000 + looked_s,
    )


def _rest_or_go_on(state: RunState, run: Run, end: RunEnd | None) -> RunState:
    """The end, unless a person said something meanwhile, or can be asked what a stuck run should do."""
    if end and end["reason"] in ANSWERED and run.typed_since(state):
        end = None  # the answer stands in the conversation, and the next plan is handed what was typed
    if end and end["reason"] == "stuck" and run.client and run.client.answers:
        pause = stuck_pause()
        announce_pause(pause, run)
        return RunState(pause=pause, ending=None, reason=None, phase="waiting")
    return RunState(ending=end, reason=end["reason"] if end else None, phase="observing")


async def _look(state: RunState, run: Run) -> Observation:
    """What the strategy makes of the results; without results there is nothing to look at."""
    outcomes = state.get("outcomes", [])
    if not outcomes:
        return Observation(messages=[])
    try:
        return await run.thinking.observe(StepTurn(state, run, phase="observe"), outcomes)
    except ContextOverflowError:  # the next plan reads the results, and makes room for them first
        run.emit(AgentNotice(content="The results do not fit the model's window; the next step makes room."))
        return Observation(messages=[answer_of(outcome) for outcome in outcomes])


def _end(state: RunState, seen: Observation, progress: Progress) -> RunEnd | None:
    """How the run ends after this step; None to go on."""
    end = state.get("ending")
    if end is None and seen.answer is not None:
        end = RunEnd(answer=seen.answer, reason=seen.reason)
    if end is None and progress.verdict == "stuck":
        return RunEnd(answer=f"The run was ended because it got stuck: {progress.reason}.", reason="stuck")
    if end and end["reason"] == "answered" and TodoList(state.get("todos", [])).all_completed:
        return RunEnd(answer=end["answer"], reason="todos_completed")
    return end


def _nudges(*, empty: bool, progress: Progress, left: int) -> list[HumanMessage]:
    """What the model is told beside the results, before it goes on."""
    told = [note(load_prompt("empty_reply"))] if empty else []
    if progress.verdict == "nudge":
        told.append(note(load_prompt("stuck_nudge").format(reason=progress.reason)))
    if left == STEPS_LEFT:
        told.append(note(load_prompt("steps_left").format(left=left)))
    return told


def _summary(state: RunState, seen: Observation, *, empty: bool, progress: Progress) -> str:
    """The step in one line, for people."""
    parts = ["the reply was empty; asked again" if empty else seen.summary or summarize(state["outcomes"])]
    if progress.verdict != "fine":
        parts.append(f"no progress: {progress.reason}")
    return "; ".join(part for part in parts if part)


def _trace(state: RunState, run: Run, draft: StepRecord) -> StepTrace:
    """What the step did, as the detection of loops sees it."""
    calls, outcomes = state.get("calls", []), state.get("outcomes", [])
    changing = {tool.name for tool in run.tools if tool.effect not in UNCHANGING}
    changed = any(outcome["success"] and outcome["tool"] in changing for outcome in outcomes)
    return trace_step(calls, outcomes, text=draft["thought"], changed=changed)


def summarize(outcomes: Sequence[CallOutcome]) -> str:
    """One line a step: which calls went well and which did not."""
    return ", ".join(f"{o['tool']} {'ok' if o['success'] else 'failed'}" for o in outcomes)


def _check(*, escapes: int, empty: int) -> None:
    if escapes > ESCAPES_ALLOWED:
        raise SecurityViolationError(
            f"the run was ended: {escapes} paths out of the workspace were tried. Look at it first."
        )
    if empty > EMPTY_REPLIES_ALLOWED:
        raise ModelError(f"the model answered nothing {empty} times in a row. Try another with --model.")


def _record(state: RunState, draft: StepRecord, summary: str) -> StepRecord:
    args = {call["id"]: call["args"] for call in state.get("calls", [])}
    made = [
        {
            "tool": o["tool"],
            "args": args.get(o["id"], {}),
            "success": o["success"],
            "time_ms": o["time_ms"],
            "output": o["output"][:RECORD_CHARS],
        }
        for o in state.get("outcomes", [])
    ]
    return {
        **draft,
        "calls": made,
        "observation": summary,
        "todos": state.get("todos", []),
        "state": "observing",
        "execute_ms": round(sum(o["time_ms"] for o in state.get("outcomes", [])), 3),
    }
