"""The tool that asks a person."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from lockstitch.state.errors import ToolExecutionError
from lockstitch.state.settings import load_settings
from lockstitch.state.spill import SpillStore
from lockstitch.tools.context import ToolContext
from lockstitch.tools.request_input import request_input
from lockstitch.tools.workspace import Workspace


def ask(folder: Path, question: str, answer: str | None) -> object:
    with Workspace(folder) as workspace:
        context = ToolContext(
            workspace=workspace, settings=load_settings(), spill=SpillStore(folder, "t"), answer=answer
        )
        return request_input.invoke({"question": question, "call": context})


@pytest.mark.parametrize("answer", ["blue", "", "Error: no", "ünï\ncode"])
def test_the_answer_is_the_result_as_it_was_given(tmp_path: Path, answer: str) -> None:
    result = ask(tmp_path, "Red or blue?", answer)
    assert result.success  # type: ignore[attr-defined]
    assert result.output == answer  # type: ignore[attr-defined]
    assert result.data == {"question": "Red or blue?"}  # type: ignore[attr-defined]


def test_without_a_person_the_model_is_told_to_decide_itself(tmp_path: Path) -> None:
    with pytest.raises(ToolExecutionError, match="nobody is here"):
        ask(tmp_path, "Red or blue?", None)


def test_an_empty_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        ask(tmp_path, "", "blue")
