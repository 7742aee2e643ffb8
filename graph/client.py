"""The live side of a run: who hears it, who pays, who can be asked, and what a person types meanwhile.

Lives as long as one leg of a run and is never stored: what is in here leaves no trace.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from uuid import uuid4

from langchain_core.messages import HumanMessage

from lockstitch.graph.models.source import ModelSource
from lockstitch.state.events import Event

Listener = Callable[[Event], None]
"""Takes an event with its place; called in worker threads, too, and must be quick."""


class Inbox:
    """What a person typed while the run goes on; each message is handed to the next plan.

    A message stays in here, so that a step which is cut off and runs again hands it over again.
    """

    def __init__(self) -> None:
        self._typed: list[HumanMessage] = []

    def put(self, text: str) -> None:
        """Add a message."""
        self._typed.append(HumanMessage(text, id=str(uuid4())))

    def texts(self) -> list[str]:
        """What is in here."""
        return [message.text for message in self._typed]

    def forget(self, known: Collection[str | None]) -> None:
        """Drop the messages whose ids the thread has."""
        self._typed = self.beyond(known)

    def beyond(self, known: Collection[str | None]) -> list[HumanMessage]:
        """The messages whose ids are not among those the thread has."""
        return [message for message in self._typed if message.id not in known]


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who began a run and follows it.

    Attributes:
        models: opened with a key of the client's own, for this run alone.
        answers: somebody is there who can be asked whether to go on past a limit.
        streams: somebody reads replies while they are written.
        last_seq: the floor of event numbers: more may have been told than the thread knows of.
    """

    hear: Listener
    models: ModelSource | None = None
    answers: bool = False
    streams: bool = False
    last_seq: int = 0
    inbox: Inbox = field(default_factory=Inbox)
