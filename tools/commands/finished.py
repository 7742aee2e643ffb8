"""Work in a thread that is always waited for, so that all it opened can be closed."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def finished(work: Callable[[], T]) -> T:
    """The result of `work` in a worker thread; cancelled, it is waited for before that is told."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.cancelled() or working.exception()  # heard: nobody else asks for it
        raise
