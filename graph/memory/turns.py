"""Turns of a conversation: where it can be cut without parting a call from its results."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from lockstitch.graph.memory.window import chars_of, estimate_tokens
from lockstitch.graph.note import is_note, is_notice


def split_turns(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """The messages turn by turn, none left out.

    A turn is a reply of the model with what came of it, be it tool messages or notes. A person's message
    opens the turn of the reply that follows.
    """
    turns: list[list[AnyMessage]] = []
    replied = True
    for message in messages:
        is_reply = isinstance(message, AIMessage) and not is_notice(message)
        if not turns or (replied and (is_reply or is_persons(message))):
            turns.append([])
            replied = False
        turns[-1].append(message)
        replied = replied or is_reply
    return turns


def is_persons(message: AnyMessage) -> bool:
    """Whether a person wrote it."""
    return isinstance(message, HumanMessage) and not is_note(message)


def tail_of(turns: Sequence[Sequence[AnyMessage]], *, keep: int, room_tokens: int) -> int:
    """How many of the last turns stay as they are: at most `keep`, as many as fit, at least one."""
    fitting, used = 0, 0
    for turn in list(reversed(turns))[:keep]:
        used += estimate_tokens(chars_of(turn))
        if used > room_tokens:
            break
        fitting += 1
    return max(1, fitting)
