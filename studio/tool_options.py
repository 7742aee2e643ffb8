"""A tool's arguments as options of a command, read from its JSON schema."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lockstitch.studio.visible import make_visible
from lockstitch.tools.registry import RegisteredTool

_SIMPLE: Final[dict[str, click.ParamType[Any]]] = {
    "string": click.STRING,
    "integer": click.INT,
    "number": click.FLOAT,
    "boolean": click.BOOL,
}


class JsonValue(click.ParamType[Any]):
    """A list or an object, written as JSON."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the JSON; what already is a value stays."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            self.fail(f"{value!r} is no JSON: {error}", param, ctx)


def build_tool_command(tool: RegisteredTool, call: Callable[..., int]) -> click.Command:
    """A command with an option for each argument; `call(args=, workspace=, as_json=)` makes the call."""
    required = tool.schema["function"]["parameters"].get("required", [])
    options = [
        _option(name, schema, place=place, needed=name in required)
        for place, (name, schema) in enumerate(tool.parameters.items())
    ]
    own = [option for option in _own_options() if not {*option.opts} & {o for p in options for o in p.opts}]

    def run(**given: Any) -> int:
        values = {name: given[f"arg_{place}"] for place, name in enumerate(tool.parameters)}
        args = {name: value for name, value in values.items() if value is not None}
        return call(args=args, workspace=given.get("workspace"), as_json=bool(given.get("as_json")))

    about = make_visible(tool.schema["function"]["description"])
    return click.Command(tool.name, params=[*options, *own], callback=run, help=about)


def _own_options() -> list[click.Option]:
    """Options of the call itself; an argument of the tool with the same name wins."""
    workspace = click.Option(
        ["--workspace"], type=click.Path(path_type=Path), help="Folder to work in; default the current one."
    )
    return [workspace, click.Option(["--json", "as_json"], is_flag=True, help="Write the result as JSON.")]


def _option(name: str, schema: Mapping[str, Any], *, place: int, needed: bool) -> click.Option:
    kind = _kind(schema)
    about = make_visible(str(schema.get("description", "")))
    if "default" in schema:
        about = f"{about} [default: {json.dumps(schema['default'])}]".strip()
    names = [f"--{name}", f"arg_{place}"]  # by place: another tool's argument may be no Python name
    if kind == "boolean":  # alone it means true; `--name=false` is possible
        return click.Option(
            names, type=click.BOOL, is_flag=False, flag_value="true", help=about, required=needed
        )
    return click.Option(names, type=_SIMPLE.get(kind, JsonValue()), help=about, required=needed)


def _kind(schema: Mapping[str, Any]) -> str:
    """The JSON type of an argument; of `X or null` it is X."""
    kinds = [schema, *schema.get("anyOf", [])]
    found = [str(kind["type"]) for kind in kinds if kind.get("type", "null") != "null"]
    return found[0] if len(found) == 1 else "any"
