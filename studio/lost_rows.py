"""The line of a thread in the list, made again from its checkpoints."""

from typing import cast

from langchain_core.runnables import RunnableConfig

from lockstitch.graph.record import title_of
from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.home import Home
from lockstitch.state.run_state import RunState
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadRow
from lockstitch.studio.housekeeping import state_graph


async def recreate_row(settings: Settings, home: Home, thread_id: str) -> ThreadRow:
    """What a list shows of the thread; strategy and mode, in no checkpoint, are those of the settings.

    Raises:
        HomeUnusableError, SystemFaultError: the checkpoints cannot be read.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    async with open_checkpointer(home.threads_db) as saver:
        found = await state_graph().compile(checkpointer=saver).aget_state(config)
    state = cast("RunState", found.values)
    steps = state.get("steps", [])
    written = found.created_at or ""
    return ThreadRow(
        thread_id=thread_id,
        title=title_of(state),
        workspace=state.get("workspace", ""),
        model=steps[-1]["model"] if steps else "",
        strategy=settings.strategy,
        mode=settings.mode,
        door="cli",
        created_at=steps[0]["started_at"] if steps else written,
        updated_at=written,
        steps=len(steps),
        phase=state.get("phase", "idle"),
        reason=state.get("reason"),
    )
