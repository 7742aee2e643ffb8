"""llm-only: for models without native tool calling; tools are described, called and answered in text."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from lockstitch.graph.models.port import ToolSchemas
from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.protocol import Observation, Thought, Turn
from lockstitch.graph.strategies.text_protocol import ParsedReply, parse_reply
from lockstitch.graph.strategies.text_values import render_call
from lockstitch.graph.tool_calls import ReadCall, checked, with_calls
from lockstitch.state.run_state import CallOutcome

UNREAD: Final = "reply"  # in place of a tool's name, where a reply could not be read
DESCRIPTION_LINES: Final = 8  # of a tool, in the prompt; ours have up to 7 lines
CALL_CHARS: Final = 120  # of a call, in front of its result: enough to tell two calls apart


class LlmOnly:
    """The strategy for models that only write text."""

    name = "llm-only"

    async def think(self, turn: Turn) -> Thought:
        """Ask once, without tools; the protocol and the tools stand behind the system prompt."""
        raw = await turn.model.ask(prompt_with_protocol(turn.prompt, turn.tools))
        parsed = parse_reply(raw.text, turn.tools)
        return Thought(reply=_as_text(raw, parsed), calls=calls_of(parsed), answer=parsed.answer)

    async def observe(self, turn: Turn, outcomes: Sequence[CallOutcome]) -> Observation:
        """All results in one message, in the order of the calls; such models take no tool messages."""
        calls = calls_of(parse_reply(turn.prompt[-1].text, turn.tools)) if turn.prompt else []
        shown = [_shown(call) for call in calls]
        if [call.tool for call in calls] != [outcome["tool"] for outcome in outcomes]:
            shown = [f"{outcome['tool']}(…)" for outcome in outcomes]
        told = [f"Observation of {what}: {o['output']}" for what, o in zip(shown, outcomes, strict=True)]
        return Observation(messages=[note("\n\n".join(told))])


def calls_of(parsed: ParsedReply) -> list[ReadCall]:
    """What is to be made; a fault is a call that is refused, so that it comes back as an observation."""
    calls = [checked(call) for call in parsed.calls]
    if not parsed.fault:
        return calls
    return [*calls, ReadCall(f"call_{uuid4().hex[:24]}", UNREAD, fault=parsed.fault)]


def prompt_with_protocol(prompt: Sequence[BaseMessage], tools: ToolSchemas) -> list[BaseMessage]:
    """The prompt with the protocol at the end of its system message.

    In the same message, since many models' templates take one system message, and only the first.
    """
    has_system = bool(prompt) and isinstance(prompt[0], SystemMessage)
    system = prompt[0].text if has_system else ""
    return [_system_message(system, describe_tools(tools)), *prompt[1 if has_system else 0 :]]


def describe_tools(tools: ToolSchemas) -> str:
    """The tools as text, the same for the same tools."""
    return "\n\n".join(_describe(tool["function"]) for tool in tools) or "(none: answer without them)"


@lru_cache(maxsize=64)  # the same object at every step, so that a model encodes it once
def _system_message(system: str, tools: str) -> SystemMessage:
    protocol = load_prompt("llm_only").replace("{tools}", tools)
    return SystemMessage("\n\n".join(part for part in (system, protocol) if part))


def _as_text(raw: AIMessage, parsed: ParsedReply) -> AIMessage:
    """The reply as it is stored: text alone, up to the first result that the model made up."""
    return with_calls(raw, (), content=parsed.kept or raw.text)


def _shown(call: ReadCall) -> str:
    """The call in front of its result, clipped."""
    if call.tool == UNREAD and call.fault:
        return "your reply"
    text = render_call(call.tool, call.args)
    return text if len(text) <= CALL_CHARS else f"{text[:CALL_CHARS]}…)"


def _describe(function: Mapping[str, Any]) -> str:
    parameters = function.get("parameters", {})
    properties = parameters.get("properties", {})
    required = parameters.get("required", [])
    arguments = [
        f"{name}: {_type_of(schema)}{'' if name in required else _default_of(schema)}"
        for name, schema in properties.items()
    ]
    notes = [f"{name}: {s['description']}" for name, s in properties.items() if "description" in s]
    lines = [*str(function.get("description", "")).splitlines()[:DESCRIPTION_LINES], *notes]
    return "\n".join(
        [f"{function['name']}({', '.join(arguments)})", *(f"  {line}" for line in lines if line)]
    )


def _default_of(schema: Mapping[str, Any]) -> str:
    return f" = {json.dumps(schema.get('default'), ensure_ascii=False)}"


def _type_of(schema: Mapping[str, Any]) -> str:
    """The type in words: string, integer or null, list of string."""
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    choices: Iterable[Mapping[str, Any]] = schema.get("anyOf") or schema.get("oneOf") or ()
    if choices:
        return " or ".join(_type_of(choice) for choice in choices)
    kind = schema.get("type", "object" if "$ref" in schema else "any")
    if kind == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
