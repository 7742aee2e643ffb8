"""The tool that asks a person."""

from typing import Annotated

from langchain_core.tools import tool
from pydantic import Field

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.context import CallContext
from lockstitch.tools.result import ToolResult


@tool(extras={"effect": "person"})
def request_input(
    question: Annotated[str, Field(description="one question, with what the answer decides", min_length=1)],
    call: CallContext,
) -> ToolResult:
    """Ask the person one question and wait for the answer; the run pauses until it comes.

    Use it when the task cannot be decided from the files, or a choice is theirs. Not for leave to run a
    tool (that is asked by itself). Example: request_input(question="Keep the old file format readable?").
    """
    if call.answer is None:
        raise ToolExecutionError("nobody is here to answer. Decide yourself and say what you assumed.")
    return ToolResult(output=call.answer, data={"question": question})
