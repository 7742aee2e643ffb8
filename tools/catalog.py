"""Which tools there are: ours by name, and a user's own by setting or entry point."""

import sys
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter

from langchain_core.tools import BaseTool

from lockstitch.state.errors import SettingsError, ToolValidationError
from lockstitch.tools.background import read_process, start_process, stop_process
from lockstitch.tools.command import run_command
from lockstitch.tools.edit import edit_file
from lockstitch.tools.fetch_url import fetch_url
from lockstitch.tools.files import delete_file, list_directory, move_file, read_file, write_file
from lockstitch.tools.grep import grep_files
from lockstitch.tools.patch import apply_patch
from lockstitch.tools.powershell import run_powershell
from lockstitch.tools.recall import recall
from lockstitch.tools.registry import Registry
from lockstitch.tools.remember import remember
from lockstitch.tools.request_input import request_input
from lockstitch.tools.search_code import search_code
from lockstitch.tools.todo import create_tasks, get_tasks, update_task_status
from lockstitch.tools.web_search import web_search

ENTRY_POINT_GROUP = "lockstitch.tools"

LONG_LIVED: tuple[BaseTool, ...] = (start_process, read_process, stop_process)
BUILT_IN: tuple[BaseTool, ...] = (
    read_file,
    write_file,
    edit_file,
    apply_patch,
    list_directory,
    move_file,
    delete_file,
    grep_files,
    search_code,
    web_search,
    fetch_url,
    *((run_powershell,) if sys.platform == "win32" else (run_command, *LONG_LIVED)),
    create_tasks,
    update_task_status,
    get_tasks,
    recall,
    remember,
    request_input,
)


def build_registry(extra_tools: tuple[str, ...] = ()) -> Registry:
    """All tools: ours, those installed packages offer, and those named as `module:attribute`.

    Raises:
        SettingsError: a named tool cannot be loaded, is no LangChain tool, or has the name of another one.
    """
    registry = Registry(BUILT_IN)
    offered = (entry.value for entry in entry_points(group=ENTRY_POINT_GROUP))
    for reference in (*offered, *extra_tools):
        try:
            registry.register(_load(reference))
        except ToolValidationError as error:
            raise SettingsError(f"the tool {reference!r} does not fit: {error.message}") from error
    return registry


def _load(reference: str) -> BaseTool:
    module, _, attribute = reference.partition(":")
    try:
        candidate = attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
        raise SettingsError(
            f"the tool {reference!r} cannot be loaded ({type(error).__name__}): write it as module:attribute."
        ) from error
    if not isinstance(candidate, BaseTool):
        raise SettingsError(
            f"{reference!r} is no LangChain tool: decorate it with langchain_core.tools.tool."
        )
    return candidate
