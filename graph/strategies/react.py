"""react: native tool calling, one model call a step; text without a tool call is the answer."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage

from lockstitch.graph.conversation import answer_of
from lockstitch.graph.strategies.protocol import Observation, Thought, Turn
from lockstitch.graph.tool_calls import read_reply
from lockstitch.state.run_state import CallOutcome


class React:
    """The default strategy."""

    name = "react"

    async def think(self, turn: Turn) -> Thought:
        """Ask once, with all tools."""
        return thought_of(await turn.model.ask(turn.prompt, tools=turn.tools))

    async def observe(self, turn: Turn, outcomes: Sequence[CallOutcome]) -> Observation:  # noqa: ARG002
        """Give the results to the model as they are."""
        return Observation(messages=[answer_of(outcome) for outcome in outcomes])


def thought_of(raw: AIMessage) -> Thought:
    """A reply with native tool calls as a thought: its text is the answer where it calls nothing."""
    reply, calls = read_reply(raw)
    answer = reply.text if not calls and reply.text.strip() else None
    return Thought(reply=reply, calls=calls, answer=answer)
