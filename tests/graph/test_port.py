"""The model as the graph sees it: tools bound once, one kind of error, cancellation passed through."""

import asyncio
import traceback
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.catalogue import ModelFacts
from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.clean import clean_reply
from lockstitch.graph.models.port import ChatModelPort
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.state.errors import ModelError, SettingsError

CHOICE = ModelChoice("openai", "gpt-5")


class Client(BaseChatModel):
    """A LangChain model that does what it is told; counts how often tools are bound."""

    does: Any
    bound: list[list[str]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "client"

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, Any]:
        self.bound.append([tool["function"]["name"] for tool in tools])
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if isinstance(self.does, BaseException):
            raise self.does
        return ChatResult(generations=[ChatGeneration(message=self.does)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if asyncio.iscoroutinefunction(self.does):
            await self.does()
        return self._generate(messages)


def schema(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


async def test_a_reply_comes_back_as_it_is() -> None:
    reply = await ChatModelPort(Client(does=AIMessage("hi")), CHOICE).call([HumanMessage("go")])
    assert reply.text == "hi"


async def test_each_set_of_tools_is_bound_once_and_no_tools_are_not_bound() -> None:
    client = Client(does=AIMessage("hi"))
    port = ChatModelPort(client, CHOICE)
    for names in ([], ["a"], ["a"], ["a", "b"], []):
        await port.call([HumanMessage("go")], tools=[schema(name) for name in names])
    assert client.bound == [["a"], ["a", "b"]]


async def test_an_error_of_the_client_becomes_one_of_ours_that_tells_its_place_and_not_its_words() -> None:
    port = ChatModelPort(Client(does=ConnectionResetError("se" + "cret")), CHOICE)
    breaker = Breaker(monotonic=lambda: 0.0)
    router = ModelRouter([Link(port, ModelFacts())], tier="balanced", retries=0, breaker=breaker)
    with pytest.raises(ModelError, match="gpt-5: the endpoint cannot be reached") as caught:
        await router.ask([HumanMessage("go")])
    shown = "".join(traceback.format_exception(caught.value))
    assert "ClientError: builtins.ConnectionResetError" in shown
    assert "_generate" in shown
    assert "secret" not in shown
    assert caught.value.__context__ is None


async def test_an_error_of_ours_passes_through_unchanged() -> None:
    ours = SettingsError("the scenario is wrong")
    with pytest.raises(SettingsError) as caught:
        await ChatModelPort(Client(does=ours), CHOICE).call([HumanMessage("go")])
    assert caught.value is ours


async def test_a_client_that_returns_no_assistant_message_is_an_error() -> None:
    with pytest.raises(ModelError, match="no assistant message"):
        await ChatModelPort(Client(does=HumanMessage("hi")), CHOICE).call([HumanMessage("go")])


async def test_a_stop_passes_through() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ChatModelPort(Client(does=wait), CHOICE).call([HumanMessage("go")]))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "ending", [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}, {"finish_reason": "MAX_TOKENS"}]
)
async def test_a_reply_that_was_cut_off_is_no_answer(ending: dict[str, str]) -> None:
    cut = AIMessage("Hel", response_metadata=ending)
    with pytest.raises(ModelError, match="cut off"):
        await ChatModelPort(Client(does=cut), CHOICE).call([HumanMessage("go")])


@pytest.mark.parametrize("ending", [{"finish_reason": "stop"}, {}, {"stop_reason": "end_turn"}])
async def test_a_whole_reply_passes(ending: dict[str, str]) -> None:
    whole = AIMessage("Hello", response_metadata=ending)
    reply = await ChatModelPort(Client(does=whole), CHOICE).call([HumanMessage("go")])
    assert reply.text == "Hello"


async def test_a_client_that_cannot_stream_is_asked_all_the_same() -> None:
    heard: list[AIMessageChunk] = []
    reply = await ChatModelPort(Client(does=AIMessage("hi")), CHOICE).call(
        [HumanMessage("go")], hear=heard.append
    )
    assert (reply.text, heard) == ("hi", [])


async def test_half_a_surrogate_pair_never_reaches_the_state() -> None:
    call = {"name": "t", "args": {"path": "a\ud800"}, "id": "c", "type": "tool_call"}
    broken = AIMessage("x\udfff", tool_calls=[call])  # type: ignore[list-item]
    reply = clean_reply(broken)
    assert (reply.text, reply.tool_calls[0]["args"]) == ("x?", {"path": "a?"})
    halves = AIMessage("\ud83d\ude00")  # of a stream that was cut between them
    assert clean_reply(halves).text == "\U0001f600"
    whole = AIMessage("ж \U0001f600")
    assert clean_reply(whole) is whole
