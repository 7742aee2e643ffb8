"""The conversation as a model is shown it, and its repair after a run that was cut off."""

import platform
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from lockstitch.graph.memory.view import shown
from lockstitch.graph.note import without_notices
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.routing import waits
from lockstitch.state.run_state import CallOutcome, Compaction, PlannedCall, RunState

INTERRUPTED = (
    "Error: the run was cut off during this call, so its result is unknown and it may have been made. "
    "Look at the files before you repeat it."
)
NOT_KEPT = "Error: what this command changed was not kept: the person was asked, and sent something new."
NEVER_MADE = "Error: this call was not made: it waited for the person, who sent something new instead."


def prompt_for(
    messages: Sequence[AnyMessage],
    *,
    workspace: str,
    extra: str = "",
    compaction: Compaction | None = None,
) -> list[BaseMessage]:
    """System prompt and history, with `extra` as a preset's part of the former.

    Between two compactions each prompt is the one before plus an ending, so that caches hit.
    """
    return [system_message(workspace, extra), *without_notices(shown(messages, compaction))]


@lru_cache(maxsize=64)  # the same object at every step, so that a model encodes it once
def system_message(workspace: str, extra: str = "") -> SystemMessage:
    """The system prompt for a run in that folder."""
    ours = load_prompt("system").format(workspace=workspace, platform=platform.system())
    return SystemMessage(f"{ours}\n\n{extra}" if extra else ours)


def new_part(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What came since the model last spoke."""
    newest: list[AnyMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        newest.append(message)
    return newest[::-1]


def answer_of(outcome: CallOutcome) -> ToolMessage:
    """The message that tells the model what its call came to."""
    status: Literal["success", "error"] = "success" if outcome["success"] else "error"
    return ToolMessage(outcome["output"], tool_call_id=outcome["id"], name=outcome["tool"], status=status)


def answers_at_hand(state: RunState) -> dict[str, ToolMessage]:
    """What is known, by call id, of a step that was cut off: results, or that nobody approved."""
    waiting = {call["id"]: _unanswered(call) for call in state.get("calls", []) if waits(call)}
    return waiting | {outcome["id"]: answer_of(outcome) for outcome in state.get("outcomes", [])}


def _unanswered(call: PlannedCall) -> ToolMessage:
    words = NOT_KEPT if "pending" in call else NEVER_MADE
    return ToolMessage(words, tool_call_id=call["id"], name=call["tool"], status="error")


def repair_unanswered(
    messages: Sequence[AnyMessage], at_hand: Mapping[str, ToolMessage]
) -> list[AnyMessage | RemoveMessage]:
    """Writes that give every unanswered tool call its answer, in its place.

    A provider refuses a conversation in which a tool call has no result right after it. Messages that
    came behind the unanswered call (the person's next one) are taken out and put back after the answers.
    """
    at = _last_unanswered(messages)
    if at is None:
        return []
    caller = messages[at]
    assert isinstance(caller, AIMessage)
    behind = list(messages[at + 1 :])
    answered = {m.tool_call_id for m in behind if isinstance(m, ToolMessage)}
    answers: list[AnyMessage | RemoveMessage] = [
        at_hand.get(str(call["id"]))
        or ToolMessage(INTERRUPTED, tool_call_id=str(call["id"]), name=call["name"], status="error")
        for call in caller.tool_calls
        if call["id"] not in answered
    ]
    late = [m for m in behind if not isinstance(m, ToolMessage)]
    return [*(RemoveMessage(id=str(m.id)) for m in late), *answers, *late]


def _last_unanswered(messages: Sequence[AnyMessage]) -> int | None:
    """Only the last reply can be cut off: every earlier one was answered before the next was asked for."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AIMessage) and message.tool_calls:
            answered = {m.tool_call_id for m in messages[at + 1 :] if isinstance(m, ToolMessage)}
            return at if any(call["id"] not in answered for call in message.tool_calls) else None
    return None
