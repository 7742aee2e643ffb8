"""The conversation as a prompt shows it: all of it, or a head that stands for the older part and the rest.

The messages themselves stay in the thread for ever; only what is sent changes, and only at a compaction.
"""

from collections.abc import Sequence
from functools import lru_cache

from langchain_core.messages import AnyMessage, HumanMessage

from lockstitch.graph.note import HEAD, NOTE
from lockstitch.state.run_state import Compaction


def shown(messages: Sequence[AnyMessage], compaction: Compaction | None) -> list[AnyMessage]:
    """The messages of a prompt, without the system's.

    Everything where nothing was compacted, and where the thread no longer holds the message that the head
    reaches to: it was cleared, or goes on from before.
    """
    at = place_of_end(messages, compaction)
    if compaction is None or at is None:
        return list(messages)
    return [head_message(compaction["head"]), *messages[at + 1 :]]


def place_of_end(messages: Sequence[AnyMessage], compaction: Compaction | None) -> int | None:
    """The place of the last message that the head stands for; None where there is none."""
    if compaction is None:
        return None
    ends = (at for at in range(len(messages) - 1, -1, -1) if messages[at].id == compaction["through"])
    return next(ends, None)


@lru_cache(maxsize=64)  # the same object at every step, so that a model encodes it once
def head_message(text: str) -> HumanMessage:
    """The note that is sent in the place of the older messages."""
    return HumanMessage(text, additional_kwargs={NOTE: True, HEAD: True})
