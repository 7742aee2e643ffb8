"""The ASGI app that `langgraph dev` mounts beside its own API.

For now it only gives the server back its threads after a crash: the server keeps its list of threads in
memory and writes it every ten seconds, while ours are on disk from the first step.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph_sdk import get_client
from starlette.applications import Starlette

from lockstitch.state.home import prepare_home
from lockstitch.state.ledger import open_ledger
from lockstitch.state.settings import load_settings
from lockstitch.state.threads import ThreadIndex, ThreadRow

GRAPH_ID = "agent"  # its name in langgraph.json; a thread without one looks empty to the server
THREADS_GIVEN_BACK = 1000  # the newest; older ones come back when a client names them


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001  Starlette's signature
    """Create a row in the server for every thread that is on disk."""
    client = get_client()
    for row in await asyncio.to_thread(_rows_on_disk):
        await client.threads.create(
            thread_id=row.thread_id,
            graph_id=GRAPH_ID,
            if_exists="do_nothing",
            metadata={"title": row.title, "workspace": row.workspace},
        )
    yield


def _rows_on_disk() -> list[ThreadRow]:
    home = prepare_home(load_settings().home)
    with open_ledger(home.ledger_db) as ledger:
        return ThreadIndex(ledger).recent(THREADS_GIVEN_BACK)


app = Starlette(lifespan=lifespan)
