"""Tools by name: their effect, the schema a model sees, and the choice among them."""

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool
from pydantic import BaseModel

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.catalog import BUILT_IN
from lockstitch.tools.context import CallContext
from lockstitch.tools.registry import Registry


@tool(extras={"effect": "read"})
def look(path: str, call: CallContext) -> str:
    """Look at a path.

    Example: look(path="a").
    """
    return path


@tool
def phone(call: str) -> str:
    """Call somebody; `call` is the number."""
    return call


@tool(extras={"effect": "harmless"})
def liar() -> str:
    """Claims an effect that there is none of."""
    return ""


def named(name: str) -> BaseTool:
    return StructuredTool.from_function(lambda: "", name=name, description=name)


def test_effect_comes_from_the_tools_extras() -> None:
    assert Registry([look]).get("look").effect == "read"


@pytest.mark.parametrize("silent", [phone, liar])
def test_a_tool_that_says_no_known_effect_is_unknown(silent: BaseTool) -> None:
    assert Registry([silent]).get(silent.name).effect == "unknown"


def test_the_model_sees_the_arguments_and_the_clean_text_but_not_the_context() -> None:
    function = Registry([look]).get("look").schema["function"]
    assert list(function["parameters"]["properties"]) == ["path"]
    assert function["description"] == 'Look at a path.\n\nExample: look(path="a").'


def test_context_goes_to_tools_that_hide_it_from_the_model_alone() -> None:
    registry = Registry([look, phone])
    assert registry.get("look").takes_context
    assert not registry.get("phone").takes_context
    assert list(registry.get("phone").parameters) == ["call"]


def test_a_tool_whose_schema_is_plain_json_is_registered() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    weather = StructuredTool(name="weather", description="Weather.", args_schema=schema, func=str)
    found = Registry([weather]).get("weather")
    assert list(found.parameters) == ["city"]
    assert not found.takes_context


def test_a_pydantic_schema_of_ones_own_is_registered() -> None:
    class Place(BaseModel):
        city: str

    weather = StructuredTool.from_function(
        lambda city: city, name="weather", description="Weather.", args_schema=Place
    )
    assert list(Registry([weather]).get("weather").parameters) == ["city"]


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(ToolValidationError, match="already is a tool named 'look'"):
        Registry([look, named("look")])


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ToolValidationError, match=r"no tool 'read_fil'. Did you mean read_file"):
        Registry(BUILT_IN).get("read_fil")


def test_a_name_near_many_is_answered_with_three() -> None:
    with pytest.raises(ToolValidationError) as caught:
        Registry([named(f"look{n}") for n in range(9)]).get("look")
    assert caught.value.message.count("look") == 1 + 3


def test_a_name_near_nothing_is_answered_with_how_to_see_all() -> None:
    with pytest.raises(ToolValidationError) as caught:
        Registry([named("a1"), named("b2")]).get("zzz")
    said = "there is no tool 'zzz', and none of the 2 has a name like it. `lockstitch tool` lists them."
    assert caught.value.message == said


def test_where_there_are_no_tools_that_is_said() -> None:
    with pytest.raises(ToolValidationError, match="there is no tool 'zzz', as there are no tools"):
        Registry().get("zzz")


def test_selection_keeps_the_registered_order() -> None:
    registry = Registry([named("a"), named("b"), named("c")])
    assert [found.name for found in registry.select(["c", "a"])] == ["a", "c"]
    assert [found.name for found in registry.select(None)] == ["a", "b", "c"]
    assert registry.select([]) == []


def test_selecting_an_unknown_tool_is_refused() -> None:
    with pytest.raises(ToolValidationError, match="no tool 'x'"):
        Registry([named("a")]).select(["a", "x"])


def test_a_tool_takes_its_context_as_it_is_and_asks_nothing_of_its_fields() -> None:
    model = look.args_schema
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    part = str(model.__pydantic_core_schema__)
    assert "is-instance" in part
    assert "dataclass" not in part
