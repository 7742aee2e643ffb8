"""What the system refuses reaches the model as words, with what to try next."""

import errno

import pytest

from lockstitch.state.errors import PathEscapeError, ToolExecutionError
from lockstitch.tools.faults import explain


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "disk is full: nothing was changed"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission for a/b"),
        (errno.EIO, "a/b: input/output error"),
    ],
)
def test_error_of_the_system_is_put_in_words(code: int, words: str) -> None:
    error = explain(OSError(code, "as the system says it", "/outside/a/b"), "a/b")
    assert isinstance(error, ToolExecutionError)
    assert words in error.message
    assert "/outside" not in error.message


def test_another_device_is_an_escape() -> None:
    assert isinstance(explain(OSError(errno.EXDEV, "x"), "a"), PathEscapeError)


def test_names_that_come_near_are_at_most_three_and_on_one_line() -> None:
    error = explain(
        OSError(errno.ENOENT, "x"), "src/name", ["name1", "name2", "name3", "name4", "nam\n", "zzz"]
    )
    assert error.message.count("src/") == 4
    assert "zzz" not in error.message
    assert "\n" not in error.message
