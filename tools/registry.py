"""The tools there are: LangChain tools by name, with their effect and the schema a model sees."""

import inspect
from collections.abc import Container, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, cast, get_args

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.permission.policy import Effect

NEAR_NAMES = 3  # told of those that come near a name that is none
CONTEXT_ARGUMENT = "call"  # how our tools name their CallContext parameter


@dataclass(frozen=True)
class RegisteredTool:
    """A tool with what the guard must know of it."""

    tool: BaseTool
    effect: Effect

    @cached_property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.tool.name

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The function schema in the OpenAI form, made once."""
        schema = convert_to_openai_tool(self.tool)
        schema["function"]["description"] = inspect.cleandoc(self.tool.description)
        return schema

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of each argument a caller may give, by name."""
        return cast("dict[str, Any]", self.schema["function"]["parameters"].get("properties", {}))

    @cached_property
    def takes_context(self) -> bool:
        """Whether it wants a ToolContext; tools of others do not, and may name an argument as we do."""
        schema = cast("type[BaseModel]", self.tool.get_input_schema())
        return CONTEXT_ARGUMENT in schema.model_fields and CONTEXT_ARGUMENT not in self.parameters


class Registry:
    """Tools by name, in the order they were registered."""

    def __init__(self, tools: Iterable[BaseTool] = ()) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: BaseTool) -> RegisteredTool:
        """Add a tool; its effect is `tool.extras["effect"]`, else `unknown`, which always asks.

        Raises:
            ToolValidationError: the name is taken.
        """
        if tool.name in self._tools:
            raise ToolValidationError(f"there already is a tool named {tool.name!r}: rename the new one.")
        effect = (tool.extras or {}).get("effect")
        known = cast("Effect", effect if effect in get_args(Effect) else "unknown")
        self._tools[tool.name] = RegisteredTool(tool, known)
        return self._tools[tool.name]

    def get(self, name: str) -> RegisteredTool:
        """The tool of that name.

        Raises:
            ToolValidationError: there is none; the message names at most three that come near.
        """
        found = self._tools.get(name)
        if found is None:
            raise ToolValidationError(f"there is no tool {name!r}{self._instead_of(name)}")
        return found

    def _instead_of(self, name: str) -> str:
        if not self._tools:
            return ", as there are no tools."
        if near := get_close_matches(name, self._tools, n=NEAR_NAMES):
            return f". Did you mean {', '.join(near)}?"
        return f", and none of the {len(self._tools)} has a name like it. `lockstitch tool` lists them."

    def select(self, names: Iterable[str] | None) -> list[RegisteredTool]:
        """The named tools, in registered order; all when `names` is None, none when it is empty."""
        if names is None:
            return self.list()
        wanted = set(names)
        for name in wanted:
            self.get(name)
        return [tool for tool in self._tools.values() if tool.name in wanted]

    def named(self, effects: Container[str]) -> frozenset[str]:
        """The names of the tools with one of these effects."""
        return frozenset(name for name, tool in self._tools.items() if tool.effect in effects)

    def list(self) -> list[RegisteredTool]:
        """All tools."""
        return list(self._tools.values())
