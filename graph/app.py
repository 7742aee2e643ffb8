"""The graph as `langgraph dev` loads it. The only module that builds something when it is imported."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime

from lockstitch.graph.builder import build_graph
from lockstitch.graph.demo import copy_project
from lockstitch.graph.models.choice import choose_model
from lockstitch.graph.parts import build_parts
from lockstitch.state.errors import NoModelError
from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunInput, RunState
from lockstitch.state.settings import Settings, load_settings
from lockstitch.state.thread_lock import hold_thread_off_loop

DEMO = "scripted:demo"
SCRIPTED = (
    "lockstitch: no model is configured, so this server runs the scripted demo model in a copy of the demo "
    "project. Set OPENAI_API_KEY, or OPENAI_BASE_URL and LOCKSTITCH_MODEL, for a real one."
)


def settings_of_server(given: Settings) -> Settings:
    """The settings; without a model those of the demo, said aloud."""
    try:
        choose_model(None, given)
    except NoModelError:
        print(SCRIPTED, file=sys.stderr)  # noqa: T201  the server's own log begins later
        project = Path(tempfile.mkdtemp(prefix="lockstitch-demo-")) / "project"
        copy_project(project)
        return given.model_copy(update={"model": DEMO, "workspace": project})
    return given


def renew_demo(project: Path) -> None:
    """Put the bug back into the copy that this server made: a new thread begins at the beginning."""
    shutil.rmtree(project, ignore_errors=True)
    copy_project(project)


settings = settings_of_server(load_settings())
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
        ThreadBusyError: another process writes this thread.
    """
    thread_id = config.get("configurable", {}).get("thread_id")
    async with AsyncExitStack() as stack:
        if runtime.execution_runtime is not None and thread_id:
            lock = hold_thread_off_loop(_home.locks, str(thread_id), holder="langgraph dev")
            await stack.enter_async_context(lock)
            if _parts.settings.model == DEMO and await asyncio.to_thread(_is_new, str(thread_id)):
                await asyncio.to_thread(renew_demo, _parts.folder)
        yield _compiled


def _is_new(thread_id: str) -> bool:
    return _parts.threads is None or _parts.threads.find(thread_id) is None
