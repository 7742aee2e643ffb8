"""The model as the graph sees it: one call, one reply, one kind of error."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableBinding

from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.clean import clean_reply
from lockstitch.graph.models.stream import Hear, read_stream
from lockstitch.state.errors import ModelError

ToolSchemas = Sequence[dict[str, Any]]
_Bound = tuple[Runnable[Any, AIMessage], dict[str, Any]]  # a model, and the options it is called with

_ENDINGS: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")  # one word a provider
_CUT_OFF: Final = ("length", "max_tokens", "MAX_TOKENS", "model_length")


class ModelPort(Protocol):
    """What a strategy needs of a model."""

    @property
    def name(self) -> str:
        """For records and people."""

    @property
    def tier(self) -> str:
        """The tier it was chosen by."""

    @property
    def priced(self) -> bool:
        """Whether the price of every model that may answer is known."""

    @property
    def window(self) -> int:
        """Tokens that a request may hold."""

    async def ask(
        self, messages: Sequence[BaseMessage], *, tools: ToolSchemas = (), must_call: bool = False
    ) -> AIMessage:
        """One reply to the conversation, with the tools it may call; `must_call` leaves it no other way.

        Raises:
            ContextOverflowError: the conversation is longer than the model can read.
            ModelError: the model cannot be reached or refused.
        """


class ChatModelPort:
    """A LangChain chat model behind the port. Binds a set of tools once."""

    def __init__(self, model: BaseChatModel, choice: ModelChoice) -> None:
        self._model = model
        self.choice = choice
        self._bound: dict[tuple[object, ...], _Bound] = {}

    @property
    def name(self) -> str:
        """Provider and model name."""
        return str(self.choice)

    async def call(
        self,
        messages: Sequence[BaseMessage],
        *,
        tools: ToolSchemas = (),
        must_call: bool = False,
        hear: Hear | None = None,
    ) -> AIMessage:
        """One try, with the errors of the client as they are; streamed where `hear` takes the chunks.

        Raises:
            ModelError: the reply was cut off, or is none.
        """
        model, options = self._bind(tools, must_call=must_call)
        if hear is None:
            reply = await model.ainvoke(list(messages), **options)
        else:
            reply = await read_stream(model.astream(list(messages), **options), hear)
        if not isinstance(reply, AIMessage):
            raise ModelError(f"{self.name}: the model client returned no assistant message.")
        self._check_whole(reply)
        return clean_reply(reply)

    def _check_whole(self, reply: AIMessage) -> None:
        """A reply that was cut off is no answer.

        Raises:
            ModelError: it met the endpoint's length limit.
        """
        if any(reply.response_metadata.get(name) in _CUT_OFF for name in _ENDINGS):
            raise ModelError(
                f"{self.name}: the reply was cut off at the endpoint's length limit. Allow longer ones, "
                "ask for less at once, or choose another model. The thread is kept and can go on."
            )

    def _bind(self, tools: ToolSchemas, *, must_call: bool) -> _Bound:
        if not tools:
            return self._model, {}
        key = (must_call, *(tool["function"]["name"] for tool in tools))
        if key not in self._bound:
            choice = {"tool_choice": "any"} if must_call else {}
            self._bound[key] = _taken_apart(self._model.bind_tools(list(tools), **choice))
        return self._bound[key]


def _taken_apart(bound: Runnable[Any, AIMessage]) -> _Bound:
    """The model and what it is called with: LangChain's wrapper merges configurations for 0.1 ms a call."""
    if type(bound) is not RunnableBinding or bound.config or bound.config_factories:
        return bound, {}
    return bound.bound, dict(bound.kwargs)
