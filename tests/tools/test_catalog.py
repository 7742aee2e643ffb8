"""Which tools there are: ours, and a user's own by setting or entry point."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstitch.state.errors import SettingsError
from lockstitch.tools.catalog import BUILT_IN, build_registry

MODULE = """
from langchain_core.tools import tool

@tool
def shout(text: str) -> str:
    "Shout."
    return text.upper()

@tool
def read_file(path: str) -> str:
    "Takes the name of one of ours."
    return path

no_tool = 7
"""
EFFECTS = {
    "read_file": "read", "write_file": "edit", "edit_file": "edit", "list_directory": "read",
    "apply_patch": "edit",
    "move_file": "edit", "delete_file": "delete", "grep_files": "read", "run_command": "command",
    "search_code": "read",
    "create_tasks": "state", "update_task_status": "state", "get_tasks": "state", "request_input": "person",
    "start_process": "command", "read_process": "read", "stop_process": "state",
    "recall": "state", "remember": "state", "web_search": "network", "fetch_url": "network",
}  # fmt: skip


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_tools_x.py").write_text(MODULE)
    (tmp_path / "own_broken_x.py").write_text("import a_package_that_is_not_there")
    yield tmp_path
    for name in ("own_tools_x", "own_broken_x", "own_offer_x"):
        sys.modules.pop(name, None)


def offer(folder: Path, value: str) -> None:
    """An installed distribution that offers a tool by entry point."""
    info = folder / "own_offer_x-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-offer-x\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[lockstitch.tools]\nshout = {value}\n")


def test_every_tool_of_ours_states_its_effect() -> None:
    assert {tool.name: tool.effect for tool in build_registry().list()} == EFFECTS
    assert all(tool.takes_context for tool in build_registry().list())


def test_every_argument_but_a_switch_is_described_to_the_model() -> None:
    for tool in build_registry().list():
        for name, field in tool.parameters.items():
            assert field.get("description") or field.get("type") == "boolean", f"{tool.name}: {name}"
        assert "call" not in tool.parameters


def test_a_tool_named_in_the_settings_comes_behind_ours_and_asks(own_modules: Path) -> None:
    last = build_registry(("own_tools_x:shout",)).list()[-1]
    assert (last.name, last.effect) == ("shout", "unknown")


def test_a_tool_of_an_installed_package_is_found(own_modules: Path) -> None:
    offer(own_modules, "own_tools_x:shout")
    assert build_registry().get("shout").effect == "unknown"


@pytest.mark.parametrize(
    "reference",
    [
        "own_tools_x:absent", "own_tools_x:no_tool", "own_tools_x", "nowhere_x:shout", "own_broken_x:shout",
        ":shout", ".own_tools_x:shout", "",
    ],
)  # fmt: skip
def test_a_reference_to_no_tool_is_a_wrong_setting(own_modules: Path, reference: str) -> None:
    with pytest.raises(SettingsError) as caught:
        build_registry((reference,))
    assert repr(reference) in caught.value.message


def test_a_tool_with_the_name_of_ours_is_a_wrong_setting(own_modules: Path) -> None:
    with pytest.raises(SettingsError, match="already is a tool named 'read_file'"):
        build_registry(("own_tools_x:read_file",))


def test_a_package_whose_tool_cannot_be_loaded_is_named(own_modules: Path) -> None:
    offer(own_modules, "own_broken_x:shout")
    with pytest.raises(SettingsError, match="own_broken_x:shout"):
        build_registry()


def test_our_own_tools_come_first_and_in_one_order() -> None:
    assert [tool.name for tool in build_registry().list()] == [tool.name for tool in BUILT_IN]
