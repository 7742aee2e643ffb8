"""The TODO list: replace all, change one, know when all is done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.todos import TODO_STATUSES, Todo, TodoList


def test_new_tasks_replace_the_old_and_count_from_one() -> None:
    todos = TodoList([Todo(id="9", content="old", status="completed")])
    assert todos.replace(["read", "schreibe ä"]) == [
        {"id": "1", "content": "read", "status": "todo"},
        {"id": "2", "content": "schreibe ä", "status": "todo"},
    ]


@pytest.mark.parametrize("status", TODO_STATUSES)
def test_one_task_changes_and_the_others_stay(status: str) -> None:
    todos = TodoList()
    todos.replace(["a", "b", "c"])
    assert todos.set_status("2", status) == {"id": "2", "content": "b", "status": status}
    assert [item["status"] for item in todos.items] == ["todo", status, "todo"]
    assert [item["content"] for item in todos.items] == ["a", "b", "c"]


def test_items_it_was_made_from_are_never_touched() -> None:
    items = [Todo(id="1", content="a", status="todo")]
    todos = TodoList(items)
    todos.set_status("1", "completed")
    todos.replace(["b"])
    assert items == [{"id": "1", "content": "a", "status": "todo"}]


def test_unknown_id_is_refused_with_the_known_ones() -> None:
    todos = TodoList()
    todos.replace(["a", "b"])
    with pytest.raises(ToolValidationError, match=r"no task has the id '7'.*1, 2"):
        todos.set_status("7", "todo")


def test_unknown_id_in_an_empty_list_names_the_tool_that_fills_it() -> None:
    with pytest.raises(ToolValidationError, match="create_tasks"):
        TodoList().set_status("1", "todo")


def test_unknown_status_is_refused_and_changes_nothing() -> None:
    todos = TodoList([Todo(id="1", content="a", status="todo")])
    with pytest.raises(ToolValidationError, match="todo, in_progress, completed"):
        todos.set_status("1", "done")
    assert todos.items[0]["status"] == "todo"


@given(st.lists(st.sampled_from(TODO_STATUSES)))
def test_all_is_completed_when_something_was_to_do_and_nothing_is_open(statuses: list[str]) -> None:
    todos = TodoList()
    todos.replace(["x"] * len(statuses))
    for number, status in enumerate(statuses, start=1):
        todos.set_status(str(number), status)
    assert todos.all_completed == (set(statuses) == {"completed"})
