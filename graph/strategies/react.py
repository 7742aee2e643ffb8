"""react: native tool calling, one model call a step; text without a tool call is the answer."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from lockstitch.graph.models.port import ModelPort, ToolSchemas


class React:
    """The default strategy."""

    name = "react"

    async def think(
        self, prompt: Sequence[BaseMessage], model: ModelPort, *, tools: ToolSchemas
    ) -> AIMessage:
        """Ask once, with all tools."""
        return await model.ask(prompt, tools=tools)
