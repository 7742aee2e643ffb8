"""Start, resume, answer and stop runs: what every door calls.

Owns the saver, the index of threads and the lock of a thread.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot
from pydantic import SecretStr

from lockstitch.graph.builder import build_graph, recursion_limit
from lockstitch.graph.client import Client, Inbox
from lockstitch.graph.conversation import answers_at_hand, repair_unanswered
from lockstitch.graph.models.source import ConfiguredModels, ModelSource
from lockstitch.graph.note import notice
from lockstitch.graph.parts import Parts, build_parts
from lockstitch.graph.prompts import load_prompt
from lockstitch.graph.quiet_nodes import quieten
from lockstitch.graph.record import thread_row
from lockstitch.graph.run import Run
from lockstitch.graph.stitch import made_meanwhile, position
from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.errors import ThreadUnknownError, UsageError
from lockstitch.state.event_stamp import EventStamp
from lockstitch.state.events import AgentCompletion, AgentStopped, Event
from lockstitch.state.home import prepare_home
from lockstitch.state.interrupts import HumanRequest
from lockstitch.state.ledger import open_ledger
from lockstitch.state.run_context import RunContext
from lockstitch.state.run_state import RunState, merge_messages
from lockstitch.state.settings import STEPS_MAX, Settings
from lockstitch.state.thread_lock import hold_for_run
from lockstitch.state.threads import ThreadIndex
from lockstitch.studio.knot import goes_on
from lockstitch.studio.run_handle import Emit, RunHandle
from lockstitch.studio.security.mask import mask_process_logs
from lockstitch.studio.stitches import Stitches

Graph = CompiledStateGraph[RunState, RunContext, Any, RunState]

CAN_GO_ON = frozenset(
    {
        "step_limit",
        "cost_limit",
        "time_limit",
        "stuck",
        "cancelled",
        "model_error",
        "system_error",
        "security_violation",
    }
)
"""Reasons after which a thread can go on without a new message; after the others it needs one."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One call of a door.

    Attributes:
        prompt: a new message; None goes on where the thread stands.
        reply: the person's answer to what the thread waits for, in any shape `state.interrupts` reads.
        holder: named to others who find the thread busy.
        answers: somebody can be asked whether to go on at a limit; else it ends the run.
        streams: somebody reads replies while they are written.
        api_key: of the client's own, for this run's models alone; never stored.
        last_seq: the last event's number that somebody was told, where more is known than the thread knows.
    """

    thread_id: str
    prompt: str | None = None
    reply: Any = None
    context: RunContext
    holder: str = "lockstitch"
    answers: bool = False
    streams: bool = False
    api_key: SecretStr | None = None
    last_seq: int = 0


@dataclass(frozen=True)
class ThreadView:
    """A thread as it stands; `unfinished`: a run was cut off and goes on by itself."""

    state: RunState = field(repr=False)  # asyncio.run makes the text of its result, twice: 0.5 s of 300 steps
    waiting_for: HumanRequest | None
    unfinished: bool


class AgentService:
    """Runs of one process on one home."""

    def __init__(self, graph: Graph, parts: Parts, threads: ThreadIndex) -> None:
        self._graph = graph
        self.parts = parts
        self.threads = threads
        self.stitches = Stitches(graph, parts, threads)

    async def view(self, thread_id: str) -> ThreadView:
        """The thread's state and what it waits for.

        Raises:
            ThreadUnknownError: nothing was ever stored under that id.
        """
        snapshot = await self._graph.aget_state(_config(thread_id))
        if snapshot.metadata is None:
            raise _unknown(thread_id)
        return _viewed(snapshot)

    async def ask_for_room(self, thread_id: str) -> None:
        """Have the thread's older turns summarised before its next model call.

        Raises:
            ThreadUnknownError: nothing was ever stored under that id.
            ThreadBusyError: another process writes this thread.
            UsageError: the thread is in the middle of a run.
        """
        async with self._held(thread_id, holder="lockstitch"):
            view = await self.view(thread_id)
            if view.unfinished or view.waiting_for is not None:
                raise UsageError("the thread is in the middle of a run: finish or stop it first.")
            config = _config(thread_id)
            await self._graph.aupdate_state(config, RunState(compact_asked=True), as_node="finish")

    def start(self, request: RunRequest) -> RunHandle:
        """Begin a run, or go on with one. Errors of the request come out of the handle's events.

        ThreadBusyError (another process writes this thread), ThreadUnknownError (nothing to go on with),
        UsageError (the thread is complete and no prompt was given, or a reply that nothing waits for).
        """
        inbox = Inbox()
        return RunHandle(partial(self._drive, request, inbox), inbox)

    async def _drive(self, request: RunRequest, inbox: Inbox, emit: Emit) -> None:
        async with self._held(request.thread_id, holder=request.holder):
            await self.stitches.settle(request.thread_id)
            snapshot = await self._graph.aget_state(_config(request.thread_id))
            given = _input(request, snapshot)
            run = await self._open_run(request, inbox, snapshot.values, emit)
            if isinstance(given, dict):  # a new run, not a leg of the one before
                run.step = 0
            try:
                await self._run_graph(given, run, emit)
                await self._forget_taken(inbox, request.thread_id)
            except asyncio.CancelledError:
                await asyncio.shield(self._record_stop(given, run))
                raise

    def _held(self, thread_id: str, *, holder: str) -> AbstractAsyncContextManager[None]:
        return hold_for_run(self.parts.home.locks, thread_id, holder=holder, on_loop=self.parts.on_loop)

    async def _forget_taken(self, inbox: Inbox, thread_id: str) -> None:
        """Leave in the inbox what no plan was handed, or lost again to an error."""
        if inbox.texts():
            state = (await self._graph.aget_state(_config(thread_id))).values
            inbox.forget({message.id for message in state.get("messages", [])})

    async def _open_run(self, request: RunRequest, inbox: Inbox, state: Any, emit: Emit) -> Run:
        """The run as its reader knows it: at the place of the last event that was told."""
        models: ModelSource | None = None
        if request.api_key is not None:
            models = await asyncio.to_thread(ConfiguredModels, self.parts.settings, request.api_key)
        client = Client(
            hear=emit,
            models=models,
            answers=request.answers,
            streams=request.streams,
            last_seq=request.last_seq,
            inbox=inbox,
        )
        last_seq, run_id = max(state.get("last_seq", 0), request.last_seq), str(uuid4())
        stamp = EventStamp(thread_id=request.thread_id, run_id=run_id, last_seq=last_seq, now=self.parts.now)
        step = state.get("step", 0)
        return Run(self.parts, request.context, stamp, emit, client, step=step)

    async def _run_graph(self, given: Any, run: Run, emit: Emit) -> None:
        def hear(event: Event) -> None:
            run.stamp.seq, run.step = event.seq, event.step
            emit(event)

        config = _config(run.stamp.thread_id)
        config["run_id"] = run.stamp.run_id  # type: ignore[typeddict-item]  # LangGraph takes the text
        config["recursion_limit"] = recursion_limit(STEPS_MAX)
        assert run.client is not None
        self.parts.clients[run.stamp.run_id] = replace(run.client, hear=hear)
        try:
            async for _ in self._graph.astream(
                given, config, context=run.context, stream_mode=[], durability="sync"
            ):
                pass  # no stream mode: nothing comes, and LangGraph need not wake for it
        except BaseException:  # stopped or failed, in a node or between two
            await asyncio.shield(self.parts.processes.end_run(run.process_owner))
            raise
        finally:
            del self.parts.clients[run.stamp.run_id]

    async def _record_stop(self, given: Any, run: Run) -> None:
        """Write into the thread that a person stopped it, and answer the calls that were cut off.

        The person's words come too, since they may not have been stored yet.
        """
        config = _config(run.stamp.thread_id)
        await self._graph.aupdate_state(config, None, as_node=END)  # keeps what finished, drops what did not
        state = cast("RunState", (await self._graph.aget_state(config)).values)
        run.emit(AgentStopped())
        run.enter("cancelled")
        run.emit(AgentCompletion(steps=run.step, reason="cancelled"))
        said = [*(given["messages"] if isinstance(given, dict) else []), *run.typed_since(state)]
        messages = merge_messages(state.get("messages", []), [said])
        made = await asyncio.to_thread(made_meanwhile, state, run)
        words = f"The run was stopped at step {run.step}."
        update = RunState(
            messages=[*said, *repair_unanswered(messages, made | answers_at_hand(state)), notice(words)],  # type: ignore[list-item]
            reason="cancelled",
            phase="cancelled",
            step=run.step,
            final_answer=words,
            calls=[],
            outcomes=[],
            draft=None,
            last_seq=run.stamp.seq,
            **await asyncio.to_thread(position, run),  # what the calls that were cut off had changed, too
        )
        await self._graph.aupdate_state(config, update, as_node="finish")
        if run.client:
            run.client.inbox.forget({message.id for message in messages})
        row = thread_row(RunState({**state, **update, "messages": messages}), run)
        await asyncio.to_thread(self.threads.record, row)


@asynccontextmanager
async def open_service(settings: Settings, *, on_loop: bool = True) -> AsyncIterator[AgentService]:
    """A service on the home that the settings name; `on_loop` as in Parts.

    Raises:
        HomeUnusableError: the home cannot be created, read or written.
    """
    home = await asyncio.to_thread(prepare_home, settings.home)
    mask_process_logs(settings)
    with await asyncio.to_thread(open_ledger, home.ledger_db) as ledger:
        parts = await asyncio.to_thread(build_parts, settings, home, ledger=ledger, on_loop=on_loop)
        async with open_checkpointer(home.threads_db, in_loop=on_loop) as saver:
            try:
                graph = quieten(build_graph(parts).compile(checkpointer=saver))
                yield AgentService(graph, parts, ThreadIndex(ledger))
            finally:
                await parts.processes.end_all()
                if parts.facts:
                    parts.facts.close()


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _viewed(snapshot: StateSnapshot) -> ThreadView:
    waiting = snapshot.interrupts[0].value if snapshot.interrupts else None
    return ThreadView(cast("RunState", snapshot.values), waiting, goes_on(snapshot) and waiting is None)


def _input(request: RunRequest, snapshot: StateSnapshot) -> Any:
    """What the graph is given: an answer, a new message, or nothing when it goes on by itself."""
    view = _viewed(snapshot)
    if request.reply is not None:
        if view.waiting_for is None:
            raise UsageError("this thread waits for no answer: give it a prompt instead.")
        return Command(resume=request.reply)
    if request.prompt is not None:
        return _said(request.prompt)
    if view.waiting_for is not None:
        raise UsageError(
            "this thread waits for a person: answer with --approve, --reject WHY or --answer TEXT."
        )
    if view.unfinished:
        return None
    if snapshot.metadata is None:
        raise _unknown(request.thread_id)
    if view.state.get("reason") in CAN_GO_ON:
        return _said(load_prompt("go_on"))
    raise UsageError("this thread is complete: give it a new prompt to go on.")


def _said(text: str) -> dict[str, Any]:
    """A message with an id from the start: it may be written twice, and must be there once."""
    return {"messages": [HumanMessage(text, id=str(uuid4()))]}


def _unknown(thread_id: str) -> ThreadUnknownError:
    return ThreadUnknownError(f"there is no thread {thread_id}: `lockstitch threads` lists those there are.")
