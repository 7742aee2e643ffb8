"""tool-first: the first reply of a run must call a tool, after that as react."""

from dataclasses import replace

from langchain_core.messages import AnyMessage

from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.protocol import Thought, Turn
from lockstitch.graph.strategies.react import React, thought_of


class ToolFirst(React):
    """For tasks where an answer from memory is worth nothing: it looks before it speaks."""

    name = "tool-first"

    async def think(self, turn: Turn) -> Thought:
        """Ask once, with all tools; at the first step a reply without a call is told so once."""
        if turn.step > 1 or not turn.tools:
            return await super().think(turn)
        first = await turn.model.ask(turn.prompt, tools=turn.tools, must_call=True)
        if first.tool_calls or first.invalid_tool_calls:
            return thought_of(first)
        told: list[AnyMessage] = [note(load_prompt("tool_first"))]
        before = [first, *told] if first.text.strip() else told  # providers refuse an empty message
        second = await turn.model.ask([*turn.prompt, *before], tools=turn.tools, must_call=True)
        return replace(thought_of(second), before=before, replies=[first, second])
