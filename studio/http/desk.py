"""The desk: what every route is handed, and the words between a route and a run."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final
from weakref import WeakValueDictionary

from fastapi import Depends
from pydantic import SecretStr
from starlette.requests import HTTPConnection

from lockstitch.graph.keyless import DemoProject
from lockstitch.graph.parts import Parts
from lockstitch.state.errors import AgentError, ThreadUnknownError
from lockstitch.state.events import (
    AgentCompletion,
    AgentErrorEvent,
    AgentRequestInputTimeout,
    Event,
)
from lockstitch.state.interrupts import HumanRequest
from lockstitch.state.run_context import RunContext
from lockstitch.state.settings import Settings
from lockstitch.state.threads import ThreadRow, check_thread_id
from lockstitch.studio.board import Board
from lockstitch.studio.housekeeping import Housekeeping, open_housekeeping
from lockstitch.studio.http.problems import RefusedError, describe_error
from lockstitch.studio.http.roots import allowed_folder
from lockstitch.studio.http.schemas import Answer, UserApiKeys
from lockstitch.studio.service import RunRequest, ThreadView
from lockstitch.studio.stitches import Stitches

MAY_RUN: Final = frozenset({"planning", "waiting"})  # as the index has it while a run goes on
ELSEWHERE: Final = (
    "Another process is running this thread. Stop it there, or wait until it ends; its steps are shown here."
)
CHOICES_KEPT: Final = 1000  # threads whose last choices are remembered, for the answer that goes on


class Desk:
    """One server's board with what its clients chose. Lives in the app's state.

    `demo` is there where no model is configured: its project is renewed for every new thread.
    """

    def __init__(
        self, board: Board, settings: Settings, roots: Sequence[Path], demo: DemoProject | None = None
    ) -> None:
        self.board = board
        self._demo = demo
        self.settings = settings
        self.roots = tuple(roots)
        self._choices: OrderedDict[str, RunRequest] = OrderedDict()
        # set at the thread's next start; each lives as long as a stream that waits for it
        self._begun: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    @property
    def parts(self) -> Parts:
        """What the graph works with."""
        return self.board.service.parts

    @property
    def stitches(self) -> Stitches:
        """The past of the threads, and the ways back and forth in it."""
        return self.board.service.stitches

    async def start(self, request: RunRequest) -> int:
        """Begin a run, which goes on whether or not anybody follows it; the seq after which its events come.

        Raises:
            AgentError: the request cannot be followed.
            RefusedError: the thread's folder lies outside of the allowed roots.
        """
        await asyncio.to_thread(self._prepare_folder, request)
        after = await self.board.start(request)
        self._choices[request.thread_id] = replace(request, prompt=None, reply=None, api_key=None)
        self._choices.move_to_end(request.thread_id)
        while len(self._choices) > CHOICES_KEPT:
            self._choices.popitem(last=False)
        begun = self._begun.pop(request.thread_id, None)
        if begun is not None:
            begun.set()
        return after

    async def answer(self, thread_id: str, answer: Answer, *, action_id: str | None = None) -> int:
        """Give a person's word to a thread that waits for it; the run goes on under its own choices.

        Gives the seq after which its events come.

        Raises:
            RefusedError: it waits for nothing, or for something else.
            ThreadUnknownError: there is none.
        """
        waits_for = (await self.view(thread_id)).waiting_for
        if waits_for is None:
            raise RefusedError(409, "not_waiting", "The thread waits for nobody: give it a prompt instead.")
        if action_id is not None and waits_for["action_id"] != action_id:
            raise RefusedError(409, "other_action", "The thread waits for another answer than this one.")
        request = await self._begun_with(thread_id)
        key = key_of(answer.user_api_keys)
        return await self.start(replace(request, reply=_reply(answer, waits_for), api_key=key))

    async def stop(self, thread_id: str) -> bool:
        """Stop the thread's run; False when none goes on.

        Raises:
            RefusedError: another process runs it.
        """
        if self.board.stop(thread_id):
            return True
        await self.check_here(thread_id)
        return False

    async def check_here(self, thread_id: str) -> None:
        """Raise RefusedError where another process runs the thread."""
        if not self.board.is_running(thread_id) and await self.board.elsewhere.writer(thread_id):
            raise RefusedError(409, "busy", ELSEWHERE)

    async def writers(self, rows: Sequence[ThreadRow]) -> dict[str, str]:
        """Who runs which of the threads, where this server does not; see `Elsewhere.writer`."""
        may = [row for row in rows if row.phase in MAY_RUN and not self.board.is_running(row.thread_id)]
        found = [(row.thread_id, await self.board.elsewhere.writer(row.thread_id)) for row in may]
        return {thread_id: writer for thread_id, writer in found if writer}

    async def view(self, thread_id: str) -> ThreadView:
        """The thread as it stands.

        Raises:
            ThreadUnknownError: there is none.
        """
        return await self.board.service.view(check_thread_id(thread_id))

    async def row(self, thread_id: str) -> ThreadRow:
        """The thread's row in the index.

        Raises:
            ThreadUnknownError: there is none.
        """
        row = await asyncio.to_thread(self.board.service.threads.find, check_thread_id(thread_id))
        if row is None:
            raise ThreadUnknownError("there is no such thread.")
        return row

    async def known(self, thread_id: str) -> str:
        """The id of a thread that runs here, or that the index has: a run's first moments are in neither.

        Raises:
            ThreadUnknownError: there is none.
        """
        thread_id = check_thread_id(thread_id)
        if not self.board.is_running(thread_id):
            await self.row(thread_id)
        return thread_id

    async def rows(self, limit: int) -> list[ThreadRow]:
        """The threads that were last active, the last one first; -1 is all of them."""
        return await asyncio.to_thread(self.board.service.threads.recent, limit)

    async def last_seq(self, thread_id: str) -> int:
        """The place of the thread's last kept event; 0 where there is none."""
        return await asyncio.to_thread(self.board.log.last_seq, thread_id)

    async def follow(self, thread_id: str, *, after: int) -> AsyncGenerator[Event, None]:
        """The events with a greater `seq`, until the thread rests. What stops a run is an event, too."""
        try:
            async with aclosing(self.board.follow(thread_id, after=after)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except AgentError as error:
            _, problem = describe_error(error)
            yield AgentErrorEvent(thread_id=thread_id, message=problem.message)

    async def follow_on(self, thread_id: str, *, after: int) -> AsyncGenerator[Event, None]:
        """As `follow`, and on through every wait for a person, until nobody answered in time."""
        while True:
            begun = self._begun.setdefault(thread_id, asyncio.Event())  # before: no start may be missed
            last: Event | None = None
            async with aclosing(self.follow(thread_id, after=after)) as events:
                async for event in events:
                    last, after = event, max(after, event.seq)
                    yield event
            if not isinstance(last, AgentCompletion) or last.reason != "waiting":
                return
            try:
                async with asyncio.timeout(self.settings.request_input_timeout_s):
                    await begun.wait()
            except TimeoutError:
                yield await self.nobody_answered(thread_id)
                return

    async def nobody_answered(self, thread_id: str) -> Event:
        """What a client is told when a person took too long; the thread goes on waiting."""
        waits_for = (await self.view(thread_id)).waiting_for
        timeout_s = float(self.settings.request_input_timeout_s)
        action_id = waits_for["action_id"] if waits_for else ""
        return AgentRequestInputTimeout(thread_id=thread_id, action_id=action_id, timeout_s=timeout_s)

    @asynccontextmanager
    async def housekeeping(self) -> AsyncIterator[Housekeeping]:
        """What deletes and clears threads."""
        async with open_housekeeping(self.settings) as housekeeping:
            yield housekeeping

    async def forget(self, thread_id: str) -> None:
        """Delete a thread with its events.

        Raises:
            ThreadBusyError: a run is writing it.
            ThreadUnknownError: there is none.
        """
        async with self.housekeeping() as housekeeping:
            await housekeeping.delete(thread_id)
        await self.parts.processes.forget(thread_id)
        self._choices.pop(thread_id, None)

    def _prepare_folder(self, request: RunRequest) -> None:
        row = self.board.service.threads.find(request.thread_id)
        if row is not None and request.context.workspace is None:
            allowed_folder(row.workspace, self.roots)
        if row is None and self._demo is not None:
            self._demo.renew()

    async def _begun_with(self, thread_id: str) -> RunRequest:
        """What the run was begun with; after a restart of the server what the index knows of it."""
        known = self._choices.get(thread_id)
        if known is not None:
            return known
        row = await self.row(thread_id)
        context = RunContext(strategy=row.strategy, mode=row.mode, door="http")
        return RunRequest(thread_id=row.thread_id, context=context)


def desk_of(connection: HTTPConnection) -> Desk:
    """The desk of the app that was asked."""
    desk: Desk = connection.app.state.desk
    return desk


TheDesk = Annotated[Desk, Depends(desk_of)]


def key_of(keys: UserApiKeys | None) -> SecretStr | None:
    """The client's own key for the model; an empty one is none."""
    key = keys.llm_key if keys else None
    return key if key and key.get_secret_value().strip() else None


def _reply(answer: Answer, waits_for: HumanRequest) -> dict[str, Any]:
    """The answer as the graph reads it."""
    match answer.decision:
        case "edit":
            if answer.args is None:
                raise RefusedError(
                    400, "invalid", "An edit needs the arguments to use instead.", field="args"
                )
            name = waits_for["action_requests"][0]["name"]
            action = {"name": name, "args": answer.args}
            return {"type": "edit", "edited_action": action, "digest": answer.digest}
        case "approve":
            return {"type": "approve", "always": answer.always, "digest": answer.digest}
        case _:
            return {"type": answer.decision, "message": answer.message}
