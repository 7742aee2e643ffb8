"""What a strategy is: it decides how the model is asked in a step, and what the answer means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from lockstitch.graph.models.port import ModelPort, ToolSchemas
from lockstitch.graph.tool_calls import ReadCall
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.run_state import CallOutcome
from lockstitch.state.todos import Todo


class Turn(Protocol):
    """What a strategy may look at in a step. Each is worked out when it is first looked at."""

    @property
    def prompt(self) -> Sequence[BaseMessage]:
        """System prompt and history, ready to be sent; what is sent beyond it goes at its end."""

    @property
    def model(self) -> ModelPort:
        """The model chosen for this call."""

    @property
    def tools(self) -> ToolSchemas:
        """Schemas of the tools that this run may call."""

    @property
    def todos(self) -> Sequence[Todo]:
        """The TODO list."""

    @property
    def question(self) -> str:
        """What the person asked last."""

    @property
    def step(self) -> int:
        """Counts from 1 in a run."""

    @property
    def max_steps(self) -> int:
        """Steps the run may take."""

    @property
    def one_call(self) -> bool:
        """Make one call a step, where a strategy has the choice."""

    @property
    def files(self) -> Sequence[str]:
        """Paths that the last calls named, the latest first."""

    def load_prompt(self, name: str) -> str:
        """The text of a prompt by name; a person may have replaced it.

        Raises:
            SettingsError: the person's file cannot be read.
        """


@dataclass(frozen=True, kw_only=True)
class Thought:
    """What the model's turn came to.

    Attributes:
        reply: stored in the conversation as the model's words.
        calls: to be approved and executed, in order; ids as in `reply` where it has tool calls.
        before: messages the model was given at the end of the prompt, stored ahead of the reply so that
            the next prompt begins with the whole of this one.
        answer: the run's final words, when it ends here.
        reason: why it ends, with an answer.
        replies: every reply of the model in this turn, for the count of tokens; `reply` when empty.
    """

    reply: AIMessage
    calls: Sequence[ReadCall] = ()
    before: Sequence[AnyMessage] = ()
    answer: str | None = None
    reason: TerminationReason = "answered"
    replies: Sequence[AIMessage] = ()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the results of a step came to.

    Attributes:
        messages: stored in the conversation; they answer every call of the step.
        summary: for the step's record; the calls with their outcome when empty.
        answer: the run's final words, when it ends here.
        replies: of the model, when it was asked, for the count of tokens.
    """

    messages: Sequence[AnyMessage]
    summary: str = ""
    answer: str | None = None
    reason: TerminationReason = "answered"
    replies: Sequence[AIMessage] = ()


class Strategy(Protocol):
    """A way of thinking. Holds no state of its own: one object serves every run."""

    @property
    def name(self) -> str:
        """How a setting or a request chooses it."""

    async def think(self, turn: Turn) -> Thought:
        """The model's turn of one step.

        Raises:
            ModelError: the model cannot be reached or refused.
        """

    async def observe(self, turn: Turn, outcomes: Sequence[CallOutcome]) -> Observation:
        """What the results mean; `turn.prompt` ends with the reply that made the calls.

        Raises:
            ModelError: as `think`.
        """
