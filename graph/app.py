"""The graph as `langgraph dev` loads it. The only module that builds something when it is imported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime
from starlette.exceptions import HTTPException

from lockstitch.graph.builder import build_graph
from lockstitch.graph.keyless import settings_of_server
from lockstitch.graph.parts import build_parts
from lockstitch.state.errors import ThreadBusyError
from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunInput, RunState
from lockstitch.state.settings import load_settings
from lockstitch.state.thread_lock import hold_for_run

settings, demo = settings_of_server(load_settings())
_home = prepare_home(settings.home)
_ledger = open_ledger(_home.ledger_db)
_parts = build_parts(settings, _home, ledger=_ledger)
_compiled = build_graph(_parts).compile(name="lockstitch")


@asynccontextmanager
async def graph(
    config: RunnableConfig, runtime: ServerRuntime[RunContext]
) -> AsyncIterator[CompiledStateGraph[RunState, RunContext, RunInput, RunState]]:
    """The graph without a saver, which the server adds. While a run goes on it holds the thread's lock.

    Raises:
        HTTPException: 409, another process writes this thread. Of few errors the server tells more than that
            something failed; this is one of them.
    """
    thread_id = config.get("configurable", {}).get("thread_id")
    async with AsyncExitStack() as stack:
        if runtime.execution_runtime is not None and thread_id:
            lock = hold_for_run(_home.locks, str(thread_id), holder="langgraph dev", on_loop=False)
            try:
                await stack.enter_async_context(lock)
            except ThreadBusyError as error:
                raise HTTPException(409, error.message) from error
            if demo is not None and await asyncio.to_thread(_is_new, str(thread_id)):
                await asyncio.to_thread(demo.renew)
        yield _compiled


def _is_new(thread_id: str) -> bool:
    return _parts.threads is None or _parts.threads.find(thread_id) is None
