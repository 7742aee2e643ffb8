"""A chain of models: asked again when busy, others when gone, one clear error when none is left."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from tests.clock import Clock

from lockstitch.graph.models.breaker import FAILURES, REST_S, Breaker
from lockstitch.graph.models.catalogue import ModelFacts, Price
from lockstitch.graph.models.choice import ModelChoice, parse_model
from lockstitch.graph.models.failure import BrokenStreamError, ErrorReplyError
from lockstitch.graph.models.port import ChatModelPort
from lockstitch.graph.models.router import Link, ModelRouter
from lockstitch.graph.models.spent import STAMP, spent_of
from lockstitch.state.errors import ContextOverflowError, ModelError, SettingsError
from lockstitch.state.events import AgentNotice, Event

USAGE = {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000}
GO = [HumanMessage("go")]


class Client(BaseChatModel):
    """Does one thing after another, and the last one again and again."""

    does: list[Any]
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "client"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        done = self.does[min(self.calls, len(self.does) - 1)]
        self.calls += 1
        if isinstance(done, BaseException):
            raise done
        reply = AIMessage(done, usage_metadata=USAGE)  # type: ignore[arg-type]
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


class Chain:
    """A router whose models are called a, b, c; waits are noted and not waited."""

    def __init__(self, *does: Sequence[Any], retries: int = 2, breaker: Breaker | None = None) -> None:
        self.clients = [Client(does=list(each)) for each in does]
        self.waits: list[float] = []
        self.told: list[Event] = []
        facts = ModelFacts(window=9_000, price=Price(input=2, output=0))
        self.router = ModelRouter(
            [
                Link(ChatModelPort(client, ModelChoice("openai", name)), facts)
                for name, client in zip("abc", self.clients, strict=False)
            ],
            tier="powerful",
            retries=retries,
            breaker=breaker or Breaker(monotonic=itertools.count().__next__),
            emit=self.told.append,
            sleep=self.sleep,
            random=lambda: 0.5,
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def ask(self) -> str:
        return (await self.router.ask(GO)).text

    @property
    def calls(self) -> list[int]:
        return [client.calls for client in self.clients]

    @property
    def notices(self) -> list[str]:
        return [event.content for event in self.told if isinstance(event, AgentNotice)]


def status(number: int, message: str = "no", code: str | None = None, **headers: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("POST", "http://a/v1", headers={"Authorization": "Bearer k3y-k3y-k3y"})
    response = httpx.Response(number, headers=named, request=request)
    return openai.APIStatusError(message, response=response, body={"message": message, "code": code})  # type: ignore[arg-type]


REQUEST: Any = httpx.Request("POST", "http://a/v1")
BUSY = status(429, retry_after="2")
CONTEXT = "This model's maximum context length is 8192 tokens."


async def test_the_first_model_answers_and_its_cost_is_noted() -> None:
    chain = Chain(["hi"], ["no"])
    reply = await chain.router.ask(GO)
    assert (reply.text, chain.calls, chain.told) == ("hi", [1, 0], [])
    assert reply.response_metadata[STAMP] == {"model": "a", "cost_usd": 2.0}
    assert (chain.router.name, chain.router.tier, chain.router.window) == ("a", "powerful", 9_000)


@pytest.mark.parametrize(
    "error",
    [
        *(status(number) for number in (408, 409, 429, 500, 503, 529)),
        openai.APIConnectionError(message="no", request=REQUEST),
        openai.APITimeoutError(REQUEST),
        openai.APIError("no", request=REQUEST, body={"message": "busy"}),
        httpx.RemoteProtocolError("gone"),
        ConnectionResetError(),
        TimeoutError(),
        BrokenStreamError(),
        ErrorReplyError({"code": 502, "message": "upstream"}),
        ErrorReplyError({"type": "overloaded_error"}),
    ],
)
async def test_what_may_pass_is_tried_again(error: Exception) -> None:
    chain = Chain([error, error, "hi"])
    assert await chain.ask() == "hi"
    assert (chain.calls, chain.waits) == ([3], [0.25, 0.5])


async def test_each_wait_is_told_and_as_long_as_the_endpoint_asks() -> None:
    chain = Chain([BUSY, status(503), "hi"])
    await chain.ask()
    assert chain.waits == [2.0, 0.5]
    assert chain.notices == [
        "a: rate limit (429); again in 2.0 s, try 2 of 3",
        "a: endpoint failed (503); again in 0.5 s, try 3 of 3",
    ]


async def test_a_wait_that_is_too_long_is_not_waited_but_named() -> None:
    chain = Chain([status(429, retry_after="300")])
    with pytest.raises(ModelError, match="asks to wait 300 s"):
        await chain.ask()
    assert (chain.calls, chain.waits) == ([1], [])


async def test_after_its_retries_the_next_model_stands_in() -> None:
    chain = Chain([BUSY], ["hi"], ["no"], retries=1)
    reply = await chain.router.ask(GO)
    assert (reply.text, chain.calls) == ("hi", [2, 1, 0])
    assert reply.response_metadata[STAMP]["model"] == "b"
    assert chain.notices[-1] == "a: rate limit (429); b is asked instead"


@pytest.mark.parametrize(
    "error",
    [
        *(status(number) for number in (401, 402, 403, 404)),
        status(429, code="insufficient_quota"),
        status(429, x_should_retry="false"),
        status(400, "API key not valid. Please pass a valid API key."),
        status(429, retry_after="61"),
        KeyError("choices"),
        RuntimeError("a bug of the client"),
    ],
)
async def test_what_will_not_pass_goes_to_the_next_model_at_once(error: Exception) -> None:
    chain = Chain([error], ["hi"])
    assert await chain.ask() == "hi"
    assert (chain.calls, chain.waits) == ([1, 1], [])


@pytest.mark.parametrize("number", [400, 422])
async def test_a_request_that_is_at_fault_itself_is_told_at_once(number: int) -> None:
    chain = Chain([status(number, "the tools are wrong")], ["hi"])
    with pytest.raises(ModelError, match="the tools are wrong"):
        await chain.ask()
    assert chain.calls == [1, 0]


@pytest.mark.parametrize(
    "error",
    [
        status(400, "too much", code="context_length_exceeded"),
        status(400, CONTEXT),  # vLLM
        status(400, "prompt is too long: 209000 tokens > 200000 maximum"),  # Anthropic
        status(400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
        status(400, "the request exceeds the available context size, try increasing it"),  # llama.cpp
        status(500, "the request exceeds the available context size"),
        status(400, "the input length exceeds the context length"),  # Ollama
        status(400, "prompt too long; exceeded max context length by 12 tokens"),
        status(400, "Your input exceeds the context window of this model."),
        status(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),  # Gemini
        status(400, "Please reduce the length of the messages or completion."),  # Groq
        status(413),
    ],
)
async def test_a_conversation_that_is_too_long_is_an_error_of_its_own(error: Exception) -> None:
    chain = Chain([error], ["hi"])
    with pytest.raises(ContextOverflowError, match="a: the conversation is longer"):
        await chain.ask()
    assert chain.calls == [1, 0]


async def test_a_conversation_too_long_for_the_one_that_stands_in_is_just_that() -> None:
    with pytest.raises(ContextOverflowError, match="b: "):
        await Chain([status(404)], [status(400, CONTEXT)]).ask()


async def test_a_rate_limit_on_tokens_is_no_conversation_too_long() -> None:
    chain = Chain([status(429, "Too many tokens; reduce the length of the messages."), "hi"])
    assert await chain.ask() == "hi"


async def test_when_all_fail_the_first_error_is_told_with_the_others_in_short() -> None:
    chain = Chain([status(401, "no")], [BUSY], [TimeoutError()], retries=0)
    with pytest.raises(ModelError) as caught:
        await chain.ask()
    assert caught.value.message == (
        "a: the endpoint refused the key (401). Set OPENAI_API_KEY to a valid one. The thread is kept and "
        "can go on. Also tried: b: rate limit (429), c: no answer in time."
    )


async def test_an_error_of_ours_is_no_failure_of_the_model() -> None:
    chain = Chain([SettingsError("the scenario is wrong")], ["hi"])
    with pytest.raises(SettingsError):
        await chain.ask()
    assert chain.calls == [1, 0]


async def test_a_model_that_is_down_rests_and_is_tried_once_later() -> None:
    clock = Clock()
    breaker = Breaker(monotonic=clock)
    chain = Chain([status(503)], ["hi"], retries=FAILURES - 1, breaker=breaker)
    assert [await chain.ask(), await chain.ask()] == ["hi", "hi"]
    assert chain.calls == [FAILURES, 2]
    assert chain.notices[-1] == "a: failed several times in a row and rests; b is asked instead"
    clock.now += REST_S
    assert await chain.ask() == "hi"
    assert chain.calls == [FAILURES + 1, 3]
    clock.now += REST_S
    chain.clients[0].does = ["back"]
    assert [await chain.ask(), await chain.ask()] == ["back", "back"]


async def test_when_all_rest_the_first_is_asked_anyway() -> None:
    chain = Chain([status(503)], [status(503)], retries=FAILURES - 1, breaker=Breaker(monotonic=Clock()))
    for calls in ([FAILURES, FAILURES], [2 * FAILURES, FAILURES]):
        with pytest.raises(ModelError):
            await chain.ask()
        assert chain.calls == calls


async def test_a_model_without_another_never_rests() -> None:
    chain = Chain([status(503)] * FAILURES * 2 + ["hi"], retries=FAILURES - 1)
    for _ in range(2):
        with pytest.raises(ModelError):
            await chain.ask()
    assert await chain.ask() == "hi"


async def test_a_stop_passes_through_a_wait() -> None:
    chain = Chain([BUSY])
    begun = asyncio.Event()

    async def never(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    chain.router._sleep = never
    task = asyncio.create_task(chain.ask())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert chain.calls == [1]


async def test_nobody_needs_to_listen() -> None:
    make: Callable[..., ModelRouter] = ModelRouter
    link = Link(ChatModelPort(Client(does=[status(404)]), ModelChoice("openai", "a")), ModelFacts())
    other = Link(ChatModelPort(Client(does=["hi"]), ModelChoice("openai", "b")), ModelFacts())
    router = make([link, other], tier="fast", retries=0, breaker=Breaker(), emit=None, stream=True)
    reply = await router.ask(GO)
    assert reply.response_metadata[STAMP] == {"model": "b", "cost_usd": None}


async def test_a_reply_without_usage_is_estimated_so_that_limits_hold() -> None:
    class Silent(Client):
        async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("x" * 30))])

    facts = ModelFacts(price=Price(input=1, output=1))
    link = Link(ChatModelPort(Silent(does=[]), parse_model("silent")), facts)
    router = ModelRouter([link], tier="balanced", retries=0, breaker=Breaker())
    reply = await router.ask([HumanMessage("y" * 300)])
    spent = spent_of([reply])
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd) == (100, 10, 0.00011)
