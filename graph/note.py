"""Messages that neither the person nor the model wrote: notes to the model, and notices to people.

A note is stored as a human message, since no provider takes two assistant messages in a row; a notice as
the assistant's, since chat clients show that. Both are marked, so that nobody takes one for what it is not.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

NOTE: Final = "lockstitch_note"
NOTICE: Final = "lockstitch_notice"
HEAD: Final = "lockstitch_head"  # marks the note that stands for what the person and the model said before


def note(text: str, *, mark: str | None = None) -> HumanMessage:
    """What the agent says to the model; `mark` tells one kind of note from the others."""
    return HumanMessage(text, additional_kwargs={NOTE: True, **({mark: True} if mark else {})})


def is_note(message: BaseMessage) -> bool:
    """Whether the agent said it to the model."""
    return NOTE in message.additional_kwargs


def notice(text: str) -> AIMessage:
    """What chat clients show and no model is ever given: how a run ended, when no model said it."""
    return AIMessage(text, additional_kwargs={NOTICE: True})


def is_notice(message: BaseMessage) -> bool:
    """Whether it is for people alone."""
    return NOTICE in message.additional_kwargs


def without_notices(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """What a model is given of them."""
    return [message for message in messages if NOTICE not in message.additional_kwargs]


def since_question(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The person's last message and all that came after it; nothing when no person spoke.

    Where it was folded into a head, from that on.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, HumanMessage) and (HEAD in message.additional_kwargs or not is_note(message)):
            return list(messages[at:])
    return []
