"""The model as the graph sees it: one call, one reply, one kind of error."""

from collections.abc import Sequence
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable

from lockstitch.graph.models.choice import ModelChoice
from lockstitch.graph.models.clean import clean_reply
from lockstitch.graph.models.failure import explain_failure
from lockstitch.state.errors import AgentError, ModelError

ToolSchemas = Sequence[dict[str, Any]]


class ModelPort(Protocol):
    """What a strategy needs of a model."""

    @property
    def name(self) -> str:
        """For records and people."""

    async def ask(
        self, messages: Sequence[BaseMessage], *, tools: ToolSchemas = (), must_call: bool = False
    ) -> AIMessage:
        """One reply to the conversation, with the tools it may call; `must_call` leaves it no other way.

        Raises:
            ModelError: the model cannot be reached or refused.
        """


class ChatModelPort:
    """A LangChain chat model behind the port. Binds a set of tools once."""

    def __init__(self, model: BaseChatModel, choice: ModelChoice) -> None:
        self._model = model
        self._choice = choice
        self._bound: dict[tuple[object, ...], Runnable[Any, AIMessage]] = {}

    @property
    def name(self) -> str:
        """Provider and model name."""
        return str(self._choice)

    async def ask(
        self, messages: Sequence[BaseMessage], *, tools: ToolSchemas = (), must_call: bool = False
    ) -> AIMessage:
        """See ModelPort."""
        try:
            reply = await self._bind(tools, must_call=must_call).ainvoke(list(messages))
        except AgentError:
            raise
        except Exception as error:
            raise explain_failure(error, self._choice) from error
        if not isinstance(reply, AIMessage):
            raise ModelError(f"{self.name}: the model client returned no assistant message.")
        self._check_whole(reply)
        return clean_reply(reply)

    def _check_whole(self, reply: AIMessage) -> None:
        """A reply that was cut off is no answer.

        Raises:
            ModelError: the endpoint's length limit, or a stream that broke off.
        """
        ending = reply.response_metadata.get("finish_reason")
        if ending == "length":
            raise ModelError(
                f"{self.name}: the reply was cut off at the endpoint's length limit. Allow longer ones, "
                "ask for less at once, or choose another model. The thread is kept and can go on."
            )
        if ending is None and getattr(self._model, "streaming", False):
            raise ModelError(
                f"{self.name}: the stream broke off. Try again; the thread is kept and can go on."
            )

    def _bind(self, tools: ToolSchemas, *, must_call: bool) -> Runnable[Any, AIMessage]:
        if not tools:
            return self._model
        key = (must_call, *(tool["function"]["name"] for tool in tools))
        if key not in self._bound:
            choice = {"tool_choice": "any"} if must_call else {}
            self._bound[key] = self._model.bind_tools(list(tools), **choice)
        return self._bound[key]
