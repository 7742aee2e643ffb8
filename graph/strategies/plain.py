"""plain: agent mode off. One model call without tools; its text is the answer."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from lockstitch.graph.strategies.protocol import Observation, Thought, Turn
from lockstitch.graph.tool_calls import with_calls
from lockstitch.state.run_state import CallOutcome


class Plain:
    """Answers like a chat model. Not among the strategies to choose from: agent mode chooses it."""

    name = "plain"

    async def think(self, turn: Turn) -> Thought:
        """Ask once; calls that the model made up are left out."""
        raw = await turn.model.ask(turn.prompt)
        called = raw.tool_calls or raw.invalid_tool_calls
        reply: AIMessage = with_calls(raw, (), content=raw.text) if called else raw
        return Thought(reply=reply, answer=reply.text.strip() or None, replies=[raw])

    async def observe(self, turn: Turn, outcomes: Sequence[CallOutcome]) -> Observation:  # noqa: ARG002
        """Nothing is called, so there is nothing to observe."""
        return Observation(messages=[])
