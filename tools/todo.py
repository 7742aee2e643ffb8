"""The tools of the TODO list, which is part of the thread's state."""

from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.todos import Todo, TodoList, TodoStatus
from lockstitch.tools.context import CallContext
from lockstitch.tools.result import ToolResult

_MARKS = {"todo": "[ ]", "in_progress": "[~]", "completed": "[x]"}


@tool(extras={"effect": "state"})
def create_tasks(
    tasks: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500)]],
        Field(description="what there is to do, one sentence each, in order", min_length=1, max_length=50),
    ],
    call: CallContext,
) -> ToolResult:
    """Write the TODO list: replaces the whole list, every task begins as `todo`, ids count from 1.

    Use it at the start of work with three or more parts, or when the plan changes. Not for single small
    steps. Example: create_tasks(tasks=["Find the failing test", "Fix the cause", "Run all tests"]).
    """
    call.todos.replace(tasks)
    return _shown(call.todos)


@tool(extras={"effect": "state"})
def update_task_status(
    task_id: Annotated[str, Field(description="the id that create_tasks or get_tasks shows")],
    status: Annotated[TodoStatus, Field(description="todo, in_progress or completed")],
    call: CallContext,
) -> ToolResult:
    """Set the status of one task. Keep one task in_progress; mark it completed as soon as it is done.

    Example: update_task_status(task_id="2", status="completed").
    """
    call.todos.set_status(task_id, status)
    return _shown(call.todos)


@tool(extras={"effect": "state"})
def get_tasks(call: CallContext) -> ToolResult:
    """Read the TODO list with ids and status. It has no arguments."""
    return _shown(call.todos)


def render_todos(items: list[Todo]) -> str:
    """The list as text, one task a line: `[x] 1. Find the failing test`."""
    return "\n".join(f"{_MARKS[item['status']]} {item['id']}. {item['content']}" for item in items)


def _shown(todos: TodoList) -> ToolResult:
    text = render_todos(todos.items) or "The TODO list is empty; create_tasks writes one."
    return ToolResult(output=text, data={"tasks": list(todos.items)})
