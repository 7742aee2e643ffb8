"""Keeps the conversation within the model's window: older turns are folded before a prompt would burst it."""

from lockstitch.graph.conversation import system_message
from lockstitch.graph.memory.compaction import compact
from lockstitch.graph.memory.window import new_chars, prompt_tokens, should_compact
from lockstitch.graph.run import Run
from lockstitch.graph.turn import report_spent, shown_prompt, tools_before
from lockstitch.state.events import AgentNotice
from lockstitch.state.run_state import RunState

KEPT_WHEN_ASKED = 3  # turns: whoever asks for room wants it, and the work under way stays in sight


async def make_room(state: RunState, run: Run, *, burst: bool = False) -> RunState:
    """The update of a compaction where one is due; empty where the next prompt fits.

    Args:
        state: with everything the next prompt will show.
        run: of that state.
        burst: the model has refused the prompt as too long, whatever was counted.

    Raises:
        UsageError: the run's model cannot be opened.
    """
    settings, window = run.parts.settings, run.model("plan", after=tools_before(state)).window
    asked = burst or state.get("compact_asked", False)
    fresh = new_chars(state["messages"])
    if not asked and not should_compact(state.get("context_tokens", 0), fresh, window, settings.compact_at):
        return RunState()
    model = run.model("compact")
    if burst:  # the true window is smaller than what was believed: smaller than what was refused
        window = min(window, prompt_tokens(state.get("context_tokens", 0), shown_prompt(state, run)))
    done = await compact(
        state,
        ask=model.ask,
        system=system_message(state["workspace"], run.system_prompt),
        keep_turns=min(settings.keep_turns, KEPT_WHEN_ASKED) if asked else settings.keep_turns,
        room_tokens=int(window * settings.compact_at),
        window_tokens=min(model.window, window) if burst else model.window,
    )
    if done is None:
        if state.get("compact_asked", False):
            run.emit(AgentNotice(content="There is nothing to fold: the last turns stay as they are."))
        return RunState(compact_asked=False)
    run.emit(AgentNotice(content=done.told))
    spent = report_spent(done.replies, state, run, phase="compact") if done.replies else RunState()
    return RunState(**spent, compaction=done.compaction, context_tokens=done.tokens, compact_asked=False)
