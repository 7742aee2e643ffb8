"""Somebody on one thread of a real service, with every event of its runs."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from lockstitch.state.events import Event
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState
from lockstitch.state.threads import ThreadRow, new_thread_id
from lockstitch.studio.run_handle import RunHandle
from lockstitch.studio.service import AgentService, RunRequest

PATIENCE_S = 60.0  # for a loaded machine


@dataclass
class Person:
    """Somebody on one thread of one service; keeps every event of every run."""

    service: AgentService
    thread_id: str = field(default_factory=new_thread_id)
    events: list[Event] = field(default_factory=list)

    def start(self, prompt: str | None = None, *, reply: Any = None, **context: Any) -> RunHandle:
        return self.service.start(
            RunRequest(
                thread_id=self.thread_id,
                prompt=prompt,
                reply=reply,
                context=RunContext(door="cli", **context),
                holder="a test",
            )
        )

    async def run(self, prompt: str | None = None, *, reply: Any = None, **context: Any) -> str:
        """Run until it rests; the reason it gave."""
        return await self.read(self.start(prompt, reply=reply, **context))

    async def read(self, handle: RunHandle) -> str:
        async with asyncio.timeout(PATIENCE_S):
            self.events += [event async for event in handle.events()]
            await handle.ended()
        last = self.events[-1]
        assert last.type == "agent_completion"
        return last.reason

    async def read_until(self, handle: RunHandle, kind: type[Event] | str) -> None:
        """Read on until an event of that type came."""
        async with asyncio.timeout(PATIENCE_S):
            async for event in handle.events():
                self.events.append(event)
                if kind == event.type:
                    return

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    async def state(self) -> RunState:
        return (await self.service.view(self.thread_id)).state

    def row(self) -> ThreadRow:
        found = self.service.threads.find(self.thread_id)
        assert found is not None
        return found

    def assert_seq_is_whole(self) -> None:
        assert [event.seq for event in self.events] == list(range(1, len(self.events) + 1))


Open = Callable[..., AbstractAsyncContextManager[Person]]
