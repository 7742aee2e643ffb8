"""One call in a text: `tool(arg=value, ...)`, the same with a JSON object, or a name with its input below.

Places an argument given without a name by the tool's schema. Does not know where in a reply calls stand.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from lockstitch.graph.models.port import ToolSchemas
from lockstitch.graph.strategies.text_labels import INPUT, LABEL
from lockstitch.graph.strategies.text_values import Value, ValueReader
from lockstitch.graph.tool_calls import ReadCall

Parameters = Mapping[str, Mapping[str, Any]]

NAME: Final = re.compile(r"[^\W\d](?:[\w.-]{0,126}\w)?")
CLOSING_MARKS: Final = re.compile(r"[ \t]{0,3}[`*\"']{0,3}[ \t]{0,3}")  # of a name in `backticks` or bold
LEAD: Final = re.compile(r"(?:\s|(?:`{3,}|~{3,})[\w+.#-]*[ \t]*\n|[`*]|[-•][ \t]|\d{1,2}[.)][ \t])*+")
LINE_END: Final = re.compile(r"[.;,!]?[ \t`*]*(?=\n|$)")
NOTHING: Final = re.compile(
    r"[\"'(`]*(?:none|null|n/a|nothing|no action)\b[^\n(]{0,40}(?=\n|$)", re.IGNORECASE
)
_ARGUMENT: Final = re.compile(r"([^\W\d]\w*)\s*(?:=|:)")
_BLANK: Final = re.compile(r"\s*")
_JOINED: Final = re.compile(r"[(\[]|[ \t]*(?:\.[^\W\d]|\+|\||&&|[)\]}])")
_NAME_KEYS: Final = ("name", "tool", "tool_name", "action", "function")
_ARGS_KEYS: Final = ("arguments", "args", "parameters", "tool_input", "action_input", "input")


@dataclass(frozen=True)
class Arguments:
    """What stood in the brackets: values without a name in order, then those with one."""

    positional: list[Value] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)


def parameters_of(tools: ToolSchemas) -> dict[str, Parameters]:
    """The JSON schema of every argument, by tool and in the schema's order."""
    functions = [tool["function"] for tool in tools]
    return {f["name"]: f.get("parameters", {}).get("properties", {}) for f in functions}


def read_call(reader: ValueReader, tools: Mapping[str, Parameters]) -> ReadCall:
    """The call that stands here, with an id of its own.

    Raises:
        ToolValidationError: it does not fit the notation, or something is joined to it.
    """
    if reader.text.startswith("{", reader.at):
        call = _read_json_call(reader, tools)
    else:
        name, given = _read_spoken_call(reader)
        call = make_call(name, given, tools)
    if _JOINED.match(reader.text, reader.at):
        reader.fail("a call is an expression of its own and nothing may be joined to it")
    return call


def make_call(name: str, given: Arguments, tools: Mapping[str, Parameters]) -> ReadCall:
    """The call with an id of its own; what cannot be placed is its fault."""
    own = f"call_{uuid4().hex[:24]}"
    if name not in tools:
        return ReadCall(own, name, given.named)  # refused by name, with the nearest ones
    args, fault = _place(given, tools[name])
    return ReadCall(own, name, args, f"{name}: {fault}" if fault else "")


def _read_json_call(reader: ValueReader, tools: Mapping[str, Parameters]) -> ReadCall:
    """A call written as `{"name": ..., "arguments": {...}}`, under the keys that models use elsewhere."""
    value = reader.value()
    held = value if isinstance(value, dict) else {}
    name = next((held[key] for key in _NAME_KEYS if key in held), None)
    args = next((held[key] for key in _ARGS_KEYS if key in held), {})
    if not isinstance(name, str) or not isinstance(args, dict) or held.keys() - {*_NAME_KEYS, *_ARGS_KEYS}:
        reader.fail("an action as JSON holds a name and an object of arguments, and nothing else")
    return make_call(name, Arguments(named=args), tools)


