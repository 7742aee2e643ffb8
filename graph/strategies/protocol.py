"""What a strategy is: the one place that decides how the model is asked in a step."""

from collections.abc import Sequence
from typing import Protocol

from langchain_core.messages import AIMessage, BaseMessage

from lockstitch.graph.models.port import ModelPort, ToolSchemas


class Strategy(Protocol):
    """A way of thinking. Holds no state of its own: one object serves every run."""

    @property
    def name(self) -> str:
        """How a setting or a request chooses it."""

    async def think(
        self, prompt: Sequence[BaseMessage], model: ModelPort, *, tools: ToolSchemas
    ) -> AIMessage:
        """The model's turn of one step: text, tool calls, or both. No tool call means it answers.

        Raises:
            ModelError: the model cannot be reached or refused.
        """
