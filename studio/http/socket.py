"""The WebSocket at /ws: one client's talk with runs, a thread at a time."""

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from starlette.websockets import WebSocket, WebSocketDisconnect

from lockstitch.state.errors import AgentError
from lockstitch.state.events import AgentAnswer, AgentCompletion
from lockstitch.state.reasons import TerminationReason
from lockstitch.state.threads import new_thread_id
from lockstitch.studio.http.choices import run_context
from lockstitch.studio.http.desk import Desk, desk_of, key_of
from lockstitch.studio.http.event_stream import socket_messages
from lockstitch.studio.http.problems import (
    OUR_FAULT,
    Problem,
    RefusedError,
    describe_error,
    describe_faults,
)
from lockstitch.studio.http.schemas import (
    PROMPT_CHARS,
    Answer,
    Name,
    Prompt,
    RunChoices,
    Sent,
    Seq,
    Steps,
    ThreadId,
)
from lockstitch.studio.service import RunRequest

_log = logging.getLogger(__name__)
NO_RUN: Final = "No run goes on, and the thread waits for no answer: send a chat message."


class ChatChoices(RunChoices):
    """What a client may choose for a run, under the names that the socket has for it."""

    strategy: Name | None = Field(default=None, alias="agent_loop_strategy")
    max_steps: Steps | None = Field(default=None, alias="agent_max_steps", description="default 10")
    agent_mode: bool = Field(default=True, description="false: one plain model call without tools")


class Chat(ChatChoices):
    """Begin a run."""

    type: Literal["chat"]
    content: Prompt
    thread_id: ThreadId | None = None


class Resume(ChatChoices):
    """Go on where a thread stands, without a new prompt."""

    type: Literal["agent_resume"]
    thread_id: ThreadId


class Control(Sent):
    """Stop the run."""

    type: Literal["agent_control"]
    action: Literal["stop"]
    thread_id: ThreadId | None = None


class UserInput(Sent):
    """The answer to a question, or words for the next step of a run that goes on."""

    type: Literal["agent_user_input"]
    content: Annotated[str, Field(max_length=PROMPT_CHARS)]
    thread_id: ThreadId | None = None


class Approval(Answer):
    """A person's word on an action."""

    type: Literal["agent_approval"]
    action_id: Name
    thread_id: ThreadId | None = None


class Follow(Sent):
    """Hear a run that goes on, from the event after `after`."""

    type: Literal["agent_follow"]
    thread_id: ThreadId
    after: Seq = 0


Message = Annotated[Chat | Resume | Control | UserInput | Approval | Follow, Field(discriminator="type")]
_MESSAGE: Final[TypeAdapter[Message]] = TypeAdapter(Message)


class ResponseComplete(BaseModel):
    """What follows the last event of every run, and of every stretch up to a question."""

    model_config = ConfigDict(frozen=True)

    type: Literal["response_complete"] = "response_complete"
    thread_id: str
    content: str
    steps: int
    reason: TerminationReason


async def serve_socket(websocket: WebSocket) -> None:
    """Talk with one client until it leaves; its runs go on."""
    await websocket.accept()
    talk = Talk(websocket, desk_of(websocket))
    try:
        async for text in websocket.iter_text():
            await talk.take(text)
    except (WebSocketDisconnect, RuntimeError):  # it left while we spoke; Starlette has two words for that
        return
    finally:
        await talk.leave()


class Talk:
    """What is said over one socket."""

    def __init__(self, websocket: WebSocket, desk: Desk) -> None:
        self._websocket = websocket
        self._desk = desk
        self._thread_id: str | None = None
        self._following: asyncio.Task[None] | None = None

    async def take(self, text: str) -> None:
        """Do what one message asks for, or say why not."""
        try:
            await self._do(_MESSAGE.validate_json(text))
        except ValidationError as error:
            await self._refuse(describe_faults([_placed(fault) for fault in error.errors()]))
        except AgentError as error:
            await self._refuse(describe_error(error)[1])
        except Exception as error:  # noqa: BLE001  the border of the door: its text may hold anything
            _log.error("a message failed (%s)", type(error).__name__)
            await self._refuse(Problem(message=OUR_FAULT, error="system_error"))

    async def leave(self) -> None:
        """Follow no run any more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _do(self, message: Message) -> None:
        match message:
            case Chat():
                await self._start(message, message.thread_id or new_thread_id(), prompt=message.content)
            case Resume():
                await self._start(message, message.thread_id, prompt=None)
            case Control():
                await self._desk.stop(self._thread(message.thread_id))
            case UserInput():
                await self._hear(message)
            case Approval():
                thread_id = self._thread(message.thread_id)
                after = await self._desk.answer(thread_id, message, action_id=message.action_id)
                await self._follow(thread_id, after)
            case Follow():
                await self._desk.row(message.thread_id)
                await self._follow(message.thread_id, message.after)

    async def _start(self, choices: ChatChoices, thread_id: str, *, prompt: str | None) -> None:
        context = await run_context(
            choices,
            self._desk,
            max_steps=choices.max_steps,
            agent_mode=choices.agent_mode,
            names={"strategy": "agent_loop_strategy"},
        )
        request = RunRequest(
            thread_id=thread_id,
            prompt=prompt,
            context=context,
            answers=True,
            streams=True,
            api_key=key_of(choices.user_api_keys),
        )
        await self._follow(thread_id, await self._desk.start(request))

    async def _hear(self, message: UserInput) -> None:
        thread_id = self._thread(message.thread_id)
        if self._desk.board.say(thread_id, message.content):
            return
        await self._desk.check_here(thread_id)
        if (await self._desk.view(thread_id)).waiting_for is None:
            raise RefusedError(409, "not_waiting", NO_RUN)
        answer = Answer(decision="respond", message=message.content)
        await self._follow(thread_id, await self._desk.answer(thread_id, answer))

    def _thread(self, named: str | None) -> str:
        thread_id = named or self._thread_id
        if thread_id is None:
            raise RefusedError(400, "invalid", "Name the thread that is meant.", field="thread_id")
        return thread_id

    async def _follow(self, thread_id: str, after: int) -> None:
        await self.leave()
        self._thread_id = thread_id
        self._following = asyncio.create_task(self._tell(thread_id, after))

    async def _tell(self, thread_id: str, after: int) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            if await self._tell_events(thread_id, after) != "waiting":
                return
            await asyncio.sleep(self._desk.settings.request_input_timeout_s)  # cut off by any new word
            await self._send(*socket_messages(await self._desk.nobody_answered(thread_id)))

    async def _tell_events(self, thread_id: str, after: int) -> TerminationReason | None:
        """Tell the run's events; why it ended, None where its end was not among them."""
        reason, content = None, ""
        async with aclosing(self._desk.follow(thread_id, after=after)) as events:
            async for event in events:
                await self._send(*socket_messages(event))
                if isinstance(event, AgentAnswer):
                    content = event.content
                if isinstance(event, AgentCompletion):
                    reason = event.reason
                    end = ResponseComplete(
                        thread_id=thread_id, content=content, steps=event.steps, reason=reason
                    )
                    await self._send(end.model_dump())
        return reason

    async def _refuse(self, problem: Problem) -> None:
        await self._send({"type": "error", "thread_id": self._thread_id, **problem.model_dump()})

    async def _send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            await self._websocket.send_json(message)


def _placed(fault: ErrorDetails) -> ErrorDetails:
    """The fault with its place in the message: pydantic puts the message's type before it, or nothing."""
    untyped = fault["type"] in ("union_tag_not_found", "union_tag_invalid")
    return {**fault, "loc": ("type",) if untyped else fault["loc"][1:]}