def _read_spoken_call(reader: ValueReader) -> tuple[str, Arguments]:
    reader.take('"')
    name = reader.skip(NAME)
    if not name:
        reader.fail("the name of a tool is missing")
    reader.skip(CLOSING_MARKS)
    if reader.text.startswith("{", reader.at):
        return name, _read_input(reader)
    if reader.text.startswith("(", reader.at):
        reader.at += 1
        return name, _with_input(reader, _read_brackets(reader))
    if not LINE_END.match(reader.text, reader.at):
        reader.fail(f"brackets with the arguments are missing behind {name!r}")
    return name, _with_input(reader, Arguments())


def _read_brackets(reader: ValueReader) -> Arguments:
    """The arguments up to the closing bracket; the opening one is behind the reader."""
    given = Arguments()
    while not reader.take(")"):
        _read_argument(reader, given)
        if not reader.take(",") and not reader.text.startswith(")", reader.at):
            reader.fail(
                'a comma or the closing bracket is missing (a quote inside a value is written \\", or the '
                "value stands in triple quotes)"
            )
    return given


def _read_argument(reader: ValueReader, given: Arguments) -> None:
    reader.skip(_BLANK)
    bare = _ARGUMENT.match(reader.text, reader.at)
    if bare:
        reader.at = bare.end()
        _read_named(reader, given, bare[1])
        return
    quoted = reader.text.startswith(('"', "'"), reader.at)
    value = reader.value()
    if quoted and isinstance(value, str) and (reader.take(":") or reader.take("=")):
        _read_named(reader, given, value)
        return
    if given.named:
        reader.fail("an argument without a name stands behind one with a name")
    given.positional.append(value)


def _read_named(reader: ValueReader, given: Arguments, name: str) -> None:
    if name in given.named:
        reader.fail(f"the argument {name!r} comes twice")
    given.named[name] = reader.value()


def _with_input(reader: ValueReader, given: Arguments) -> Arguments:
    """The arguments, from an `Action Input:` below where there is one."""
    below = ValueReader(reader.text, reader.at)
    below.skip(LINE_END)
    if not below.skip(INPUT):
        return given
    if given.positional or given.named:
        below.fail("the arguments are given twice: in the brackets and below")
    below.skip(LEAD)
    reader.at = below.at
    if below.at >= len(below.text) or LABEL.match(below.text, below.at) or reader.skip(NOTHING):
        return given
    return _read_input(reader)


def _read_input(reader: ValueReader) -> Arguments:
    """What stands below a name: a JSON object, or the value of the first argument."""
    value = reader.value()
    return Arguments(named=value) if isinstance(value, dict) else Arguments(positional=[value])


def _place(given: Arguments, parameters: Parameters) -> tuple[dict[str, Value], str]:
    """The arguments by name, and why they cannot be placed; empty when they can."""
    names = list(parameters)
    alone = given.positional[0] if len(given.positional) == 1 and not given.named else None
    if isinstance(alone, dict) and (set(alone) <= set(names) or not _takes_object(parameters)):
        return alone, ""
    if len(given.positional) > len(names):
        return {}, f"it takes {len(names)} arguments at most: {', '.join(names) or 'none'}"
    placed = dict(zip(names, given.positional, strict=False))
    twice = sorted(placed.keys() & given.named.keys())
    if twice:
        return {}, f"the argument {twice[0]!r} is given twice: by its place and by its name"
    return placed | given.named, ""


def _takes_object(parameters: Parameters) -> bool:
    """Whether an object may be the value of the first argument."""
    first = next(iter(parameters.values()), {})
    choices = [first, *first.get("anyOf", []), *first.get("oneOf", [])]
    closed = first.keys() & {"type", "anyOf", "oneOf", "enum", "const"}
    return not closed or any(choice.get("type") == "object" or "$ref" in choice for choice in choices)
