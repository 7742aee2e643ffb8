"""Work in a thread is waited for, however often the one who waits is stopped."""

import asyncio
import threading
from typing import NoReturn

import pytest

from lockstitch.state.finished import finished


async def test_result_and_error_are_the_works() -> None:
    def refuse() -> NoReturn:
        raise ValueError("no")

    assert await finished(lambda: 7) == 7
    with pytest.raises(ValueError, match=r"^no$"):
        await finished(refuse)


@pytest.mark.parametrize("fails", [False, True])
async def test_each_further_stop_waits_as_the_first_does(fails: bool) -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)
        over.set()
        if fails:
            raise ValueError("heard by nobody")

    task = asyncio.create_task(finished(work))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(3):
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
    waits = not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waits
    assert over.is_set()
