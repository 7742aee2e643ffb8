"""Nodes that run without LangChain's callbacks where nobody listens to them.

LangGraph runs a node and its writers as a sequence that tells callbacks of each part: for every node a task
of its own, a second one to tell of the end, and a configuration for each writer. That is a twelfth of the CPU
of a step, and it is spent where there is no callback, too. With one (a tracer, a stream of messages) nodes
run in LangGraph's own way.

What its writers read, the state after the node that a route decides on, LangGraph makes of a copy of every
channel, the messages among them. Here it copies those that are read.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeVar

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph.state import CompiledStateGraph

# What LangGraph puts into a task's configuration: its function `local_read`, of a scratchpad, the channels,
# and more that only it reads.
READ: Final = "__pregel_read"

Graph = TypeVar("Graph", bound=CompiledStateGraph[Any, Any, Any, Any])


class QuietNode(Runnable[Any, Any]):
    """A node and its writers, one after the other."""

    def __init__(self, stock: Runnable[Any, Any], steps: Sequence[Runnable[Any, Any]]) -> None:
        """`stock` is LangGraph's sequence, made of `steps`: first the node itself."""
        self._stock = stock
        self._node, *self._writers = steps

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002  LangChain's signature
        """As LangGraph does."""
        return self._stock.invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002  LangChain's signature
        """The node's result, once its writers have had it."""
        if config is None or is_heard(config):
            return await self._stock.ainvoke(input, config, **kwargs)
        token = var_child_runnable_config.set(config)  # which `interrupt` and `get_config` read
        try:
            result = await self._node.ainvoke(input, config, **kwargs)
        finally:
            var_child_runnable_config.reset(token)
        reading = reads_few(config)
        for writer in self._writers:
            result = await writer.ainvoke(result, reading)
        return result


def is_heard(config: RunnableConfig) -> bool:
    """Whether somebody listens, or may: that only LangGraph's own manager can tell."""
    callbacks = config.get("callbacks")
    return not isinstance(callbacks, AsyncCallbackManager) or bool(callbacks.handlers)


def reads_few(config: RunnableConfig) -> RunnableConfig:
    """The configuration, whose reader copies no channel that is not read. One it does not know stays."""
    names = config["configurable"]
    stock = names.get(READ)
    if not isinstance(stock, partial) or len(stock.args) < 2:
        return config
    scratchpad, channels, *others = stock.args

    def read(select: str | list[str], fresh: bool = False) -> Any:  # noqa: FBT001, FBT002  LangGraph's signature
        wanted = [select] if isinstance(select, str) else select
        few = {name: channels[name] for name in wanted if name in channels}
        return stock.func(scratchpad, few, *others, select, fresh)

    return {**config, "configurable": {**names, READ: read}}


def quieten(graph: Graph) -> Graph:
    """The compiled graph, whose nodes run so. One that LangGraph puts together otherwise stays as it is."""
    for node in graph.nodes.values():
        stock = node.node  # kept by LangGraph once it was asked for
        steps = getattr(stock, "steps", ())
        if stock is not None and len(steps) > 1:
            node.node = QuietNode(stock, steps)
    return graph
