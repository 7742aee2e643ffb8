"""The TODO tools, as the guard calls them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.result import ToolResult
from lockstitch.tools.todo import create_tasks, get_tasks, render_todos, update_task_status
from lockstitch.tools.workspace import Workspace


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    with Workspace(tmp_path) as workspace:
        yield ToolContext(workspace=workspace, settings=load_settings(), spill=SpillStore(tmp_path, "t"))


def use(tool: BaseTool, context: ToolContext, **args: Any) -> ToolResult:
    result = tool.invoke({**args, "call": context})
    assert isinstance(result, ToolResult)
    return result


def test_tasks_are_numbered_and_begin_as_todo(context: ToolContext) -> None:
    result = use(create_tasks, context, tasks=["find it", "fix it"])
    assert result.output == "[ ] 1. find it\n[ ] 2. fix it"
    assert result.data["tasks"] == context.todos.items


def test_a_new_list_replaces_the_whole_old_one(context: ToolContext) -> None:
    use(create_tasks, context, tasks=["a", "b"])
    use(create_tasks, context, tasks=["c"])
    assert [item["content"] for item in context.todos.items] == ["c"]


def test_each_status_has_its_mark(context: ToolContext) -> None:
    use(create_tasks, context, tasks=["a", "b", "c"])
    use(update_task_status, context, task_id="1", status="completed")
    result = use(update_task_status, context, task_id="2", status="in_progress")
    assert result.output == "[x] 1. a\n[~] 2. b\n[ ] 3. c" == render_todos(context.todos.items)


def test_reading_changes_nothing_and_an_empty_list_says_so(context: ToolContext) -> None:
    assert "empty" in use(get_tasks, context).output
    use(create_tasks, context, tasks=["a"])
    assert use(get_tasks, context).output == "[ ] 1. a"
    assert len(context.todos.items) == 1


def test_results_seen_earlier_do_not_change_later(context: ToolContext) -> None:
    seen = use(create_tasks, context, tasks=["a"]).data["tasks"]
    use(update_task_status, context, task_id="1", status="completed")
    assert seen[0]["status"] == "todo"


def test_an_unknown_id_is_answered_with_the_known_ones(context: ToolContext) -> None:
    use(create_tasks, context, tasks=["a", "b"])
    with pytest.raises(ToolValidationError, match="known ids are 1, 2"):
        use(update_task_status, context, task_id="3", status="completed")


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (create_tasks, {"tasks": []}),
        (create_tasks, {"tasks": [""]}),
        (create_tasks, {"tasks": ["x" * 501]}),
        (create_tasks, {"tasks": ["x"] * 51}),
        (create_tasks, {"tasks": "not a list"}),
        (update_task_status, {"task_id": "1", "status": "done"}),
    ],
)
def test_arguments_out_of_bounds_change_nothing(
    context: ToolContext, tool: BaseTool, args: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        use(tool, context, **args)
    assert context.todos.items == []
