"""The error tree: who must react is decided by the class, and the docstring draws all of them."""

import inspect
import re

import pytest

from lockstitch.state import errors
from lockstitch.state.errors import (
    AgentError,
    ContextOverflowError,
    HomeUnusableError,
    ModelError,
    NoModelError,
    PathEscapeError,
    RateLimitError,
    RecoverableError,
    ResourceLimitError,
    SecurityViolationError,
    SettingsError,
    StepLimitReachedError,
    SystemFaultError,
    TerminalError,
    ThreadBusyError,
    ThreadUnknownError,
    ToolExecutionError,
    ToolValidationError,
    UsageError,
    WorkspaceError,
)
from lockstitch.state.reasons import ENDINGS

FOR_THE_MODEL = [
    ToolExecutionError,
    ToolValidationError,
    ResourceLimitError,
    RateLimitError,
    PathEscapeError,
]
ENDING_A_RUN = {
    SecurityViolationError: ("security_violation", 8),
    StepLimitReachedError: ("step_limit", 3),
    ModelError: ("model_error", 9),
    ContextOverflowError: ("model_error", 9),
    SystemFaultError: ("system_error", 1),
    SettingsError: ("system_error", 2),
    HomeUnusableError: ("system_error", 2),
    WorkspaceError: ("system_error", 2),
    NoModelError: ("system_error", 2),
    ThreadUnknownError: ("system_error", 2),
    ThreadBusyError: ("system_error", 10),
}


def own_classes() -> dict[str, type[AgentError]]:
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    return {name: cls for name, cls in classes.items() if cls.__module__ == errors.__name__}


def drawn_parents() -> dict[str, str]:
    """Name to parent's name, as the tree in the module's docstring draws it."""
    parents: dict[str, str] = {}
    open_at: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([ │├└─]*)([A-Z]\w+Error)\b", line):
            depth, name = len(found[1]), found[2]
            open_at = [(at, above) for at, above in open_at if at < depth]
            parents[name] = open_at[-1][1] if open_at else "Exception"
            open_at.append((depth, name))
    return parents


def test_docstring_draws_the_tree_as_it_is() -> None:
    assert drawn_parents() == {name: cls.__base__.__name__ for name, cls in own_classes().items()}


@pytest.mark.parametrize("cls", FOR_THE_MODEL)
def test_error_the_model_can_repair_ends_no_run(cls: type[AgentError]) -> None:
    assert issubclass(cls, RecoverableError)
    assert not issubclass(cls, TerminalError)
    assert not hasattr(cls("x"), "exit_code")


@pytest.mark.parametrize(("cls", "end"), ENDING_A_RUN.items())
def test_terminal_error_has_a_reason_and_an_exit_code(cls: type[TerminalError], end: tuple[str, int]) -> None:
    error = cls("the words")
    assert (error.reason, error.exit_code) == end
    assert error.reason in ENDINGS
    assert error.message == "the words"


def test_no_class_is_missing_from_these_tables() -> None:
    named = {*FOR_THE_MODEL, *ENDING_A_RUN, AgentError, RecoverableError, TerminalError, UsageError}
    assert named == set(own_classes().values())
