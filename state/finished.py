"""Work that cannot be stopped half-way: who is cancelled waits for its end, so that all it opened is closed.

However often: a person presses Ctrl-C twice, and a stop is sent by whoever gives up waiting for the first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def finished(work: Callable[[], T]) -> T:
    """The result of `work` in a worker thread; cancelled, it is waited for before that is told."""
    return await to_the_end(asyncio.to_thread(work))


async def to_the_end(work: Awaitable[T]) -> T:
    """The result of `work`; cancelled, it is waited for before that is told."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await settled(working)
        raise


async def settled(working: "asyncio.Future[Any]") -> None:
    """Wait until it has ended, in whichever way. Hears no cancellation: the caller has, and tells of it."""
    while not working.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([working])
    working.cancelled() or working.exception()  # heard: nobody else asks for it
