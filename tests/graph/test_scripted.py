"""The scripted model behaves as a LangChain chat model: replies, tool calls, streams, failures, counts."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelInvalidRequestError,
    ModelRateLimitError,
)
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.failure import explain_failure
from lockstitch.graph.models.scenario import Failure, Scenario
from lockstitch.graph.models.scripted import ScriptedChatModel, error_of
from lockstitch.state.errors import SettingsError

CALL = {"tool": "look", "args": {"path": "src/ünïcode/" + "x" * 60, "depth": 2}}


@tool
def look(path: str, depth: int) -> str:
    """Look at a folder."""
    return f"{path} {depth}"


def model(*turns: dict[str, object], **rest: Any) -> ScriptedChatModel:
    return ScriptedChatModel(scenario=Scenario.model_validate({"name": "test", "turns": turns}), **rest)


async def by_stream(llm: ScriptedChatModel) -> AIMessage:
    whole: AIMessageChunk | None = None
    async for chunk in llm.bind_tools([look]).astream("go"):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    return whole


async def by_invoke(llm: ScriptedChatModel) -> AIMessage:
    return await llm.bind_tools([look]).ainvoke("go")


async def by_sync_invoke(llm: ScriptedChatModel) -> AIMessage:
    return llm.bind_tools([look]).invoke("go")


every_way = pytest.mark.parametrize("ask", [by_stream, by_invoke, by_sync_invoke])


@every_way
async def test_text_calls_usage_and_name_arrive_whichever_way_it_is_asked(ask: Callable[..., Any]) -> None:
    reply = await ask(model({"say": "Two  words\nand a line.\n", "calls": [CALL, CALL]}))
    assert reply.content == "Two  words\nand a line.\n"
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("look", CALL["args"])] * 2
    assert reply.tool_calls[0]["id"] != reply.tool_calls[1]["id"]
    assert reply.usage_metadata["input_tokens"] == 1
    assert reply.usage_metadata["output_tokens"] > 40
    assert reply.response_metadata["model_name"] == "scripted:test"
    assert reply.response_metadata["finish_reason"] == "tool_calls"


@every_way
async def test_an_empty_turn_is_an_empty_answer(ask: Callable[..., Any]) -> None:
    reply = await ask(model({}))
    assert (reply.content, reply.tool_calls, reply.invalid_tool_calls) == ("", [], [])


@every_way
async def test_arguments_that_are_no_object_make_an_invalid_call(ask: Callable[..., Any]) -> None:
    raw = [
        {"id": "1", "name": "look", "arguments": "nonsense"},
        {"id": "2", "name": "look", "arguments": "[1]"},
        {"id": "1", "name": "nosuch", "arguments": "{}"},
    ]
    reply = await ask(model({"raw_tool_calls": raw}))
    assert [call["args"] for call in reply.invalid_tool_calls] == ["nonsense", "[1]"]
    assert [(call["name"], call["id"]) for call in reply.tool_calls] == [("nosuch", "1")]


@every_way
async def test_a_failing_turn_is_answered_when_asked_again(ask: Callable[..., Any]) -> None:
    llm = model({"say": "at last", "fail": {"status": 503, "times": 2}})
    for _ in range(2):
        with pytest.raises(ModelAPIError):
            await ask(llm)
    assert (await ask(llm)).content == "at last"
    assert llm.calls == 3


async def test_a_stream_comes_in_pieces() -> None:
    llm = model({"say": "one two three", "calls": [CALL]}).bind_tools([look])
    chunks = [chunk async for chunk in llm.astream("go")]
    assert len([chunk for chunk in chunks if chunk.text]) == 3
    assert len([chunk for chunk in chunks if chunk.tool_call_chunks]) > 3


async def test_a_conversation_goes_on_in_another_process() -> None:
    turns = ({"calls": [CALL]}, {"capture": {"n": r"(\d+) files"}, "say": "There are ${n}."})
    first = await model(*turns).bind_tools([look]).ainvoke("go")
    result = ToolMessage("7 files", tool_call_id=first.tool_calls[0]["id"])
    history = [SystemMessage("be brief"), HumanMessage("go"), first, result]
    assert (await model(*turns).bind_tools([look]).ainvoke(history)).content == "There are 7."


async def test_without_tools_it_sums_up() -> None:
    script = Scenario.model_validate({"name": "test", "turns": [{"calls": [CALL]}], "summary": "so far"})
    assert (await ScriptedChatModel(scenario=script).ainvoke("sum up")).content == "so far"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelInvalidRequestError), (401, ModelAuthenticationError), (418, ModelInvalidRequestError),
        (429, ModelRateLimitError), (500, ModelAPIError), ("disconnect", ModelConnectionError),
    ],
)  # fmt: skip
def test_each_failure_is_the_error_that_a_providers_client_is_mapped_to(
    status: Any, kind: type[Exception]
) -> None:
    assert type(error_of(Failure(status=status))) is kind


def test_a_failure_is_explained_to_a_person_as_the_real_one_would_be() -> None:
    choice = ModelChoice("scripted", "test")
    assert "rate limit" in explain_failure(error_of(Failure(status=429)), choice).message
    assert "cannot be reached" in explain_failure(error_of(Failure(status="disconnect")), choice).message
    assert "too long" in explain_failure(error_of(Failure(status=400, message="too long")), choice).message


async def test_a_slow_turn_can_be_cancelled() -> None:
    reply = asyncio.create_task(model({"say": "late", "delay_s": 60}).ainvoke("go"))
    await asyncio.sleep(0)
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply


def test_a_file_is_read_and_a_wrong_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    file.write_text("name: talk\nturns: [{say: hi}]", encoding="utf-8")
    assert ScriptedChatModel(scenario=file).model_name == "scripted:talk"
    with pytest.raises(SettingsError):
        ScriptedChatModel(scenario=str(tmp_path / "absent.yaml"))
