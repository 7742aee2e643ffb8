"""One step of reasoning for a client that runs the tools itself. Keeps nothing and touches no tool."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from lockstitch.graph.context.budget import CHARS_PER_TOKEN
from lockstitch.graph.models.port import ModelPort, ToolSchemas
from lockstitch.graph.note import note
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.strategies.text_calls import LEAD, parameters_of, read_call
from lockstitch.graph.strategies.text_labels import LABEL
from lockstitch.graph.strategies.text_protocol import ParsedReply, parse_reply
from lockstitch.graph.strategies.text_values import ValueReader, render_call
from lockstitch.graph.tool_calls import ReadCall
from lockstitch.state.errors import ToolValidationError

NO_TOOLS: Final = "(none: answer without them)"
CUT: Final = "[The earlier part of this conversation was left out: it did not fit.]"
# `name(a, b=1, c: string)` as people and our own descriptions write a tool; what stands in the brackets
# is short, so that prose with brackets in it costs nothing.
_SIGNATURE: Final = re.compile(
    r"^[ \t>#*`\-\d.]{0,12}([^\W\d]\w{0,127})[ \t]?\(([^()\n]{0,500})\)", re.MULTILINE
)
_ARGUMENT: Final = re.compile(r"[ \t*]*([^\W\d]\w*)")


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call as the client made it, or is to make it; `raw` is the model's text for it."""

    tool: str
    args: dict[str, Any]
    raw: str = ""


@dataclass(frozen=True, kw_only=True)
class ClientTurn:
    """One turn of the conversation that the client keeps.

    Attributes:
        content: what was said; of an observation the result of the call before it.
        call: the assistant's.
    """

    role: Literal["user", "assistant", "tool_observation"]
    content: str = ""
    call: ToolCall | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What one step is asked to do.

    Attributes:
        history: the oldest first, with the person's last words or the last observation at its end.
        tools: the client's description of its tools, in its own words.
        context: what there is to know; "" where there is nothing.
        steps_left: counting this one.
        prompt_tokens: the longest prompt, a token being four characters.
    """

    history: Sequence[ClientTurn]
    tools: str
    context: str
    steps_left: int
    prompt_tokens: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the step came to: an action for the client, or an answer."""

    thought: str
    action: ToolCall | None
    answer: str | None


async def react_step(asked: Asked, model: ModelPort) -> Step:
    """Ask the model once. What cannot be read as an action is an answer.

    Raises:
        ModelError: the model cannot be reached or refused.
    """
    reply = await model.ask(_prompt(asked))
    return read_step(reply.text, described_tools(asked.tools))


def read_step(text: str, tools: ToolSchemas) -> Step:
    """What a reply says."""
    parsed = parse_reply(text, tools)
    call = parsed.calls[0] if parsed.calls else None
    if call is None or call.fault:
        return Step(thought=parsed.thought, action=None, answer=parsed.answer or text.strip())
    action = ToolCall(tool=call.tool, args=call.args, raw=_raw(text, parsed, call, tools))
    return Step(thought=parsed.thought, action=action, answer=None)


def described_tools(text: str) -> ToolSchemas:
    """The tools that a description names as `name(argument, ...)`, so that arguments find their names."""
    return [
        {"function": {"name": name, "parameters": {"properties": {a: {} for a in _arguments(inside)}}}}
        for name, inside in _SIGNATURE.findall(text)
    ]


def _arguments(inside: str) -> list[str]:
    found = (_ARGUMENT.match(part) for part in inside.split(","))
    return [match[1] for match in found if match]


def _raw(text: str, parsed: ParsedReply, call: ReadCall, tools: ToolSchemas) -> str:
    """The model's own text for the call; written anew where it cannot be found again."""
    whole, parameters = (parsed.kept or text).replace("\r\n", "\n"), parameters_of(tools)
    for line in re.finditer(r"^.*$", whole, re.MULTILINE):
        label = LABEL.match(whole, line.start(), line.end())
        if label is None or not label["word"].lower().startswith("action"):
            continue
        reader = ValueReader(whole, label.end())
        reader.skip(LEAD)
        start = reader.at
        try:
            found = read_call(reader, parameters)
        except ToolValidationError:
            continue
        if (found.tool, found.args) == (call.tool, call.args):
            return whole[start : reader.at].strip()
    return render_call(call.tool, call.args)


def _prompt(asked: Asked) -> list[BaseMessage]:
    """The prompt within its length: the newest turns, and of the others as many as fit."""
    told = load_prompt("react_step").replace("{left}", str(asked.steps_left))
    head: list[BaseMessage] = [SystemMessage(told.replace("{tools}", asked.tools.strip() or NO_TOOLS))]
    if asked.context:
        head.append(note(asked.context))
    room = asked.prompt_tokens * CHARS_PER_TOKEN - sum(len(message.text) for message in head)
    kept: list[BaseMessage] = []
    for message in reversed([_message(turn, before) for turn, before in _pairs(asked.history)]):
        room -= len(message.text)
        if kept and room < 0:
            kept.append(note(CUT))
            break
        kept.append(message)
    return [*head, *reversed(kept)]


def _pairs(history: Sequence[ClientTurn]) -> list[tuple[ClientTurn, ClientTurn | None]]:
    return list(zip(history, [None, *history], strict=False))


def _message(turn: ClientTurn, before: ClientTurn | None) -> BaseMessage:
    call = before.call if before else None
    match turn.role:
        case "user":
            return HumanMessage(turn.content)
        case "assistant":
            action = f"Action: {render_call(turn.call.tool, turn.call.args)}" if turn.call else ""
            return AIMessage("\n".join(part for part in (turn.content, action) if part) or "(nothing)")
        case _:
            made = f" of {render_call(call.tool, call.args)}" if call else ""
            return HumanMessage(f"Observation{made}: {turn.content}")
