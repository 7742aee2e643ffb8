"""The model of a run as its strategy sees it: asked again when it is busy, and others when it is gone."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

from lockstitch.graph.memory.window import estimate_usage
from lockstitch.graph.models.breaker import Breaker
from lockstitch.graph.models.catalogue import WINDOW_UNKNOWN, ModelFacts, cost_usd
from lockstitch.graph.models.failure import Failure, read_failure
from lockstitch.graph.models.port import ChatModelPort, ToolSchemas
from lockstitch.graph.models.retry import ASKED_MAX_S, backoff_s
from lockstitch.graph.models.spent import stamp_reply
from lockstitch.graph.models.stream import Deltas
from lockstitch.state.errors import AgentError, ContextOverflowError, ModelError
from lockstitch.state.events import AgentNotice, Event

Emit = Callable[[Event], None]

_OTHERS: Final = " Also tried: {}."


@dataclass(frozen=True)
class Link:
    """One model of a chain."""

    port: ChatModelPort
    facts: ModelFacts


class ModelRouter:
    """A chain of models that answers as one; the first is the one asked for, the others stand in.

    Args:
        retries: tries of one model beyond the first.
        breaker: shared with every other router, so that all learn of a model that is down.
        emit: hears of waits, of models that stand in, and of the pieces of a streamed reply.
        sleep: waits so many seconds.
        random: a number from 0 up to 1.
    """

    def __init__(
        self,
        links: Sequence[Link],
        *,
        tier: str,
        retries: int,
        breaker: Breaker,
        emit: Emit | None = None,
        stream: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._links = tuple(links)
        self._tier = tier
        self._retries = retries
        self._breaker = breaker
        self._emit: Emit = emit or _nobody_hears
        self._stream = stream
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        """The model asked for; which one answered stands in the reply."""
        return self._links[0].port.name

    @property
    def tier(self) -> str:
        """See ModelPort."""
        return self._tier

    @property
    def priced(self) -> bool:
        """See ModelPort."""
        return all(link.facts.price is not None for link in self._links)

    @property
    def window(self) -> int:
        """See ModelPort."""
        return self._links[0].facts.window or WINDOW_UNKNOWN

    async def ask(
        self, messages: Sequence[BaseMessage], *, tools: ToolSchemas = (), must_call: bool = False
    ) -> AIMessage:
        """See ModelPort. The reply is stamped with the model that gave it and with its cost."""

        async def call(port: ChatModelPort) -> AIMessage:
            if not self._stream:
                return await port.call(messages, tools=tools, must_call=must_call)
            pieces = Deltas(self._emit)
            reply = await port.call(messages, tools=tools, must_call=must_call, hear=pieces.hear)
            pieces.flush()
            return reply

        failed: list[Failure] = []
        for link, retries in self._admitted():
            if link is not self._links[0]:
                self._say(f"{self._why(failed)}; {link.port.name} is asked instead")
            got = await self._ask_link(link, call, retries)
            if isinstance(got, AIMessage):
                if got.usage_metadata is None:  # else no limit would hold, and no turn be folded
                    got = got.model_copy(update={"usage_metadata": estimate_usage(messages, got)})
                cost = cost_usd(got.usage_metadata, link.facts)
                return stamp_reply(got, model=link.port.name, cost_usd=cost)
            failed.append(got)
            if got.verdict in ("refused", "overflow"):
                break
        raise _final(failed)

    def _admitted(self) -> Iterator[tuple[Link, int]]:
        """The links to ask, each with its retries; the first anyway, where every one of them rests."""
        admitted = False
        for link in self._links if len(self._links) > 1 else ():
            circuit = self._breaker.enter(link.port.name)
            if circuit != "open":
                admitted = True
                yield link, self._retries if circuit == "closed" else 0
        if not admitted:
            yield self._links[0], self._retries

    async def _ask_link(
        self, link: Link, call: Callable[[ChatModelPort], Awaitable[AIMessage]], retries: int
    ) -> AIMessage | Failure:
        """The reply of one model, or why it gave none, after as many retries as help."""
        name = link.port.name
        for tries in range(retries + 1):
            got = await _try(link.port, call)
            if isinstance(got, AIMessage):
                self._breaker.succeeded(name)
                return got
            if got.verdict != "again":
                break
            self._breaker.failed(name)
            wait_s = got.wait_s or backoff_s(tries, random=self._random)
            if tries == retries or wait_s > ASKED_MAX_S:
                break
            self._say(f"{name}: {got.brief}; again in {wait_s:.1f} s, try {tries + 2} of {retries + 1}")
            await self._sleep(wait_s)
        return got

    def _why(self, failed: Sequence[Failure]) -> str:
        return failed[-1].said if failed else f"{self.name}: failed several times in a row and rests"

    def _say(self, words: str) -> None:
        self._emit(AgentNotice(content=words))


async def _try(
    port: ChatModelPort, call: Callable[[ChatModelPort], Awaitable[AIMessage]]
) -> AIMessage | Failure:
    try:
        return await call(port)
    except AgentError:
        raise
    except Exception as error:  # noqa: BLE001  of any provider's client; each means something, and is told
        return read_failure(error, port.choice)


def _final(failed: Sequence[Failure]) -> ModelError:
    """The error of the model asked for, with what the others said; a conversation too long is just that."""
    first, *others = failed
    if not others or isinstance(failed[-1].error, ContextOverflowError):
        return failed[-1].error
    told = ModelError(first.error.message + _OTHERS.format(", ".join(other.said for other in others)))
    told.__cause__ = first.error.__cause__
    return told


def _nobody_hears(event: Event) -> None:
    """Where nobody follows the run."""
