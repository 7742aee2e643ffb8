"""The TODO list of a thread: its shape, and the three things that can be done to it."""

from collections.abc import Sequence
from typing import Literal, get_args

from typing_extensions import TypedDict  # pydantic reads no other kind before Python 3.12

from lockstitch.state.errors import ToolValidationError

TodoStatus = Literal["todo", "in_progress", "completed"]
TODO_STATUSES: tuple[TodoStatus, ...] = get_args(TodoStatus)


class Todo(TypedDict):
    """One task. A plain dict, since it lives in the checkpoint and people edit it in Studio."""

    id: str
    content: str
    status: TodoStatus


class TodoList:
    """The list while a step runs; `items` goes back into the state afterwards."""

    def __init__(self, items: Sequence[Todo] = ()) -> None:
        self.items: list[Todo] = list(items)

    def replace(self, contents: Sequence[str]) -> list[Todo]:
        """Put new tasks in the place of all old ones; ids count from 1."""
        self.items = [
            Todo(id=str(n), content=text, status="todo") for n, text in enumerate(contents, start=1)
        ]
        return self.items

    def set_status(self, todo_id: str, status: str) -> Todo:
        """Change one task.

        Raises:
            ToolValidationError: no task has that id, or the status is none.
        """
        if status not in TODO_STATUSES:
            raise ToolValidationError(f"unknown status {status!r}: use one of {', '.join(TODO_STATUSES)}.")
        for place, item in enumerate(self.items):
            if item["id"] == todo_id:
                changed = Todo(id=todo_id, content=item["content"], status=status)
                self.items = [*self.items[:place], changed, *self.items[place + 1 :]]
                return changed
        known = ", ".join(item["id"] for item in self.items) or "none, create_tasks makes them"
        raise ToolValidationError(f"no task has the id {todo_id!r}: known ids are {known}.")

    @property
    def all_completed(self) -> bool:
        """True when there is at least one task and none is open."""
        return bool(self.items) and all(item["status"] == "completed" for item in self.items)
